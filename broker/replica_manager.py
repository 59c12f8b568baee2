"""The partitions on this broker (edge).

Owns the replicas, and tells the purgatory what has changed in them. Every method is called in the
loop's thread. A failure of the disk is told to the client as an `ApiError`.
"""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from broker.errors import as_api_error
from broker.metadata_cache import MetadataCache
from broker.purgatory import Purgatory
from broker.replica import NO_EPOCH, ReadResult, Replica
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import Offset, TopicPartition
from storage.errors import StorageError
from storage.log import AppendInfo

log = structlog.get_logger(__name__)

# A TopicPartition, or the bare tuple equal to it, which costs a quarter to make.
Key = tuple[str, int]


class ReplicaManager:
    """Finds the replica that a request means, and reads or writes it."""

    def __init__(self, metadata: MetadataCache, purgatory: Purgatory[TopicPartition]) -> None:
        self._metadata = metadata
        self._purgatory = purgatory
        self._replicas: dict[Key, Replica] = {}

    def __iter__(self) -> Iterator[Replica]:
        return iter(list(self._replicas.values()))

    @property
    def partition_count(self) -> int:
        """How many partitions this broker holds."""
        return len(self._replicas)

    def holds(self, topic_partition: TopicPartition) -> bool:
        """Whether this broker serves a partition."""
        return topic_partition in self._replicas

    def add(self, replica: Replica) -> None:
        """Serve `replica` from now on."""
        assert replica.topic_partition not in self._replicas, "a partition is held once"
        self._replicas[replica.topic_partition] = replica

    def remove(self, topic_partition: TopicPartition) -> None:
        """Stop serving a partition; those who wait for it are told so."""
        del self._replicas[topic_partition]
        self._purgatory.on_change(topic_partition)

    def leader(self, key: Key, epoch: int = NO_EPOCH) -> Replica:
        """Return the replica that leads the partition in `epoch` (NO_EPOCH: in any).

        Raises:
            ApiError: unknown partition, another broker leads it, or another epoch.
        """
        replica = self._replicas.get(key)
        if replica is None:
            raise self._missing(key)
        if epoch != NO_EPOCH:
            replica.check_leader_epoch(epoch)
        return replica

    def append(self, key: Key, batch: memoryview, acks: int, now_ms: int) -> AppendInfo:
        """Append one batch to the local leader; see `Replica.append`.

        Raises:
            ApiError: not the leader, too few in-sync replicas, a bad batch, or a failed disk.
        """
        replica = self._replicas.get(key)
        if replica is None:
            raise self._missing(key)
        try:
            info = replica.append(batch, acks, now_ms)
        except (StorageError, OSError) as error:
            raise self._failed(key, error) from error
        self._purgatory.on_change(replica.topic_partition)
        return info

    def read(
        self,
        key: Key,
        offset: int,
        max_bytes: int,
        *,
        leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        min_one_batch: bool,
    ) -> ReadResult:
        """Read from the local leader for a consumer; see `Replica.read`.

        Raises:
            ApiError: not the leader (in that epoch), offset out of range, or a failed disk.
        """
        replica = self.leader(key, leader_epoch)
        try:
            return replica.read(
                offset,
                max_bytes,
                last_fetched_epoch=last_fetched_epoch,
                min_one_batch=min_one_batch,
            )
        except (StorageError, OSError) as error:
            raise self._failed(key, error) from error

    def delete_records(self, key: Key, offset: int) -> Offset:
        """Delete the records below `offset`; return the first offset that is left.

        Raises:
            ApiError: not the leader, not allowed, out of range, or a failed disk.
        """
        replica = self.leader(key)
        try:
            return replica.delete_records(offset)
        except (StorageError, OSError) as error:
            raise self._failed(key, error) from error

    def is_committed(self, key: Key, offset: Offset) -> bool:
        """Whether consumers may see `offset`; False if this broker does not lead (any more)."""
        replica = self._replicas.get(key)
        return replica is not None and replica.replication.high_watermark > offset

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """Return the high watermark of every partition; any thread may call this."""
        return {each.topic_partition: each.high_watermark for each in self}

    def high_watermark(self, key: Key) -> Offset | None:
        """Return the high watermark of a partition; None if this broker does not serve it."""
        replica = self._replicas.get(key)
        return None if replica is None else replica.high_watermark

    def _missing(self, key: Key) -> ApiError:
        state = self._metadata.image.partition(TopicPartition(*key))
        if state is None:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if state.offline_replicas:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _failed(self, key: Key, error: Exception) -> ApiError:
        told = as_api_error(error)
        if told.code is ErrorCode.KAFKA_STORAGE_ERROR:
            log.error("log.failed", partition=str(TopicPartition(*key)), error=str(error))
        return told

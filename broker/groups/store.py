"""Writes to `__consumer_offsets`, and reports when a write is replicated (edge).

Invariant: a write is reported as successful only while this broker leads the partition in the epoch
of the append. In another epoch the records may have been truncated and replaced by others, and a
high watermark that passes them proves nothing (KAFKA-20634).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from broker.purgatory import Purgatory
from broker.replication.replica import Replica
from kafkawire.compression import Codec
from kafkawire.errors import ApiError, EncodeError, ErrorCode
from kafkawire.group_records import OFFSETS_TOPIC
from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.records import BatchBuilder
from kafkawire.sentinels import ACKS_ALL, NO_EPOCH, NO_OFFSET
from storage.log.log import AppendInfo

KeyValue: TypeAlias = tuple[bytes, bytes | None]
OnStored: TypeAlias = Callable[[ErrorCode, int], None]
"""Called once, with an error of the log (NONE: replicated) and the first record's offset."""


class Replicas(Protocol):
    """The replica manager, as the group coordinator and its parts use it."""

    def append(self, key: tuple[str, int], batch: memoryview, acks: int, now_ms: int) -> AppendInfo:
        """Append to the local leader; see `ReplicaManager.append`."""

    def leader(self, key: tuple[str, int], epoch: int = NO_EPOCH) -> Replica:
        """Return the leading replica; raises as `ReplicaManager.leader`."""


class GroupStore:
    """Appends to the partitions that this broker leads."""

    def __init__(
        self,
        replicas: Replicas,
        purgatory: Purgatory[TopicPartition],
        *,
        codec: Codec,
        commit_timeout_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._replicas = replicas
        self._purgatory = purgatory
        self._codec = codec
        self._commit_timeout_ms = commit_timeout_ms
        self._now_ms = now_ms

    def append(
        self,
        partition: int,
        leader_epoch: LeaderEpoch,
        records: Iterable[KeyValue],
        on_stored: OnStored,
    ) -> None:
        """Append `records` as one batch; `on_stored` may be called before this returns.

        Records that cannot be encoded, which an iterator may detect here, are reported like a batch
        that the log refuses.
        """
        key, now_ms = TopicPartition(OFFSETS_TOPIC, partition), self._now_ms()
        builder = BatchBuilder(self._codec)
        try:
            for each, value in records:
                builder.append(now_ms, each, value)
            batch = memoryview(builder.build())
            self._replicas.leader(key, leader_epoch)
            info = self._replicas.append(key, batch, ACKS_ALL, now_ms)
        except EncodeError:
            on_stored(ErrorCode.RECORD_LIST_TOO_LARGE, NO_OFFSET)
            return
        except ApiError as error:
            on_stored(error.code, NO_OFFSET)
            return
        delayed = DelayedStore(self._replicas, key, leader_epoch, info, on_stored)
        self._purgatory.hold(delayed, [key], self._commit_timeout_ms)


class DelayedStore:
    """Waits until a batch is replicated."""

    def __init__(
        self,
        replicas: Replicas,
        key: TopicPartition,
        leader_epoch: LeaderEpoch,
        info: AppendInfo,
        on_stored: OnStored,
    ) -> None:
        self._replicas = replicas
        self._key = key
        self._leader_epoch = leader_epoch
        self._base_offset, self._last_offset = info.base_offset, info.last_offset
        self._on_stored = on_stored
        # The result unless another one is known before the timeout.
        self._error = ErrorCode.REQUEST_TIMED_OUT

    def is_satisfied(self, changed: TopicPartition | None) -> bool:
        """Whether the batch is replicated, or this broker can no longer find out."""
        del changed
        try:
            leadership = self._replicas.leader(self._key, self._leader_epoch).leadership
        except ApiError:
            self._error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return True
        assert leadership is not None, "a leader leads"
        if leadership.high_watermark <= self._last_offset:
            return False
        self._error = (
            ErrorCode.NONE if leadership.has_min_isr else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        )
        return True

    def complete(self) -> None:
        """Report the result."""
        self._on_stored(self._error, Offset(self._base_offset))


def commit_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a client whose offsets could not be stored."""
    return _COMMIT_ERRORS.get(error, error)


def rebalance_error(error: ErrorCode) -> ErrorCode:
    """Return the error for members whose group could not be stored."""
    return _REBALANCE_ERRORS.get(error, error)


_UNAVAILABLE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
_COMMIT_ERRORS = _UNAVAILABLE | {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}
_REBALANCE_ERRORS = _UNAVAILABLE | {
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

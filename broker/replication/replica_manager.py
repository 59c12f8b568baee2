"""Serves the partitions on this broker to clients and followers (edge).

Finds the replica for a request, reads or writes it, and notifies waiting requests of the change.
Every method must be called in the event loop's thread unless its docstring says otherwise. A disk
failure reaches the client as an `ApiError`. `replica_roles` handles the requests of controllers,
`replica_fetchers` the copies from other brokers, `isr_proposals` the ISR proposals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import structlog

from broker.cluster.metadata_cache import Endpoint, MetadataCache
from broker.config.replication_keys import ReplicationKeys
from broker.errors import as_api_error
from broker.network.request_tasks import RequestTasks
from broker.purgatory import Purgatory
from broker.replication.batch_rules import BatchRules
from broker.replication.follower_service import FollowerService
from broker.replication.isr.isr_proposals import IsrProposals, IsrRecorder
from broker.replication.leadership import Limits
from broker.replication.replica import ReadResult, Replica
from broker.replication.replica_fetchers import ReplicaFetchers
from broker.replication.replica_roles import LeadershipListener, ReplicaRoles
from broker.replication.replica_table import Key, ReplicaTable
from broker.replication.throttle import follower_throttle
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, Offset, TopicId, TopicPartition
from kafkawire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkawire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkawire.records import BatchHeader, Budget
from kafkawire.sentinels import NO_EPOCH
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.errors import LogDirFullError, LogDirOfflineError, StorageError
from storage.log.log import AppendInfo, Log

__all__ = ["Key", "LeadershipListener", "ReplicaManager"]

log = structlog.get_logger(__name__)

ALREADY_REPORTED: Final = (LogDirFullError, LogDirOfflineError)
"""Errors that are logged once, when the state begins, and not for each failed request."""
OPENING_RETRY_S: Final = 1.0
"""Interval between checks whether log dirs have space again."""


class ReplicaManager:
    """Leads and follows partitions. `start` and `stop` it once each, in the event loop."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        logs: Logs,
        metadata: MetadataCache,
        purgatory: Purgatory[TopicPartition],
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        log_config_of: Callable[[str], LogConfig],
        endpoint_of: Callable[[BrokerId], Endpoint | None] = lambda _broker_id: None,
        isr_recorder: IsrRecorder | None = None,
        config: ReplicationKeys | None = None,
        is_in_touch: Callable[[], bool] = lambda: True,
    ) -> None:
        """Serve no partition until the controller assigns one.

        `endpoint_of` returns the address where another broker accepts requests of brokers,
        `log_config_of` the configs of a topic's logs. `isr_recorder` sends ISR proposals to the
        controller; a standalone broker needs none. `is_in_touch` returns whether this broker's
        session is alive, as far as it knows.
        """
        self.config = config or ReplicationKeys()
        self._broker_id = broker_id
        self._metadata = metadata
        self._purgatory = purgatory
        self._loop = loop
        self._now_ms = now_ms
        self._is_in_touch = is_in_touch
        self._change_listeners: tuple[Callable[[TopicPartition], None], ...] = ()
        self.table = ReplicaTable()
        self._by_key = self.table.by_key
        self.follower_throttle = follower_throttle(broker_id)
        self._fetchers = ReplicaFetchers(
            broker_id,
            table=self.table,
            logs=logs,
            endpoint_of=endpoint_of,
            broker_epoch=lambda: self.roles.fence.broker_epoch,
            throttle=self.follower_throttle,
            config=self.config,
            loop=loop,
            now_ms=now_ms,
        )
        self._isr_proposals = IsrProposals(
            isr_recorder,
            table=self.table,
            on_high_watermark=self.changed,
            loop=loop,
            now_ms=now_ms,
        )
        self.followers = FollowerService(
            broker_id, self, table=self.table, isr_proposals=self._isr_proposals
        )
        """Serves the followers of partitions that this broker leads."""
        self.roles = ReplicaRoles(
            broker_id,
            table=self.table,
            logs=logs,
            metadata=metadata,
            fetchers=self._fetchers,
            on_change=self.changed,
            log_config_of=log_config_of,
            config=self.config,
            loop=loop,
            now_ms=now_ms,
        )
        self.control_queue = RequestTasks(loop, max_running=1)
        """Queue of the controllers' requests, which are handled one after the other."""
        self._tick_timer: asyncio.TimerHandle | None = None
        self._retry_timer: asyncio.TimerHandle | None = None
        self._live_brokers: frozenset[BrokerId] = frozenset()

    def __iter__(self) -> Iterator[Replica]:
        return iter(self.table)

    @property
    def isr_change_counts(self) -> tuple[int, int]:
        """Number of times that in-sync sets led here have shrunk, and grown."""
        return self._isr_proposals.shrink_count, self._isr_proposals.expand_count

    @property
    def partition_count(self) -> int:
        """Number of partitions on this broker."""
        return len(self.table)

    # Lifecycle

    def start(self) -> None:
        """Start to check for lagging followers."""
        self._set_tick_timer()

    async def stop(self) -> None:
        """Stop fetching and sending proposals; appends and reads still work."""
        for timer in (self._tick_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        await self.control_queue.stop()
        await self._isr_proposals.stop()
        await self._fetchers.stop()

    def add_leadership_listener(self, listener: LeadershipListener) -> None:
        """Notify `listener` of every leadership that begins or ends here."""
        self.roles.add_listener(listener)

    def add_change_listener(self, listener: Callable[[TopicPartition], None]) -> None:
        """Call `listener` with each partition whose log, high watermark or role changes."""
        self._change_listeners = (*self._change_listeners, listener)

    # Events from the rest of the node

    async def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, version: int, connection: int = 0
    ) -> LeaderAndIsrResponse:
        """Handle a controller's request. Handlers call this through `control_queue`."""
        try:
            return await self.roles.become_leader_or_follower(request, version, connection)
        finally:
            self._retry_later()

    async def stop_replicas(
        self, request: StopReplicaRequest, version: int, connection: int = 0
    ) -> StopReplicaResponse:
        """Handle a controller's request. Handlers call this through `control_queue`."""
        return await self.roles.stop_replicas(request, version, connection)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Stop serving a partition; requests that wait for it fail."""
        self.roles.remove(topic_partition)

    def on_registered(self, broker_epoch: int) -> None:
        """Adopt the epoch of a new registration, which fences earlier incarnations."""
        self.roles.on_registered(broker_epoch)
        self._isr_proposals.on_metadata_changed()

    def on_metadata_changed(self) -> None:
        """Resume after a broker or the controller has become known, or has moved."""
        self._fetchers.on_metadata_changed()
        self._isr_proposals.on_metadata_changed()
        live = frozenset(self._metadata.image.brokers)
        if self._live_brokers - live:
            self._reconsider_high_watermarks()
        self._live_brokers = live

    def update_topic_config(self, topic: str, config: LogConfig) -> None:
        """Apply a topic's changed configs to its partitions on this broker."""
        now_ms = self._now_ms()
        for replica in self.table:
            if replica.topic_partition.topic != topic:
                continue
            replica.update_config(config)
            if replica.leadership is not None:
                limits = Limits(
                    min_insync_replicas=config.min_insync_replicas,
                    max_lag_ms=self.config.replica_lag_time_max_ms,
                )
                replica.leadership.on_limits(limits, now_ms)
                self.changed(replica.topic_partition)

    def on_directory_failed(self, path: Path) -> set[TopicPartition]:
        """Stop serving the partitions in a log dir that has failed, and return them."""
        return self.roles.on_directory_failed(path)

    # Requests of clients and followers

    def holds(self, key: Key) -> bool:
        """Whether this broker has a replica of a partition, as leader or follower."""
        return key in self._by_key

    def is_offline(self, key: Key) -> bool:
        """Whether the partition is offline because its log dir has failed."""
        return self.table.is_offline(key)

    def replace_log(self, moved: Log) -> None:
        """Serve a partition from `moved` from now on, a copy of its log in another log dir."""
        replica = self._by_key.get(moved.topic_partition)
        if replica is not None:
            replica.log = moved

    def replica(self, key: Key) -> Replica:
        """Return the replica of a partition, as leader or follower.

        Raises:
            ApiError: unknown partition, no replica of it here, or a failed disk.
        """
        replica = self._by_key.get(key)
        if replica is None:
            raise self.missing(key)
        return replica

    def leader(self, key: Key, epoch: int = NO_EPOCH, topic_id: TopicId = ZERO_TOPIC_ID) -> Replica:
        """Return the replica that leads the partition in `epoch` (NO_EPOCH: in any).

        With `topic_id`, the replica must belong to that topic, not to another one of the same name.

        Raises:
            ApiError: unknown partition, another topic or epoch, or another broker leads it.
        """
        replica = self._by_key.get(key)
        if replica is None:
            raise self.missing(key)
        if (
            topic_id is not ZERO_TOPIC_ID
            and topic_id != replica.topic_id
            and replica.topic_id != ZERO_TOPIC_ID
        ):
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if epoch != NO_EPOCH:
            replica.check_leader_epoch(epoch)
        if replica.leadership is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return replica

    def append(
        self, key: Key, batch: memoryview, acks: int, now_ms: int, budget: Budget | None = None
    ) -> AppendInfo:
        """Append one batch to the local leader; see `Replica.append`.

        Raises:
            ApiError: not the leader, too few in-sync replicas, a bad batch, or a failed disk.
            BudgetSpentError: checking the batch exceeds the rest of `budget`.
        """
        replica = self._by_key.get(key)
        if replica is None:
            raise self.missing(key)
        try:
            info = replica.append(batch, acks, now_ms, budget)
        except (StorageError, OSError) as error:
            raise self.failed(key, error) from error
        self.changed(replica.topic_partition)
        return info

    def rules(self, key: Key, acks: int) -> BatchRules:
        """Return the rules by which to prepare a batch, if it could be appended now.

        Raises:
            ApiError: not the leader, or too few in-sync replicas.
        """
        replica = self.leader(key)
        replica.writable(acks)
        return replica.rules

    def append_prepared(
        self,
        key: Key,
        rules: BatchRules,
        prepared: tuple[memoryview, BatchHeader],
        acks: int,
        now_ms: int,
    ) -> AppendInfo | None:
        """Append a batch that was prepared by `rules`; return None if the rules have changed since.

        Raises:
            ApiError: as `append`.
        """
        replica = self.leader(key)
        if replica.rules is not rules:
            return None
        batch, header = prepared
        try:
            info = replica.append_prepared(batch, header, acks, now_ms)
        except (StorageError, OSError) as error:
            raise self.failed(key, error) from error
        self.changed(replica.topic_partition)
        return info

    def read(
        self,
        key: Key,
        offset: int,
        max_bytes: int,
        *,
        leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        only_decided: bool = False,
        min_one_batch: bool,
        topic_id: TopicId = ZERO_TOPIC_ID,
    ) -> ReadResult:
        """Read from the local leader for a consumer; see `Replica.read`.

        Raises:
            ApiError: not the leader (in that epoch, of that topic), offset out of range, or a
                failed disk.
        """
        replica = self.leader(key, leader_epoch, topic_id)
        try:
            return replica.read(
                offset,
                max_bytes,
                last_fetched_epoch=last_fetched_epoch,
                only_decided=only_decided,
                min_one_batch=min_one_batch,
            )
        except (StorageError, OSError) as error:
            raise self.failed(key, error) from error

    def delete_records(self, key: Key, offset: int) -> Offset:
        """Delete the records below `offset`; return the new log start offset.

        Raises:
            ApiError: not the leader, not allowed, out of range, or a failed disk.
        """
        replica = self.leader(key)
        try:
            log_start_offset = replica.delete_records(offset)
        except (StorageError, OSError) as error:
            raise self.failed(key, error) from error
        self.changed(replica.topic_partition)
        return log_start_offset

    def is_committed(self, key: Key, offset: Offset) -> bool:
        """Whether consumers may see `offset`; False if this broker does not lead the partition."""
        replica = self._by_key.get(key)
        leadership = None if replica is None else replica.leadership
        return leadership is not None and leadership.high_watermark > offset

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """Return the high watermark of every partition; any thread may call this."""
        return {each.topic_partition: each.high_watermark for each in self.table}

    def high_watermark(self, key: Key) -> Offset | None:
        """Return the high watermark of a partition; None if this broker does not serve it."""
        replica = self._by_key.get(key)
        return None if replica is None else replica.high_watermark

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Return the name of a topic that has a replica here or is in the metadata."""
        if topic_id == ZERO_TOPIC_ID:
            return None
        name = self.table.topic_names.get(topic_id)
        return self._metadata.image.topic_names.get(topic_id) if name is None else name

    def is_registered(self, broker_id: BrokerId) -> bool:
        """Whether this broker's metadata contain a broker of that id."""
        return broker_id in self._metadata.image.brokers

    # Inside

    def _retry_later(self) -> None:
        """Schedule a retry of role changes that wait for disk space or descriptors."""
        if self.roles.is_waiting and self._retry_timer is None:
            self._retry_timer = self._loop.call_later(OPENING_RETRY_S, self._retry)

    def _retry(self) -> None:
        self._retry_timer = None
        self.control_queue.run(self._open_waiting)

    async def _open_waiting(self) -> None:
        try:
            await self.roles.open_waiting()
        finally:
            self._retry_later()

    def changed(self, topic_partition: TopicPartition) -> None:
        """Notify requests and listeners that a partition's log, offsets or role have changed."""
        self._purgatory.on_change(topic_partition)
        for listener in self._change_listeners:
            listener(topic_partition)

    def _reconsider_high_watermarks(self) -> None:
        """Stop waiting for brokers that are dead."""
        # No append may follow that would do this: a producer that waits for a response sends none.
        now_ms = self._now_ms()
        for replica in self.table:
            if replica.leadership is not None and replica.leadership.reconsider(now_ms):
                self.changed(replica.topic_partition)

    def missing(self, key: Key) -> ApiError:
        """Return the error for a partition that has no replica here."""
        if self.table.is_offline(key):
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        state = self._metadata.image.partition(TopicPartition(*key))
        if state is None:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._broker_id in state.offline_replicas:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def failed(self, key: Key, error: Exception) -> ApiError:
        """Return the error for the client after a storage failure; log it, once if it persists."""
        reported = as_api_error(error)
        if reported.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not self._is_in_touch():
            # Another leader may have the missing records. Some producers give up at once on
            # OUT_OF_ORDER_SEQUENCE_NUMBER; after this error they look for the leader and retry.
            return ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker's session is over: {error}"
            )
        is_disk = reported.code is ErrorCode.KAFKA_STORAGE_ERROR
        if is_disk and not isinstance(error, ALREADY_REPORTED):
            log.error("log.failed", partition=str(TopicPartition(*key)), error=str(error))
        return reported

    def _set_tick_timer(self) -> None:
        # Half the limit, so that a follower leaves after 1 to 1.5 times the limit.
        delay_s = self.config.replica_lag_time_max_ms / 2000
        self._tick_timer = self._loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        now_ms = self._now_ms()
        for replica in self.table:
            leadership = replica.leadership
            if leadership is None:
                continue
            before = leadership.high_watermark
            if leadership.on_tick(now_ms):
                log.info("isr.lagging", partition=str(replica.topic_partition))
            if leadership.high_watermark != before:
                self.changed(replica.topic_partition)
            if leadership.proposal_to_send is not None:
                self._isr_proposals.put(replica)
        self._set_tick_timer()

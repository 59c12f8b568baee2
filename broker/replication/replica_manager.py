"""Serves the partitions on this broker to clients, and holds the parts of replication (edge).

Finds the replica for a request, reads or writes it, and publishes the change to waiting requests.
Every method must be called in the event loop's thread unless its docstring says otherwise. A disk
failure reaches the client as an `ApiError`. The parts share `table` and its events, and never call
the manager: `roles` handles the requests of controllers, `followers` the fetches of followers,
`replica_fetchers` copies from other brokers, `isr_proposals` sends the ISR proposals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from broker.cluster.control_fence import ControlFence
from broker.cluster.metadata_cache import Endpoint, MetadataCache
from broker.cluster.peer_security import PeerSecurity
from broker.config.replication_keys import ReplicationKeys
from broker.errors import as_api_error, storage_failure
from broker.replication.batch_rules import BatchRules
from broker.replication.isr.isr_proposals import IsrProposals, IsrRecorder
from broker.replication.leadership import Limits
from broker.replication.replica import ReadResult, Replica
from broker.replication.replica_fetchers import FetcherId, ReplicaFetchers
from broker.replication.replica_roles import ReplicaRoles
from broker.replication.replica_selector import Candidate, closer_replica
from broker.replication.replica_table import Key, ReplicaTable
from broker.replication.replication_throttle import follower_throttle
from broker.replication.serving_followers import FollowerService
from broker.replication.transaction_guards import TransactionalAppend
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.records import BatchHeader, Budget
from kafkawire.sentinels import NO_EPOCH, NO_LEADER
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.errors import OutOfOrderSequenceError, StorageError
from storage.log.log import AppendInfo, Log
from storage.producers.producer_state import NewMarker


class ReplicaManager:
    """Leads and follows partitions. `start` and `stop` it once each, in the event loop."""

    def __init__(
        self,
        *,
        broker_id: BrokerId,
        logs: Logs,
        metadata: MetadataCache,
        fence: ControlFence,
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        clock_ms: Callable[[], int],
        log_config_of: Callable[[str], LogConfig],
        endpoint_of: Callable[[BrokerId], Endpoint | None] = lambda _broker_id: None,
        isr_recorder: IsrRecorder | None = None,
        config: ReplicationKeys | None = None,
        is_in_doubt: Callable[[], bool] = lambda: False,
        security: PeerSecurity | None = None,
    ) -> None:
        """Serve no partition until the controller assigns one.

        `now_ms` is the time of day, for records; `clock_ms` never jumps, and measures delays.
        `fence` holds the newest epochs of controllers' requests, and this broker's own epoch.
        `endpoint_of` returns the address where another broker accepts requests of brokers,
        `log_config_of` the configs of a topic's logs. `isr_recorder` sends ISR proposals to the
        controller; a standalone broker needs none. `is_in_doubt` returns whether this broker's
        session may have expired. `security` is for connections to leaders.
        """
        self.config = config or ReplicationKeys()
        self._logs = logs
        self._metadata = metadata
        self._clock_ms = clock_ms
        self._is_in_doubt = is_in_doubt
        self.table = ReplicaTable(broker_id, metadata)
        self.events = self.table.events
        """Changes of partitions, for all parts of the broker that wait for them."""
        self._by_key = self.table.by_key
        self.follower_throttle = follower_throttle(broker_id)
        self._fetchers = ReplicaFetchers(
            broker_id,
            table=self.table,
            fence=fence,
            logs=logs,
            endpoint_of=endpoint_of,
            security=security,
            throttle=self.follower_throttle,
            config=self.config,
            loop=loop,
            now_ms=now_ms,
            clock_ms=clock_ms,
        )
        self._isr_proposals = IsrProposals(
            isr_recorder, table=self.table, config=self.config, loop=loop, clock_ms=clock_ms
        )
        self.events.on_isr_proposal(self._isr_proposals.put)
        self.followers = FollowerService(broker_id, self.table)
        """Serves the followers of partitions that this broker leads."""
        self.roles = ReplicaRoles(
            broker_id,
            table=self.table,
            fence=fence,
            logs=logs,
            metadata=metadata,
            fetchers=self._fetchers,
            log_config_of=log_config_of,
            config=self.config,
            loop=loop,
            now_ms=now_ms,
            clock_ms=clock_ms,
        )
        """Handles the requests of controllers."""
        self._live_brokers: frozenset[BrokerId] = frozenset()

    def __iter__(self) -> Iterator[Replica]:
        return iter(self.table)

    @property
    def isr_change_counts(self) -> tuple[int, int]:
        """Number of times that in-sync sets led here have shrunk, and grown."""
        return self._isr_proposals.shrink_count, self._isr_proposals.expand_count

    @property
    def isr_failure_count(self) -> int:
        """Number of proposed in-sync sets that the controller has refused."""
        return self._isr_proposals.refusal_count

    def fetcher_lags(self) -> Iterator[tuple[FetcherId, list[tuple[TopicPartition, int]]]]:
        """Yield each fetcher with the lag of its partitions, in records."""
        yield from self._fetchers.lags()

    # Lifecycle

    def start(self) -> None:
        """Start to check for lagging followers."""
        self._isr_proposals.start()

    async def stop(self) -> None:
        """Stop fetching and sending proposals; appends and reads still work."""
        await self.roles.stop()
        await self._isr_proposals.stop()
        await self._fetchers.stop()

    # Events from the rest of the node

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

    def update_topic_configs(self, configs: Mapping[str, LogConfig]) -> None:
        """Apply the changed configs of topics to their partitions on this broker."""
        now_ms = self._clock_ms()
        for replica in self.table:
            config = configs.get(replica.topic_partition.topic)
            if config is None:
                continue
            replica.update_config(config)
            if not config.is_compacted:
                # It would drop records that the topic keeps from now on.
                self._logs.abort_cleaning(replica.topic_partition)
            if replica.leadership is not None:
                limits = Limits(
                    min_insync_replicas=config.min_insync_replicas,
                    max_lag_ms=self.config.replica_lag_time_max_ms,
                )
                replica.leadership.on_limits(limits, now_ms)
                self.events.changed(replica.topic_partition)

    def replace_log(self, moved: Log) -> None:
        """Serve a partition from `moved` from now on, a copy of its log in another log dir."""
        replica = self._by_key.get(moved.topic_partition)
        if replica is not None:
            replica.log = moved

    # Requests of clients

    def leader(self, key: Key, epoch: int = NO_EPOCH) -> Replica:
        """Return the replica that leads a partition; see `ReplicaTable.leader`."""
        return self.table.leader(key, epoch)

    def append(
        self,
        key: Key,
        batch: memoryview,
        acks: int,
        now_ms: int,
        budget: Budget | None = None,
        transaction: TransactionalAppend | None = None,
    ) -> AppendInfo:
        """Append one batch to the local leader; see `Replica.append`.

        Raises:
            ApiError: not the leader, too few in-sync replicas, a bad batch, or a failed disk.
            BudgetSpentError: checking the batch exceeds the rest of `budget`.
        """
        replica = self._by_key.get(key)
        if replica is None:
            raise self.table.missing(key)
        try:
            info = replica.append(batch, acks, now_ms, budget, transaction)
        except (StorageError, OSError) as error:
            raise self._append_failure(key, error) from error
        self.events.changed(replica.topic_partition)
        return info

    def rules(self, key: Key, acks: int) -> BatchRules:
        """Return the rules by which to prepare a batch, if it could be appended now.

        Raises:
            ApiError: not the leader, or too few in-sync replicas.
        """
        replica = self.table.leader(key)
        replica.writable(acks)
        return replica.rules

    def append_prepared(
        self,
        key: Key,
        rules: BatchRules,
        prepared: tuple[memoryview, BatchHeader],
        acks: int,
        now_ms: int,
        transaction: TransactionalAppend | None = None,
    ) -> AppendInfo | None:
        """Append a batch that was prepared by `rules`; return None if the rules have changed since.

        Raises:
            ApiError: as `append`.
        """
        replica = self.table.leader(key)
        if replica.rules is not rules:
            return None
        batch, header = prepared
        try:
            info = replica.append_prepared(batch, header, acks, now_ms, transaction)
        except (StorageError, OSError) as error:
            raise self._append_failure(key, error) from error
        self.events.changed(replica.topic_partition)
        return info

    def append_markers(
        self, key: Key, markers: Sequence[NewMarker], now_ms: int
    ) -> list[Offset | ApiError]:
        """Append transaction markers to the local leader, with acks=all.

        Returns the offset of each marker, or the error of a marker that was not appended.

        Raises:
            ApiError: not the leader, too few in-sync replicas, or a failed disk.
        """
        replica = self.table.leader(key)
        try:
            results = replica.append_markers(markers, now_ms)
        except (StorageError, OSError) as error:
            raise storage_failure(key, error) from error
        finally:
            self.events.changed(replica.topic_partition)
        return [as_api_error(each) if isinstance(each, StorageError) else each for each in results]

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
        may_follow: bool = False,
    ) -> ReadResult:
        """Read from the local leader for a consumer; see `Replica.read`.

        With `may_follow`, read from a follower, too, up to the high watermark that it knows.

        Raises:
            ApiError: not the leader (in that epoch, of that topic), offset out of range, or a
                failed disk.
        """
        if may_follow:
            replica = self.table.leader_or_follower(key, leader_epoch, topic_id)
        else:
            replica = self.table.leader(key, leader_epoch, topic_id)
        try:
            return replica.read(
                offset,
                max_bytes,
                last_fetched_epoch=last_fetched_epoch,
                only_decided=only_decided,
                min_one_batch=min_one_batch,
            )
        except (StorageError, OSError) as error:
            raise storage_failure(key, error) from error

    def closer_replica(self, key: Key, client_rack: str, offset: int) -> BrokerId | None:
        """Return the follower that a consumer should read from; None for this broker (KIP-392)."""
        replica = self._by_key.get(key)
        leadership = None if replica is None else replica.leadership
        if leadership is None:
            return None
        brokers = self._metadata.image.brokers
        own = brokers.get(leadership.broker_id)
        candidates = [
            Candidate(each, broker.rack, progress.log_start_offset, progress.log_end_offset)
            for each, progress in leadership.in_sync_followers()
            if (broker := brokers.get(each)) is not None
        ]
        return closer_replica(client_rack, None if own is None else own.rack, offset, candidates)

    def leader_of(self, key: Key) -> tuple[BrokerId, LeaderEpoch]:
        """Return the leader of a partition and its epoch, as known here; (-1, -1) if unknown."""
        replica = self._by_key.get(key)
        if replica is not None and replica.leader != NO_LEADER:
            return replica.leader, replica.leader_epoch
        state = self._metadata.image.partition(TopicPartition(*key))
        if state is None:
            return NO_LEADER, NO_EPOCH
        return state.leader_and_isr.leader, state.leader_and_isr.leader_epoch

    def delete_records(self, key: Key, offset: int) -> Offset:
        """Delete the records below `offset`; return the new log start offset.

        Raises:
            ApiError: not the leader, not allowed, out of range, or a failed disk.
        """
        replica = self.table.leader(key)
        try:
            log_start_offset = replica.delete_records(offset)
        except (StorageError, OSError) as error:
            raise storage_failure(key, error) from error
        self.events.changed(replica.topic_partition)
        return log_start_offset

    def is_committed(self, key: Key, offset: Offset) -> bool:
        """Whether consumers may see `offset`; False if this broker does not lead the partition."""
        replica = self._by_key.get(key)
        leadership = None if replica is None else replica.leadership
        return leadership is not None and leadership.high_watermark > offset

    def count_missing_writes(self, moved: Iterable[TopicPartition]) -> int:
        """Return how many of these, if led here, have no record of this leadership.

        Partitions without a committed record of it are added, so that the sum falls twice for each.
        It is 0 if records of other partitions wait to be committed: a dead broker may hold them up,
        and behind them all that their producers send.
        """
        awaited, count = set(moved), 0
        for replica in self.table:
            if (leadership := replica.leadership) is None:
                continue
            end, committed = replica.log.log_end_offset, leadership.high_watermark
            if replica.topic_partition in awaited:
                start = leadership.epoch_start_offset
                count += (end == start) + (committed <= start)
            elif committed < end:
                return 0
        return count

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        """Return the high watermark of every partition; any thread may call this."""
        return {each.topic_partition: each.high_watermark for each in self.table}

    def high_watermark(self, key: Key) -> Offset | None:
        """Return the high watermark of a partition; None if this broker does not serve it."""
        replica = self._by_key.get(key)
        return None if replica is None else replica.high_watermark

    def is_registered(self, broker_id: BrokerId) -> bool:
        """Whether this broker's metadata contain a broker of that id."""
        return broker_id in self._metadata.image.brokers

    # Inside

    def _reconsider_high_watermarks(self) -> None:
        """Stop waiting for brokers that are dead."""
        # No append may follow that would do this: a producer that waits for a response sends none.
        now_ms = self._clock_ms()
        for replica in self.table:
            if replica.leadership is not None and replica.leadership.reconsider(now_ms):
                self.events.changed(replica.topic_partition)

    def _append_failure(self, key: Key, error: Exception) -> ApiError:
        if isinstance(error, OutOfOrderSequenceError) and self._is_in_doubt():
            # Another leader may have the missing records. Some producers give up at once on
            # OUT_OF_ORDER_SEQUENCE_NUMBER; after this error they look for the leader and retry.
            return ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker's session is over: {error}"
            )
        return storage_failure(key, error)

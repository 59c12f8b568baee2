"""Coordinates the groups of the partitions of `__consumer_offsets` that this broker leads (edge).

Owns the timers of the groups and carries out their effects; `group` decides on these. Everything
runs in the event loop's thread, and a waiting request takes no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from uuid import uuid4

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.config.group_keys import GroupKeys
from broker.groups.commits import GroupCommits
from broker.groups.group import Group
from broker.groups.group_effects import (
    UNKNOWN_MEMBER,
    Effect,
    Joining,
    JoinResult,
    JoinWaiter,
    RespondToJoin,
    RespondToSync,
    Store,
    Syncing,
    SyncResult,
    SyncWaiter,
)
from broker.groups.group_transactions import GroupTransactions
from broker.groups.rebalance import GroupLimits
from broker.groups.registry import GroupRegistry
from broker.groups.replay import OffsetsReplay, group_metadata
from broker.groups.state import DEAD
from broker.groups.store_errors import rebalance_error
from broker.internal_log.coordinated_topic import CoordinatedTopic
from broker.internal_log.store import KeyValue, Replicas
from broker.network.request_tasks import in_turns
from broker.purgatory import Purgatory
from broker.scheduler import PeriodicTask
from kafkawire.compression import Codec
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.group_records import group_key, group_value
from kafkawire.ids import TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC
from kafkawire.primitives import MAX_STRING_BYTES

log = structlog.get_logger(__name__)


class GroupCoordinator:
    """Handles the requests of members and administrators; see `handlers` for the protocol."""

    def __init__(
        self,
        replicas: Replicas,
        purgatory: Purgatory[TopicPartition],
        metadata: MetadataCache,
        config: GroupKeys,
        *,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._loop = loop
        self._now_ms = now_ms
        self._timers: dict[Group, tuple[asyncio.TimerHandle, int]] = {}
        limits = GroupLimits(
            max_size=config.group_max_size,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        )
        self.registry = GroupRegistry(limits, self._partition_count)
        self._leaderships = self.registry.leaderships
        self._topic = CoordinatedTopic(
            replicas,
            purgatory,
            OFFSETS_TOPIC,
            self._leaderships,
            subject="group",
            make_replay=OffsetsReplay,
            on_loaded=self._on_loaded,
            codec=Codec(config.offsets_topic_compression_codec),
            timeout_ms=config.offsets_commit_timeout_ms,
            buffer_bytes=config.offsets_load_buffer_size,
            loop=loop,
            executor=executor,
            now_ms=now_ms,
        )
        self._store = self._topic.store
        self.on_become_leader = self._topic.on_become_leader
        self.commits = GroupCommits(
            self.registry,
            self._store,
            metadata_max_bytes=config.offset_metadata_max_bytes,
            retention_ms=config.offsets_retention_minutes * 60_000,
            now_ms=now_ms,
            settle=self._settle,
            clock_ms=self._clock_ms,
        )
        self.transactions = GroupTransactions(self.registry, self._store, replicas, purgatory)

    # Leadership

    def on_resign(self, topic_partition: TopicPartition) -> None:
        """Unload the groups of a partition; waiting requests fail with NOT_COORDINATOR."""
        if self._topic.leads(topic_partition):
            partition = topic_partition.partition
            lost = self.registry.resign(partition)
            self.commits.on_resign(partition)
            self.transactions.on_resign(partition)
            self._unload(lost)
            log.info("groups.unloaded", partition=partition, group_count=len(lost))

    async def stop(self) -> None:
        """Fail all waiting requests, and refuse further ones."""
        await self._topic.stop()
        self._unload(self.registry.close())

    def expiry_task(self) -> PeriodicTask:
        """Return the periodic task that calls `expire`, with Kafka's name and key."""
        return PeriodicTask(
            "delete-expired-group-metadata",
            self.expire,
            period_ms=self._config.offsets_retention_check_interval_ms,
            runs_in_loop=True,
        )

    async def expire(self) -> None:
        """Remove expired offsets and empty groups, in many turns of the event loop."""
        for partition in self._leaderships.active_partitions():
            groups = self.registry.in_partition(partition)
            async for group in in_turns(groups, lambda group: 10 + len(group.offsets)):
                if group in self.registry:
                    self.commits.expire(group)

    # Members

    def join(self, group_id: str, joining: Joining, waiter: JoinWaiter) -> None:
        """Call `waiter` when the next generation of the group begins, or the join is refused."""
        try:
            group = self._group_to_join(group_id, joining)
        except ApiError as error:
            waiter(JoinResult(error=error.code, member_id=joining.member_id))
            return
        group.join(joining, waiter, self._clock_ms())
        self._settle(group)

    def sync(self, group_id: str, syncing: Syncing, waiter: SyncWaiter) -> None:
        """Call `waiter` when the assignment is stored, or the sync is refused."""
        try:
            group = self.registry.find(group_id)
        except ApiError as error:
            code = error.code
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # The rebalance has failed anyway, and old clients do not expect the other code.
                code = ErrorCode.REBALANCE_IN_PROGRESS
            waiter(SyncResult(error=code))
            return
        if group is None:
            waiter(SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID))
            return
        group.sync(syncing, waiter, self._clock_ms())
        self._settle(group)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Return the response to a member's heartbeat."""
        try:
            group = self.registry.find(group_id)
        except ApiError as error:
            is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return ErrorCode.NONE if is_loading else error.code
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error_code = group.heartbeat(member_id, instance_id, generation_id, self._clock_ms())
        self._settle(group)
        return error_code

    def leave(self, group_id: str, leaving: Iterable[tuple[str, str | None]]) -> list[ErrorCode]:
        """Remove members, given by id and instance id; return a code for each.

        Raises:
            ApiError: this broker does not coordinate the group now.
        """
        group = self.registry.find(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID for _ in leaving]
        if group.state is DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        now_ms = self._clock_ms()
        codes = [group.leave(member_id, instance_id, now_ms) for member_id, instance_id in leaving]
        self._settle(group)
        return codes

    def fresh_member_id(self, prefix: str) -> str:
        """Return a unique member id."""
        return f"{prefix}-{uuid4()}"

    # Inside

    def _group_to_join(self, group_id: str, joining: Joining) -> Group:
        group = self.registry.find(group_id)
        config = self._config
        if not (
            config.group_min_session_timeout_ms
            <= joining.session_timeout_ms
            <= config.group_max_session_timeout_ms
        ):
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
        # The id contains the client's or the instance's id. A longer one could not be encoded.
        if len(joining.fresh_member_id.encode()) > MAX_STRING_BYTES:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"a member id has at most {MAX_STRING_BYTES} bytes: the client id is too long",
            )
        if group is not None:
            return group
        if joining.member_id != UNKNOWN_MEMBER:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return self.registry.find_or_add(group_id)

    def _on_loaded(self, partition: int, replay: OffsetsReplay) -> int:
        groups = replay.groups(self.registry.limits, self._clock_ms())
        self.registry.activate(partition, groups)
        for group in groups:
            self._settle(group)
        self.commits.on_loaded(partition)
        self.transactions.on_loaded(partition, groups)
        return len(groups)

    def _unload(self, groups: Iterable[Group]) -> None:
        for group in groups:
            group.unload()
            self._settle(group)

    def _settle(self, group: Group) -> None:
        """Carry out a group's effects, and set its timer."""
        while effects := group.take_effects():
            for effect in effects:
                self._carry_out(group, effect)
        self._set_timer(group)

    def _carry_out(self, group: Group, effect: Effect) -> None:
        match effect:
            case RespondToJoin(join_waiter, join_result):
                join_waiter(join_result)
            case RespondToSync(sync_waiter, sync_result):
                sync_waiter(sync_result)
            case Store():
                self._store_group(group, effect)

    def _store_group(self, group: Group, store: Store) -> None:
        partition = self.registry.partition_of(group)
        group.state_timestamp_ms = self._now_ms()
        log.info(
            "group.stored",
            group_id=group.group_id,
            generation_id=store.generation_id,
            member_count=len(group.members),
            reason=store.reason.value,
        )

        def records() -> Iterator[KeyValue]:
            metadata = group_metadata(group, store.assignments)
            yield group_key(group.group_id), group_value(metadata)

        epoch = self._leaderships.epoch(partition)
        self._store.append(partition, epoch, records(), partial(self._on_stored, group, store))

    def _on_stored(self, group: Group, store: Store, error: ErrorCode, offset: int) -> None:
        del offset
        if error is not ErrorCode.NONE:
            log.warning("group.not_stored", group_id=group.group_id, error=error.name)
        group.on_stored(store, rebalance_error(error), self._clock_ms())
        self._settle(group)

    def _set_timer(self, group: Group) -> None:
        due_ms, timer = group.deadlines.next_ms, self._timers.get(group)
        if timer is not None:
            if due_ms is not None and due_ms >= timer[1]:
                return
            timer[0].cancel()
            del self._timers[group]
        if due_ms is not None:
            delay_s = max(due_ms - self._clock_ms(), 0) / 1000
            handle = self._loop.call_later(delay_s, self._on_timer, group)
            self._timers[group] = (handle, due_ms)

    def _on_timer(self, group: Group) -> None:
        del self._timers[group]
        group.on_time(self._clock_ms())
        self._settle(group)

    def _clock_ms(self) -> int:
        # Not the wall clock, which may be changed.
        return round(self._loop.time() * 1000)

    def _partition_count(self) -> int:
        topic = self._metadata.image.topics.get(OFFSETS_TOPIC)
        return len(topic.partitions) if topic else self._config.offsets_topic_num_partitions

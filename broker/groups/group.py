"""One consumer group: its state machine (decision).

Each event is a method call. The caller then carries out the effects, in order, and calls `on_time`
when `deadlines.next_ms` has come. `now_ms` is any monotonic clock. The tables of
`broker.groups.state` define the requests that each state accepts.

Source: GroupCoordinator and GroupMetadata of Kafka 3.9; KIP-134, 345, 394, 559, 814.
"""

from __future__ import annotations

from functools import partial

from broker.groups.deadline_queue import GroupDeadlines, Timer
from broker.groups.group_effects import (
    UNKNOWN_MEMBER,
    Effect,
    Joining,
    JoinWaiter,
    RespondToSync,
    Store,
    StoreReason,
    Syncing,
    SyncResult,
    SyncWaiter,
)
from broker.groups.joins import Joins
from broker.groups.members import Member, Members
from broker.groups.offsets import GroupOffsets
from broker.groups.rebalance import GroupLimits, Rebalance
from broker.groups.state import (
    COMPLETING,
    DEAD,
    EMPTY,
    ON_COMMIT,
    ON_DELETE,
    ON_HEARTBEAT,
    ON_LEAVE,
    ON_SYNC,
    STABLE,
    GroupState,
)
from kafkawire.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition


class Group:
    """A group: its members, its rebalance, the joins that lead to it, and its offsets."""

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        self.group_id = group_id
        self.state_timestamp_ms: int | None = None
        """Wall clock time at which the group was last stored; None if never."""
        self._max_size = limits.max_size
        self._effects: list[Effect] = []
        self.deadlines = GroupDeadlines()
        self.members = Members(self.deadlines, self._effects)
        self.rebalance = Rebalance(group_id, limits, self.members, self.deadlines, self._effects)
        self.offsets = GroupOffsets()
        self._joins = Joins(self.members, self.rebalance, self._effects, limits.max_size)

    @property
    def state(self) -> GroupState:
        """State of the group."""
        return self.rebalance.state

    @property
    def generation_id(self) -> int:
        """Number of the current generation; 0 before the first one."""
        return self.rebalance.generation_id

    @property
    def protocol_type(self) -> str | None:
        """Protocol type of the group; None while it only stores offsets."""
        return self.members.protocol_type

    @property
    def protocol_name(self) -> str | None:
        """Protocol of the current generation; None without one."""
        return self.rebalance.protocol_name

    def take_effects(self) -> list[Effect]:
        """Return the effects since the last call, in order."""
        effects = self._effects
        if not effects:
            # The common case, as for each heartbeat.
            return []
        taken = effects.copy()
        effects.clear()
        return taken

    def restore(
        self,
        members: list[Member],
        *,
        generation_id: int,
        protocol_type: str | None,
        protocol_name: str | None,
        leader_id: str | None,
        state_timestamp_ms: int | None,
        now_ms: int,
    ) -> None:
        """Continue the stored generation; the session timeouts of members begin now."""
        self.state_timestamp_ms = state_timestamp_ms
        self.members.protocol_type = protocol_type
        for member in members:
            self.members.add(member, protocol_type or "", now_ms)
        if leader_id is not None and leader_id in self.members:
            self.members.leader_id = leader_id
        self.rebalance.restore(generation_id, protocol_name)
        if len(members) > self._max_size:
            self.rebalance.prepare(now_ms)

    # Requests of members

    def join(self, joining: Joining, waiter: JoinWaiter, now_ms: int) -> None:
        """Add a member to the next generation; it waits until that begins."""
        self._joins.join(joining, waiter, now_ms)

    def sync(self, syncing: Syncing, waiter: SyncWaiter, now_ms: int) -> None:
        """Respond with the member's assignment once the leader has sent it and it is stored."""
        error = self._check_sync(syncing)
        if error is not ErrorCode.NONE:
            self._effects.append(RespondToSync(waiter, SyncResult(error=error)))
            return
        members, member = self.members, self.members[syncing.member_id]
        members.on_synced(member.member_id)
        if self.state is STABLE:
            members.await_heartbeat(member.member_id, now_ms)
            self._effects.append(RespondToSync(waiter, self.rebalance.sync_result(member)))
            return
        members.fail_sync(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        members.syncing[member.member_id] = waiter
        if member.member_id == members.leader_id:
            self.rebalance.store_assignments(syncing.assignments)

    def heartbeat(
        self, member_id: str, instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        """Return the response to a member's heartbeat."""
        error = self.rebalance.check(member_id, instance_id, generation_id)
        if error is ErrorCode.NONE:
            error = ON_HEARTBEAT[self.rebalance.state]
            self.members.await_heartbeat(member_id, now_ms)
        return error

    def leave(self, member_id: str, instance_id: str | None, now_ms: int) -> ErrorCode:
        """Remove a member; a static one may be identified by its instance id alone."""
        if self.state is DEAD:
            return ON_LEAVE[DEAD]
        if member_id == UNKNOWN_MEMBER and instance_id is not None:
            member_id = self.members.member_id_of(instance_id) or UNKNOWN_MEMBER
        elif member_id in self.members.pending:
            self.rebalance.remove_pending(member_id, now_ms)
            return ErrorCode.NONE
        error = self.members.check(member_id, instance_id)
        if error is ErrorCode.NONE:
            self.rebalance.remove(member_id, now_ms)
        return error

    def check_commit(
        self, member_id: str, instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        """Return whether offsets may be committed; a member's commit counts as a heartbeat.

        A client outside the group may commit while it is empty.
        """
        state = self.rebalance.state
        if state is EMPTY and generation_id < 0:
            return ON_COMMIT[EMPTY]
        error = self.rebalance.check(member_id, instance_id, generation_id)
        if error is ErrorCode.NONE:
            error = ON_COMMIT[state]
        if error is ErrorCode.NONE:
            self.members.await_heartbeat(member_id, now_ms)
        return error

    def check_transactional_commit(
        self, member_id: str, instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        """Return whether offsets may be committed in a transaction; it is no heartbeat.

        Old producers do not name the member that they commit for.
        """
        if self.state is DEAD:
            return ON_COMMIT[DEAD]
        if self.state is EMPTY and generation_id < 0:
            return ErrorCode.NONE
        if generation_id < 0 and not member_id and instance_id is None:
            return ErrorCode.NONE
        return self.rebalance.check(member_id, instance_id, generation_id)

    # Other events

    def on_stored(self, store: Store, error: ErrorCode, now_ms: int) -> None:
        """Continue after the group was written to the log, or could not be."""
        if store.generation_id != self.generation_id:
            return
        if store.reason is StoreReason.ASSIGNED and self.state is COMPLETING:
            self.rebalance.on_assignments_stored(store.assignments, error, now_ms)
        elif store.replaced is not None and self.state is STABLE:
            self._joins.on_replacement_stored(store.replaced, error, now_ms)

    def on_time(self, now_ms: int) -> None:
        """Handle the deadlines that have expired."""
        for due in self.deadlines.take_expired(now_ms):
            if due in self.deadlines:
                # An earlier deadline of this call has set it again.
                continue
            if due.timer is Timer.SESSION:
                self._on_session_expired(due.member_id, now_ms)
            elif due.timer is Timer.SYNC:
                self.rebalance.remove_unsynced(now_ms)
            else:
                self.rebalance.on_due(now_ms)

    def delete(self) -> ErrorCode:
        """Delete the group if it has no members."""
        error = ON_DELETE[self.state]
        if error is ErrorCode.NONE:
            self.rebalance.die()
        return error

    def unload(self) -> None:
        """Fail all waiting requests: another broker coordinates this group now."""
        for member in self.members:
            self.members.fail_join(member.member_id, ErrorCode.NOT_COORDINATOR)
            self.members.fail_sync(member.member_id, ErrorCode.NOT_COORDINATOR)
        self.rebalance.die()

    # Expiry and deletion of offsets

    @property
    def may_lose_offsets(self) -> bool:
        """Whether single offsets may be deleted, as the ones in use are known."""
        return self.state is EMPTY or self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`, or its subscription is unknown."""
        topics = self.rebalance.topics
        return self.state is not EMPTY and (topics is None or topic in topics)

    def expired_offsets(self, time_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Return the partitions whose offsets have expired (KIP-211)."""
        topics, find = self.rebalance.topics, partial(self.offsets.expired, time_ms, retention_ms)
        if self.protocol_type is None:
            return find(is_kept=_none, since_ms=None)
        if self.state is EMPTY:
            return find(is_kept=_none, since_ms=self.state_timestamp_ms)
        if self.state is STABLE and topics is not None:
            return find(is_kept=topics.__contains__, since_ms=None)
        return []

    # Inside

    def _check_sync(self, syncing: Syncing) -> ErrorCode:
        error = self.rebalance.check(syncing.member_id, syncing.instance_id, syncing.generation_id)
        if error is not ErrorCode.NONE:
            return error
        if (
            syncing.protocol_type not in (None, self.protocol_type)
            or syncing.protocol_name not in (None, self.protocol_name)
        ):  # fmt: skip
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ON_SYNC[self.state]

    def _on_session_expired(self, member_id: str, now_ms: int) -> None:
        members = self.members
        if member_id in members.pending:
            self.rebalance.remove_pending(member_id, now_ms)
        elif member_id in members:
            is_waiting = member_id in members.joining or member_id in members.syncing
            # A waiting member cannot send heartbeats, but a new one may have disconnected.
            if members[member_id].is_new or not is_waiting:
                self.rebalance.remove(member_id, now_ms)


def _none(topic: str) -> bool:
    del topic
    return False

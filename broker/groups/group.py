"""One consumer group: its state machine (decision).

Each event is a method call. The caller then carries out `effects`, in order, and calls `on_time`
when `deadlines.next_ms` has come. `now_ms` is any monotonic clock. The tables of
`broker.groups.state` define the requests that each state accepts.

Source: GroupCoordinator and GroupMetadata of Kafka 3.9; KIP-134, 345, 394, 559, 814.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from broker.groups.deadlines import Due, Timer
from broker.groups.effects import (
    UNKNOWN_MEMBER,
    Joining,
    JoinWaiter,
    Replacement,
    RespondToJoin,
    RespondToSync,
    Store,
    StoreReason,
    Syncing,
    SyncResult,
    SyncWaiter,
)
from broker.groups.members import Member
from broker.groups.offsets import GroupOffsets
from broker.groups.rebalance import GroupLimits, Rebalancing
from broker.groups.state import (
    COMPLETING,
    DEAD,
    EMPTY,
    ON_COMMIT,
    ON_DELETE,
    ON_HEARTBEAT,
    ON_JOIN,
    ON_LEAVE,
    ON_SYNC,
    PREPARING,
    STABLE,
)
from kafkawire.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition

MAX_PENDING_MEMBERS: Final = 10_000
"""Limit for the assigned ids of one group with which no member has joined yet."""


class Group(Rebalancing):
    """A group, its members and its offsets."""

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        super().__init__(group_id, limits)
        self.offsets = GroupOffsets()

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
        assert self.generation_id == 0, "a group is restored when it is new"
        self.generation_id, self.protocol_name = generation_id, protocol_name
        self.state_timestamp_ms = state_timestamp_ms
        self.members.protocol_type = protocol_type
        for member in members:
            self.members.add(member, protocol_type or "")
            self._await_heartbeat(member, now_ms)
        if leader_id is not None and leader_id in self.members:
            self.members.leader_id = leader_id
        self.topics = self._subscribed_topics()
        if members:
            self.state = STABLE
        if len(members) > self._limits.max_size:
            self._prepare_rebalance(now_ms)

    # Events

    def join(self, joining: Joining, waiter: JoinWaiter, now_ms: int) -> None:
        """Add a member to the next generation; it waits until that begins."""
        member_id, is_new = joining.member_id, joining.member_id == UNKNOWN_MEMBER
        if not self._has_room_for(member_id):
            self._forget(member_id)
            self._refuse_join(waiter, UNKNOWN_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif self.state is DEAD:
            self._refuse_join(waiter, member_id, ON_JOIN[DEAD])
        elif not self._is_compatible(joining):
            self._refuse_join(waiter, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif is_new and joining.instance_id is not None:
            self._join_static(joining, joining.instance_id, waiter, now_ms)
        elif is_new and joining.requires_known_id:
            self._assign_id(joining, waiter, now_ms)
        elif is_new:
            self._add(joining, joining.fresh_member_id, waiter, now_ms)
        elif member_id in self.members.pending and joining.instance_id is None:
            self._add(joining, member_id, waiter, now_ms)
        else:
            self._join_again(joining, waiter, now_ms)
        self._complete_join_if_all_joined(now_ms)

    def sync(self, syncing: Syncing, waiter: SyncWaiter, now_ms: int) -> None:
        """Respond with the member's assignment once the leader has sent it and it is stored."""
        error = self._check_sync(syncing)
        if error is not ErrorCode.NONE:
            self.effects.append(RespondToSync(waiter, SyncResult(error=error)))
            return
        member = self.members[syncing.member_id]
        self._note_synced(member.member_id)
        if self.state is STABLE:
            self._await_heartbeat(member, now_ms)
            self.effects.append(RespondToSync(waiter, self._assignment_of(member)))
            return
        self._refuse_sync(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        self.members.syncing[member.member_id] = waiter
        if member.member_id == self.members.leader_id:
            self._store_assignments(syncing.assignments)

    def heartbeat(
        self, member_id: str, instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        """Return the response to a member's heartbeat."""
        error = self._check_member(member_id, instance_id, generation_id)
        if error is ErrorCode.NONE:
            error = ON_HEARTBEAT[self.state]
            self._await_heartbeat(self.members[member_id], now_ms)
        return error

    def leave(self, member_id: str, instance_id: str | None, now_ms: int) -> ErrorCode:
        """Remove a member; a static one may be identified by its instance id alone."""
        if self.state is DEAD:
            return ON_LEAVE[DEAD]
        if member_id == UNKNOWN_MEMBER and instance_id is not None:
            member_id = self.members.member_id_of(instance_id) or UNKNOWN_MEMBER
        elif member_id in self.members.pending:
            self._forget(member_id)
            self._complete_join_if_all_joined(now_ms)
            return ErrorCode.NONE
        error = self.members.check(member_id, instance_id)
        if error is ErrorCode.NONE:
            self._remove(member_id, now_ms)
        return error

    def check_commit(
        self, member_id: str, instance_id: str | None, generation_id: int, now_ms: int
    ) -> ErrorCode:
        """Return whether offsets may be committed; a member's commit counts as a heartbeat.

        A client outside the group may commit while it is empty.
        """
        if self.state is DEAD:
            return ON_COMMIT[DEAD]
        if self.state is EMPTY and generation_id < 0:
            return ON_COMMIT[EMPTY]
        error = self._check_member(member_id, instance_id, generation_id)
        if error is ErrorCode.NONE:
            error = ON_COMMIT[self.state]
        if error is ErrorCode.NONE:
            self._await_heartbeat(self.members[member_id], now_ms)
        return error

    def on_stored(self, store: Store, error: ErrorCode, now_ms: int) -> None:
        """Continue after the group was written to the log, or could not be."""
        if store.generation_id != self.generation_id:
            return
        if store.reason is StoreReason.ASSIGNED and self.state is COMPLETING:
            if error is ErrorCode.NONE:
                for member in self.members:
                    member.assignment = store.assignments[member.member_id]
                self.move_to(STABLE)
                self._respond_to_syncs(now_ms)
            else:
                self._prepare_rebalance(now_ms, error)
        elif store.replaced is not None and self.state is STABLE:
            self._on_replaced(store.replaced, error, now_ms)

    def on_time(self, now_ms: int) -> None:
        """Handle the deadlines that have expired."""
        for due in self.deadlines.take_expired(now_ms):
            if due in self.deadlines:
                # An earlier deadline of this call has set it again.
                continue
            if due.timer is Timer.SESSION:
                self._on_session_expired(due.member_id, now_ms)
            elif due.timer is Timer.SYNC:
                self._on_sync_expired(now_ms)
            elif self.state is PREPARING:
                self._on_rebalance_due(now_ms)

    def delete(self) -> ErrorCode:
        """Delete the group if it has no members."""
        error = ON_DELETE[self.state]
        if error is ErrorCode.NONE:
            self._die()
        return error

    def unload(self) -> None:
        """Fail all waiting requests: another broker coordinates this group now."""
        for member in self.members:
            self._end_join(member.member_id, member.member_id, ErrorCode.NOT_COORDINATOR)
            self._refuse_sync(member.member_id, ErrorCode.NOT_COORDINATOR)
        self._die()

    # Expiry and deletion of offsets

    @property
    def may_lose_offsets(self) -> bool:
        """Whether single offsets may be deleted, as the ones in use are known."""
        return self.state is EMPTY or self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads `topic`, or its subscription is unknown."""
        if self.state is EMPTY:
            return False
        return self.topics is None or topic in self.topics

    def expired_offsets(self, time_ms: int, retention_ms: int) -> list[TopicPartition]:
        """Return the partitions whose offsets have expired (KIP-211)."""
        find = partial(self.offsets.expired, time_ms, retention_ms)
        if self.protocol_type is None:
            return find(is_kept=_none, since_ms=None)
        if self.state is EMPTY:
            return find(is_kept=_none, since_ms=self.state_timestamp_ms)
        if self.state is STABLE and self.topics is not None:
            return find(is_kept=self.topics.__contains__, since_ms=None)
        return []

    # Joining

    def _has_room_for(self, member_id: str) -> bool:
        max_size, members = self._limits.max_size, self.members
        if self.state in (EMPTY, DEAD):
            return True
        if self.state is PREPARING:
            # Counts members that have joined again: the last ones to return are refused.
            return member_id in members.joining or len(members.joining) < max_size
        return member_id in members or len(members) < max_size

    def _is_compatible(self, joining: Joining) -> bool:
        if self.state is EMPTY:
            return bool(joining.protocol_type and joining.protocols)
        is_same_type = joining.protocol_type == self.members.protocol_type
        return is_same_type and self.members.support_any_of(joining.protocols)

    def _assign_id(self, joining: Joining, waiter: JoinWaiter, now_ms: int) -> None:
        member_id, pending = joining.fresh_member_id, self.members.pending
        if len(pending) >= MAX_PENDING_MEMBERS:
            # A member joins again within a round trip: the oldest one has most likely gone.
            self._forget(next(iter(pending)))
        self.members.add_pending(member_id)
        self.deadlines.set(Due(Timer.SESSION, member_id), now_ms + joining.session_timeout_ms)
        self._refuse_join(waiter, member_id, ErrorCode.MEMBER_ID_REQUIRED)

    def _add(self, joining: Joining, member_id: str, waiter: JoinWaiter, now_ms: int) -> None:
        member = Member(
            member_id=member_id,
            instance_id=joining.instance_id,
            client_id=joining.client_id,
            client_host=joining.client_host,
            session_timeout_ms=joining.session_timeout_ms,
            rebalance_timeout_ms=joining.rebalance_timeout_ms,
            protocols=joining.protocols,
            is_new=True,
        )
        self._has_newcomer |= self.state is PREPARING and self.generation_id == 0
        self.members.add(member, joining.protocol_type)
        self.members.joining[member_id] = waiter
        self._await_heartbeat(member, now_ms)
        self._rebalance_unless_preparing(now_ms)

    def _join_again(self, joining: Joining, waiter: JoinWaiter, now_ms: int) -> None:
        member_id = joining.member_id
        error = self.members.check(member_id, joining.instance_id)
        if error is ErrorCode.NONE:
            error = ON_JOIN[self.state]
        if error is not ErrorCode.NONE:
            self._refuse_join(waiter, member_id, error)
            return
        member, members = self.members[member_id], self.members
        is_unchanged = member.protocols == joining.protocols
        # A leader that joins again may know of new partitions; another member lost its response.
        if is_unchanged and (
            self.state is COMPLETING or (self.state is STABLE and member_id != members.leader_id)
        ):
            self.effects.append(RespondToJoin(waiter, self._generation_for(member_id)))
            return
        self._adopt(member, joining, waiter)
        self._rebalance_unless_preparing(now_ms)

    def _join_static(
        self, joining: Joining, instance_id: str, waiter: JoinWaiter, now_ms: int
    ) -> None:
        """Add a static member without an id, or let it replace its former incarnation."""
        members, new_id = self.members, joining.fresh_member_id
        old_id = members.member_id_of(instance_id)
        if old_id is None:
            self._add(joining, new_id, waiter, now_ms)
            return
        old, leader_before = members[old_id], members.leader_id or ""
        replaced = Replacement(
            old_member_id=old_id,
            new_member_id=new_id,
            leader_before=leader_before,
            protocols_before=old.protocols,
            session_timeout_ms_before=old.session_timeout_ms,
            rebalance_timeout_ms_before=old.rebalance_timeout_ms,
            can_skip_assignment=joining.can_skip_assignment,
        )
        self._end_join(old_id, old_id, ErrorCode.FENCED_INSTANCE_ID)
        self._refuse_sync(old_id, ErrorCode.FENCED_INSTANCE_ID)
        self._rename(old_id, new_id, now_ms)
        self._adopt(members[new_id], joining, waiter)
        if self.state is STABLE and members.select_protocol() == self.protocol_name:
            assignments = {each.member_id: each.assignment for each in members}
            self.effects.append(
                Store(
                    reason=StoreReason.REPLACED,
                    generation_id=self.generation_id,
                    assignments=assignments,
                    replaced=replaced,
                )
            )
        else:
            self._rebalance_unless_preparing(now_ms)

    def _on_replaced(self, replaced: Replacement, error: ErrorCode, now_ms: int) -> None:
        new_id = replaced.new_member_id
        if new_id not in self.members.joining:
            return
        if error is not ErrorCode.NONE:
            self._end_join(new_id, UNKNOWN_MEMBER, error)
            member = self._rename(new_id, replaced.old_member_id, now_ms)
            self.members.update(
                member,
                replaced.protocols_before,
                replaced.session_timeout_ms_before,
                replaced.rebalance_timeout_ms_before,
            )
            return
        result = self._generation_for(new_id)
        if not replaced.can_skip_assignment:
            # The old id, so that the member does not consider itself leader and send an assignment,
            # which a stable group would ignore.
            result = replace(result, leader_id=replaced.leader_before, members=())
        elif new_id == self.members.leader_id:
            result = replace(result, skip_assignment=True)
        self.effects.append(RespondToJoin(self.members.joining.pop(new_id), result))

    def _adopt(self, member: Member, joining: Joining, waiter: JoinWaiter) -> None:
        member_id = member.member_id
        self._end_join(member_id, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        self.members.update(
            member, joining.protocols, joining.session_timeout_ms, joining.rebalance_timeout_ms
        )
        self.members.joining[member_id] = waiter

    def _rename(self, old_id: str, new_id: str, now_ms: int) -> Member:
        member = self.members.rename(old_id, new_id)
        self.deadlines.cancel(Due(Timer.SESSION, old_id))
        self._await_heartbeat(member, now_ms)
        self._note_synced(old_id)
        return member

    def _check_sync(self, syncing: Syncing) -> ErrorCode:
        error = self._check_member(syncing.member_id, syncing.instance_id, syncing.generation_id)
        if error is not ErrorCode.NONE:
            return error
        if (
            syncing.protocol_type not in (None, self.protocol_type)
            or syncing.protocol_name not in (None, self.protocol_name)
        ):  # fmt: skip
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ON_SYNC[self.state]


def _none(topic: str) -> bool:
    del topic
    return False

"""The rebalance of a group, from one generation to the next (decision).

In a rebalance all members join again, and the ones that have joined form the next generation. Its
leader sends the assignment, the group is stored, and each member gets its part.
`broker.groups.group` builds the requests of members on top of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

from broker.groups.deadlines import REBALANCE, SYNC, Deadlines, Due, Timer
from broker.groups.effects import (
    NO_GENERATION,
    UNKNOWN_MEMBER,
    Effect,
    JoinResult,
    JoinWaiter,
    RespondToJoin,
    RespondToSync,
    Store,
    StoreReason,
    SyncResult,
)
from broker.groups.members import Member, Members
from broker.groups.state import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREDECESSORS,
    PREPARING,
    GroupState,
    InvalidTransitionError,
)
from kafkawire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from kafkawire.errors import DecodeError, ErrorCode

NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60_000
"""Limit for a new member's first join, during which it cannot send heartbeats."""
MIN_REBALANCE_WAIT_MS: Final = 1
"""Shortest rebalance timeout: a member may request 0, which must not cause a busy loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Limits for groups in the broker's configuration."""

    max_size: int
    initial_rebalance_delay_ms: int


class Rebalancing:
    """A group's state, members and deadlines, and its transitions between generations."""

    def __init__(self, group_id: str, limits: GroupLimits) -> None:
        self.group_id = group_id
        self.state = EMPTY
        self.generation_id = 0
        self.protocol_name: str | None = None
        self.state_timestamp_ms: int | None = None
        """Wall clock time at which the group was last stored; None if never."""
        self.members = Members()
        self.deadlines = Deadlines()
        self.effects: list[Effect] = []
        self.topics: Set[str] | None = None
        """Topics that the members subscribe to; None if unknown."""
        self._limits = limits
        self._unsynced: set[str] = set()
        # A repeated sync of the leader must not store a second assignment.
        self._assigned_generation_id = NO_GENERATION
        # State of the first rebalance of an empty group, which waits for more members.
        self._is_initial = False
        self._initial_wait_ms = self._initial_left_ms = 0
        self._has_newcomer = False

    def move_to(self, state: GroupState) -> None:
        """Change the state.

        Raises:
            InvalidTransitionError: the table forbids it.
        """
        if self.state not in PREDECESSORS[state]:
            raise InvalidTransitionError(f"{self.group_id}: {self.state.value} -> {state.value}")
        self.state = state

    @property
    def protocol_type(self) -> str | None:
        """Protocol type of the group; None while it only stores offsets."""
        return self.members.protocol_type

    # Rebalancing

    def _rebalance_unless_preparing(self, now_ms: int) -> None:
        if self.state is not PREPARING:
            self._prepare_rebalance(now_ms)

    def _prepare_rebalance(
        self, now_ms: int, error: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS
    ) -> None:
        """Wait for all members to join again; pending syncs get `error`."""
        if self.state is COMPLETING:
            for member in self.members:
                member.assignment = b""
                self._refuse_sync(member.member_id, error, now_ms)
        self._unsynced.clear()
        self.deadlines.cancel(SYNC)
        self._is_initial = self.state is EMPTY
        wait_ms = self.members.rebalance_timeout_ms
        if self._is_initial:
            delay_ms = self._limits.initial_rebalance_delay_ms
            self._initial_left_ms = max(wait_ms - delay_ms, 0)
            self._initial_wait_ms = wait_ms = delay_ms
        self.move_to(PREPARING)
        self.deadlines.set(REBALANCE, now_ms + wait_ms)
        self._complete_join_if_all_joined(now_ms)

    def _complete_join_if_all_joined(self, now_ms: int) -> None:
        if self.state is PREPARING and not self._is_initial and self.members.have_all_joined:
            self._complete_join(now_ms)

    def _on_rebalance_due(self, now_ms: int) -> None:
        if self._is_initial and self._has_newcomer and self._initial_left_ms:
            self._has_newcomer = False
            wait_ms = min(self._limits.initial_rebalance_delay_ms, self._initial_left_ms)
            self._initial_left_ms = max(self._initial_left_ms - self._initial_wait_ms, 0)
            self._initial_wait_ms = wait_ms
            self.deadlines.set(REBALANCE, now_ms + wait_ms)
        else:
            self._complete_join(now_ms)

    def _complete_join(self, now_ms: int) -> None:
        """Begin a generation of the members that have joined; wait again if none has."""
        members = self.members
        for member in members:
            # Static members stay in the group until their session expires.
            if member.member_id not in members.joining and member.instance_id is None:
                self._forget(member.member_id)
        self._is_initial = self._has_newcomer = False
        if len(members) and not members.elect_joined_leader():
            wait_ms = max(members.rebalance_timeout_ms, MIN_REBALANCE_WAIT_MS)
            self.deadlines.set(REBALANCE, now_ms + wait_ms)
            return
        self.deadlines.cancel(REBALANCE)
        self.generation_id += 1
        if len(members):
            self._begin_generation(now_ms)
        else:
            self.protocol_name = None
            self.topics = self._subscribed_topics()
            self.move_to(EMPTY)
            self.effects.append(Store(reason=StoreReason.EMPTIED, generation_id=self.generation_id))

    def _begin_generation(self, now_ms: int) -> None:
        members = self.members
        self.protocol_name = members.select_protocol()
        self.topics = self._subscribed_topics()
        self.move_to(COMPLETING)
        self._unsynced = {member.member_id for member in members}
        self.deadlines.set(SYNC, now_ms + members.rebalance_timeout_ms)
        for member in members:
            member.is_new = False
            self._await_heartbeat(member, now_ms)
            waiter = members.joining.pop(member.member_id, None)
            if waiter is not None:
                self.effects.append(RespondToJoin(waiter, self._generation_for(member.member_id)))

    def _store_assignments(self, assigned: Mapping[str, bytes]) -> None:
        if self._assigned_generation_id == self.generation_id:
            return
        self._assigned_generation_id = self.generation_id
        self.effects.append(
            Store(
                reason=StoreReason.ASSIGNED,
                generation_id=self.generation_id,
                # A member that the leader has left out gets a response with an empty assignment.
                assignments={
                    each.member_id: assigned.get(each.member_id, b"") for each in self.members
                },
            )
        )

    def _respond_to_syncs(self, now_ms: int) -> None:
        for member in self.members:
            waiter = self.members.syncing.pop(member.member_id, None)
            if waiter is not None:
                self._await_heartbeat(member, now_ms)
                self.effects.append(RespondToSync(waiter, self._assignment_of(member)))

    def _note_synced(self, member_id: str) -> None:
        self._unsynced.discard(member_id)
        if not self._unsynced:
            self.deadlines.cancel(SYNC)

    def _on_sync_expired(self, now_ms: int) -> None:
        """Remove the members that have joined but not requested their assignment."""
        for member_id in list(self._unsynced):
            self._forget(member_id)
        self._prepare_rebalance(now_ms)

    # Members

    def _check_member(
        self, member_id: str, instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.members.check(member_id, instance_id)
        if error is ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def _await_heartbeat(self, member: Member, now_ms: int) -> None:
        wait_ms = NEW_MEMBER_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        self.deadlines.set(Due(Timer.SESSION, member.member_id), now_ms + wait_ms)

    def _on_session_expired(self, member_id: str, now_ms: int) -> None:
        members = self.members
        if member_id in members.pending:
            self._forget(member_id)
            self._complete_join_if_all_joined(now_ms)
            return
        if member_id not in members:
            return
        is_waiting = member_id in members.joining or member_id in members.syncing
        # A waiting member cannot send heartbeats, but a new one may have disconnected.
        if members[member_id].is_new or not is_waiting:
            self._remove(member_id, now_ms)

    def _remove(self, member_id: str, now_ms: int) -> None:
        """Remove a member, and rebalance so that the others take its partitions."""
        self._end_join(member_id, UNKNOWN_MEMBER, ErrorCode.UNKNOWN_MEMBER_ID)
        self._refuse_sync(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        self._forget(member_id)
        if self.state is PREPARING:
            self._complete_join_if_all_joined(now_ms)
        else:
            self._prepare_rebalance(now_ms)

    def _forget(self, member_id: str) -> None:
        self.members.remove(member_id)
        self._unsynced.discard(member_id)
        self.deadlines.cancel(Due(Timer.SESSION, member_id))

    def _die(self) -> None:
        self.move_to(DEAD)
        self.deadlines.cancel_all()

    def _subscribed_topics(self) -> Set[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if self.protocol_name is None:
            return None if len(self.members) else frozenset()
        try:
            each = [subscribed_topics(m.metadata(self.protocol_name)) for m in self.members]
        except DecodeError:
            return None
        return frozenset().union(*each)

    # Responses

    def _generation_for(self, member_id: str) -> JoinResult:
        assert self.protocol_name is not None, "a generation has a protocol"
        is_leader = member_id == self.members.leader_id
        return JoinResult(
            member_id=member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.members.leader_id or "",
            members=self.members.described(self.protocol_name) if is_leader else (),
        )

    def _assignment_of(self, member: Member) -> SyncResult:
        return SyncResult(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def _refuse_join(self, waiter: JoinWaiter, member_id: str, error: ErrorCode) -> None:
        self.effects.append(RespondToJoin(waiter, JoinResult(error=error, member_id=member_id)))

    def _end_join(self, member_id: str, response_id: str, error: ErrorCode) -> None:
        """Respond with `error` and member id `response_id` to a join, if one waits."""
        waiter = self.members.joining.pop(member_id, None)
        if waiter is not None:
            self._refuse_join(waiter, response_id, error)

    def _refuse_sync(self, member_id: str, error: ErrorCode, now_ms: int | None = None) -> None:
        """Respond to a waiting sync with `error`; with `now_ms`, extend the member's session."""
        waiter = self.members.syncing.pop(member_id, None)
        if waiter is None:
            return
        self.effects.append(RespondToSync(waiter, SyncResult(error=error)))
        if now_ms is not None:
            self._await_heartbeat(self.members[member_id], now_ms)

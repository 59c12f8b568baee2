"""The rebalance of a group, from one generation to the next (decision).

In a rebalance all members join again, and the ones that have joined form the next generation. Its
leader sends the assignment, the group is stored, and each member gets its part.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

from broker.groups.deadline_queue import REBALANCE, GroupDeadlines
from broker.groups.group_effects import (
    NO_GENERATION,
    UNKNOWN_MEMBER,
    Effect,
    JoinResult,
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
    STABLE,
    GroupState,
    InvalidTransitionError,
)
from kafkawire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from kafkawire.errors import DecodeError, ErrorCode

MIN_REBALANCE_WAIT_MS: Final = 1_000
"""Shortest wait for absent static members, of which none has joined.

A member may request a rebalance timeout of 0, which must not cause a busy loop until their sessions
expire.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """Limits for groups in the broker's configuration."""

    max_size: int
    initial_rebalance_delay_ms: int


class Rebalance:
    """A group's state and generation, and its transitions between generations.

    Owns the `REBALANCE` deadline. The members, with their deadlines and waiting requests, are
    shared with the other parts of the group.
    """

    def __init__(
        self,
        group_id: str,
        limits: GroupLimits,
        members: Members,
        deadlines: GroupDeadlines,
        effects: list[Effect],
    ) -> None:
        self.state = EMPTY
        self.generation_id = 0
        self.protocol_name: str | None = None
        self.topics: Set[str] | None = None
        """Topics that the members subscribe to; None if unknown."""
        self._group_id = group_id
        self._initial_delay_ms = limits.initial_rebalance_delay_ms
        self._members = members
        self._deadlines = deadlines
        self._effects = effects
        # A repeated sync of the leader must not store a second assignment.
        self._assigned_generation_id = NO_GENERATION
        # State of the first rebalance of an empty group, which waits for more members.
        self._is_initial = False
        self._initial_wait_ms = self._initial_left_ms = 0
        self._has_newcomer = False

    def restore(self, generation_id: int, protocol_name: str | None) -> None:
        """Continue the stored generation of the members, which have been added before."""
        assert self.generation_id == 0, "a group is restored when it is new"
        self.generation_id, self.protocol_name = generation_id, protocol_name
        self.topics = self._subscribed_topics()
        if len(self._members):
            self.state = STABLE

    def move_to(self, state: GroupState) -> None:
        """Change the state.

        Raises:
            InvalidTransitionError: the table forbids it.
        """
        if self.state not in PREDECESSORS[state]:
            raise InvalidTransitionError(f"{self._group_id}: {self.state.value} -> {state.value}")
        self.state = state

    def die(self) -> None:
        """End the group, and cancel its deadlines."""
        self.move_to(DEAD)
        self._deadlines.cancel_all()

    def check(self, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
        """Return NONE if this is a member of the current generation."""
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._members.check(member_id, instance_id)
        if error is ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    # Waiting for members to join

    def prepare(self, now_ms: int, error: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS) -> None:
        """Wait for all members to join again; pending syncs get `error`."""
        members = self._members
        if self.state is COMPLETING:
            for member in members:
                member.assignment = b""
                if members.fail_sync(member.member_id, error):
                    members.await_heartbeat(member.member_id, now_ms)
        members.cancel_syncs()
        self._is_initial = self.state is EMPTY
        wait_ms = members.rebalance_timeout_ms
        if self._is_initial:
            delay_ms = self._initial_delay_ms
            self._initial_left_ms = max(wait_ms - delay_ms, 0)
            self._initial_wait_ms = wait_ms = delay_ms
        self.move_to(PREPARING)
        self._deadlines.set(REBALANCE, now_ms + wait_ms)
        self.complete_if_all_joined(now_ms)

    def prepare_if_needed(self, now_ms: int) -> None:
        """Prepare the next generation, unless that has begun already."""
        if self.state is not PREPARING:
            self.prepare(now_ms)

    def on_newcomer(self, now_ms: int) -> None:
        """Prepare a generation with a new member, which may prolong an initial rebalance."""
        self._has_newcomer |= self.state is PREPARING and self.generation_id == 0
        self.prepare_if_needed(now_ms)

    def remove(self, member_id: str, now_ms: int) -> None:
        """Remove a member, and rebalance so that the others take its partitions."""
        members = self._members
        members.fail_join(member_id, ErrorCode.UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER)
        members.fail_sync(member_id, ErrorCode.UNKNOWN_MEMBER_ID)
        members.remove(member_id)
        if self.state is PREPARING:
            self.complete_if_all_joined(now_ms)
        else:
            self.prepare(now_ms)

    def remove_pending(self, member_id: str, now_ms: int) -> None:
        """Remove a pending id, for which a rebalance may be waiting."""
        self._members.remove(member_id)
        self.complete_if_all_joined(now_ms)

    def remove_unsynced(self, now_ms: int) -> None:
        """Remove the members that have joined but not requested their assignment, if any are left.

        An earlier deadline may have begun another rebalance, if both were handled late.
        """
        unsynced = list(self._members.unsynced)
        for member_id in unsynced:
            self._members.remove(member_id)
        if unsynced:
            self.prepare(now_ms)

    # Beginning a generation

    def complete_if_all_joined(self, now_ms: int) -> None:
        """Begin the next generation if no member is missing."""
        if self.state is PREPARING and not self._is_initial and self._members.have_all_joined:
            self._complete(now_ms)

    def on_due(self, now_ms: int) -> None:
        """Begin the next generation now that the wait is over, or prolong the initial wait."""
        if self.state is not PREPARING:
            return
        if self._is_initial and self._has_newcomer and self._initial_left_ms:
            self._has_newcomer = False
            wait_ms = min(self._initial_delay_ms, self._initial_left_ms)
            self._initial_left_ms = max(self._initial_left_ms - self._initial_wait_ms, 0)
            self._initial_wait_ms = wait_ms
            self._deadlines.set(REBALANCE, now_ms + wait_ms)
        else:
            self._complete(now_ms)

    def _complete(self, now_ms: int) -> None:
        """Begin a generation of the members that have joined; wait again if none has."""
        members = self._members
        for member in members:
            # Static members stay in the group until their session expires.
            if member.member_id not in members.joining and member.instance_id is None:
                members.remove(member.member_id)
        self._is_initial = self._has_newcomer = False
        if len(members) and not members.elect_joined_leader():
            wait_ms = max(members.rebalance_timeout_ms, MIN_REBALANCE_WAIT_MS)
            self._deadlines.set(REBALANCE, now_ms + wait_ms)
            return
        self._deadlines.cancel(REBALANCE)
        self.generation_id += 1
        if len(members):
            self._begin_generation(now_ms)
        else:
            self.protocol_name = None
            self.topics = self._subscribed_topics()
            self.move_to(EMPTY)
            store = Store(reason=StoreReason.EMPTIED, generation_id=self.generation_id)
            self._effects.append(store)

    def _begin_generation(self, now_ms: int) -> None:
        members = self._members
        self.protocol_name = members.select_protocol()
        self.topics = self._subscribed_topics()
        self.move_to(COMPLETING)
        members.await_syncs(now_ms + members.rebalance_timeout_ms)
        for member in members:
            member.is_new = False
            members.await_heartbeat(member.member_id, now_ms)
            waiter = members.joining.pop(member.member_id, None)
            if waiter is not None:
                self._effects.append(RespondToJoin(waiter, self.join_result(member.member_id)))

    def _subscribed_topics(self) -> Set[str] | None:
        members, name = self._members, self.protocol_name
        if members.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if name is None:
            return None if len(members) else frozenset()
        try:
            each = [subscribed_topics(member.metadata(name)) for member in members]
        except DecodeError:
            return None
        return frozenset().union(*each)

    def join_result(self, member_id: str) -> JoinResult:
        """Return the response to a member's join of the current generation."""
        assert self.protocol_name is not None, "a generation has a protocol"
        members = self._members
        is_leader = member_id == members.leader_id
        return JoinResult(
            member_id=member_id,
            generation_id=self.generation_id,
            protocol_type=members.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=members.leader_id or "",
            members=members.described(self.protocol_name) if is_leader else (),
        )

    # Assigning partitions

    def store_assignments(self, assigned: Mapping[str, bytes]) -> None:
        """Store the assignments of the leader, once per generation."""
        if self._assigned_generation_id == self.generation_id:
            return
        self._assigned_generation_id = self.generation_id
        self._effects.append(
            Store(
                reason=StoreReason.ASSIGNED,
                generation_id=self.generation_id,
                # A member that the leader has left out gets a response with an empty assignment.
                assignments={
                    each.member_id: assigned.get(each.member_id, b"") for each in self._members
                },
            )
        )

    def on_assignments_stored(
        self, assigned: Mapping[str, bytes], error: ErrorCode, now_ms: int
    ) -> None:
        """Respond to waiting syncs; rebalance again if the assignments could not be stored."""
        if error is not ErrorCode.NONE:
            self.prepare(now_ms, error)
            return
        members = self._members
        for member in members:
            member.assignment = assigned[member.member_id]
        self.move_to(STABLE)
        for member in members:
            waiter = members.syncing.pop(member.member_id, None)
            if waiter is not None:
                members.await_heartbeat(member.member_id, now_ms)
                self._effects.append(RespondToSync(waiter, self.sync_result(member)))

    def sync_result(self, member: Member) -> SyncResult:
        """Return the response to a member's sync of the current generation."""
        return SyncResult(
            protocol_type=self._members.protocol_type,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

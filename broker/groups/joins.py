"""JoinGroup requests: new members of a group, and members that join again (decision).

A member joins for the first time or again. It may have to come back with the id that it is given
(KIP-394), and a static member may replace its former incarnation (KIP-345).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from broker.groups.group_effects import (
    UNKNOWN_MEMBER,
    Effect,
    Joining,
    JoinResult,
    JoinWaiter,
    Replacement,
    RespondToJoin,
    Store,
    StoreReason,
)
from broker.groups.members import Member, Members
from broker.groups.rebalance import Rebalance
from broker.groups.state import COMPLETING, DEAD, EMPTY, ON_JOIN, PREPARING, STABLE
from kafkawire.errors import ErrorCode

MAX_PENDING_MEMBERS: Final = 10_000
"""Limit for the assigned ids of one group with which no member has joined yet."""


class Joins:
    """Adds the members that join, and starts the rebalances that they cause."""

    def __init__(
        self, members: Members, rebalance: Rebalance, effects: list[Effect], max_size: int
    ) -> None:
        self._members = members
        self._rebalance = rebalance
        self._effects = effects
        self._max_size = max_size

    def join(self, joining: Joining, waiter: JoinWaiter, now_ms: int) -> None:
        """Add a member to the next generation; it waits until that begins."""
        member_id, is_new = joining.member_id, joining.member_id == UNKNOWN_MEMBER
        if not self._has_room_for(member_id):
            self._members.remove(member_id)
            self._refuse(waiter, UNKNOWN_MEMBER, ErrorCode.GROUP_MAX_SIZE_REACHED)
        elif self._rebalance.state is DEAD:
            self._refuse(waiter, member_id, ON_JOIN[DEAD])
        elif not self._is_compatible(joining):
            self._refuse(waiter, member_id, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif is_new and joining.instance_id is not None:
            self._join_static(joining, joining.instance_id, waiter, now_ms)
        elif is_new and joining.requires_known_id:
            self._assign_id(joining, waiter, now_ms)
        elif is_new:
            self._add(joining, joining.fresh_member_id, waiter, now_ms)
        elif member_id in self._members.pending and joining.instance_id is None:
            self._add(joining, member_id, waiter, now_ms)
        else:
            self._join_again(joining, waiter, now_ms)
        self._rebalance.complete_if_all_joined(now_ms)

    def on_replacement_stored(self, replaced: Replacement, error: ErrorCode, now_ms: int) -> None:
        """Respond to a static member that has returned; without a record, undo its return."""
        members, new_id = self._members, replaced.new_member_id
        if new_id not in members.joining:
            return
        if error is not ErrorCode.NONE:
            members.fail_join(new_id, error, UNKNOWN_MEMBER)
            member = members.rename(new_id, replaced.old_member_id, now_ms)
            members.update(
                member,
                replaced.protocols_before,
                replaced.session_timeout_ms_before,
                replaced.rebalance_timeout_ms_before,
            )
            return
        result = self._rebalance.join_result(new_id)
        if not replaced.can_skip_assignment:
            # The old id, so that the member does not consider itself leader and send an assignment,
            # which a stable group would ignore.
            result = replace(result, leader_id=replaced.leader_before, members=())
        elif new_id == members.leader_id:
            result = replace(result, skip_assignment=True)
        self._effects.append(RespondToJoin(members.joining.pop(new_id), result))
        # The deadline may have passed during the wait.
        members.await_heartbeat(new_id, now_ms)

    def _has_room_for(self, member_id: str) -> bool:
        state, members = self._rebalance.state, self._members
        if state in (EMPTY, DEAD):
            return True
        if state is PREPARING:
            # Counts members that have joined again: the last ones to return are refused.
            return member_id in members.joining or len(members.joining) < self._max_size
        return member_id in members or len(members) < self._max_size

    def _is_compatible(self, joining: Joining) -> bool:
        if self._rebalance.state is EMPTY:
            return bool(joining.protocol_type and joining.protocols)
        is_same_type = joining.protocol_type == self._members.protocol_type
        return is_same_type and self._members.support_any_of(joining.protocols)

    # A new member

    def _assign_id(self, joining: Joining, waiter: JoinWaiter, now_ms: int) -> None:
        members, member_id = self._members, joining.fresh_member_id
        if len(members.pending) >= MAX_PENDING_MEMBERS:
            # A member joins again within a round trip: the oldest one has most likely gone.
            members.remove(next(iter(members.pending)))
        members.add_pending(member_id, now_ms + joining.session_timeout_ms)
        self._refuse(waiter, member_id, ErrorCode.MEMBER_ID_REQUIRED)

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
        self._members.add(member, joining.protocol_type, now_ms)
        self._members.joining[member_id] = waiter
        self._rebalance.on_newcomer(now_ms)

    # A member that returns

    def _join_again(self, joining: Joining, waiter: JoinWaiter, now_ms: int) -> None:
        member_id, members, rebalance = joining.member_id, self._members, self._rebalance
        error = members.check(member_id, joining.instance_id)
        if error is ErrorCode.NONE:
            error = ON_JOIN[rebalance.state]
        if error is not ErrorCode.NONE:
            self._refuse(waiter, member_id, error)
            return
        member, state = members[member_id], rebalance.state
        is_unchanged = member.protocols == joining.protocols
        # A leader that joins again may know of new partitions; another member lost its response.
        if is_unchanged and (
            state is COMPLETING or (state is STABLE and member_id != members.leader_id)
        ):
            self._effects.append(RespondToJoin(waiter, rebalance.join_result(member_id)))
            return
        self._adopt(member, joining, waiter)
        rebalance.prepare_if_needed(now_ms)

    def _join_static(
        self, joining: Joining, instance_id: str, waiter: JoinWaiter, now_ms: int
    ) -> None:
        """Add a static member without an id, or let it replace its former incarnation."""
        members, rebalance, new_id = self._members, self._rebalance, joining.fresh_member_id
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
        members.fail_join(old_id, ErrorCode.FENCED_INSTANCE_ID)
        members.fail_sync(old_id, ErrorCode.FENCED_INSTANCE_ID)
        members.rename(old_id, new_id, now_ms)
        self._adopt(members[new_id], joining, waiter)
        if rebalance.state is STABLE and members.select_protocol() == rebalance.protocol_name:
            self._effects.append(
                Store(
                    reason=StoreReason.REPLACED,
                    generation_id=rebalance.generation_id,
                    assignments={each.member_id: each.assignment for each in members},
                    replaced=replaced,
                )
            )
        else:
            rebalance.prepare_if_needed(now_ms)

    def _adopt(self, member: Member, joining: Joining, waiter: JoinWaiter) -> None:
        """Let a member wait for the next generation, with the settings of its last request."""
        members = self._members
        members.fail_join(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        members.update(
            member, joining.protocols, joining.session_timeout_ms, joining.rebalance_timeout_ms
        )
        members.joining[member.member_id] = waiter

    def _refuse(self, waiter: JoinWaiter, member_id: str, error: ErrorCode) -> None:
        self._effects.append(RespondToJoin(waiter, JoinResult(error=error, member_id=member_id)))

"""The members of a group: leader, common protocols, sessions and waiting requests (decision).

Invariants: the leader is a member whenever there are members; an instance id belongs to one member;
an id is either pending or a member's; only members wait; every pending id has a session deadline,
and so has every member, except one whose JoinGroup or SyncGroup waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, KeysView
from typing import Final

from broker.groups.deadline_queue import SYNC, Due, GroupDeadlines, Timer
from broker.groups.group_effects import (
    Effect,
    JoinedMember,
    JoinResult,
    JoinWaiter,
    Protocols,
    RespondToJoin,
    RespondToSync,
    SyncResult,
    SyncWaiter,
)
from kafkawire.errors import ErrorCode

NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60_000
"""Limit for a new member's first join, during which it cannot send heartbeats."""


class Member:
    """One member; `protocols` in its order of preference."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
        is_new: bool = False,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        # Not in a generation yet: it cannot send heartbeats while its first join waits.
        self.is_new = is_new

    def metadata(self, protocol_name: str) -> bytes:
        """Return the member's metadata for a protocol; empty if it does not support that."""
        return next((data for name, data in self.protocols if name == protocol_name), b"")


class Members:
    """The members of one group; failed requests of members become effects."""

    def __init__(self, deadlines: GroupDeadlines, effects: list[Effect]) -> None:
        self.leader_id: str | None = None
        self.protocol_type: str | None = None
        """Type of the current members, or of the last ones; None before the first member."""
        self.joining: dict[str, JoinWaiter] = {}
        self.syncing: dict[str, SyncWaiter] = {}
        self.unsynced: set[str] = set()
        """Members of the generation that have not requested their assignment yet."""
        self._deadlines = deadlines
        self._effects = effects
        self._by_id: dict[str, Member] = {}
        self._by_instance: dict[str, str] = {}
        self._support: Counter[str] = Counter()
        self._pending: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> Member:
        return self._by_id[member_id]

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._by_id.values()))

    @property
    def pending(self) -> KeysView[str]:
        """Ids that were assigned and have not joined yet, the oldest first."""
        return self._pending.keys()

    @property
    def have_all_joined(self) -> bool:
        """Whether every member waits for the next generation, and no id is pending."""
        return len(self.joining) == len(self._by_id) and not self._pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """Longest rebalance timeout of the members; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def member_id_of(self, instance_id: str) -> str | None:
        """Return the id of a static member, None if it is not in the group."""
        return self._by_instance.get(instance_id)

    def check(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return NONE if this is a member, and the current one with its instance id."""
        if instance_id is not None:
            current = self._by_instance.get(instance_id)
            if current is not None and current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self._by_id else ErrorCode.UNKNOWN_MEMBER_ID

    def support_any_of(self, protocols: Protocols) -> bool:
        """Whether all members support one of `protocols`."""
        return any(self._support[name] == len(self._by_id) for name, _ in protocols)

    # Changes

    def add(self, member: Member, protocol_type: str, now_ms: int) -> None:
        """Add a member; the first one becomes leader and sets the protocol type."""
        assert member.member_id not in self._by_id, "a member is added once"
        if member.instance_id is not None:
            assert member.instance_id not in self._by_instance, "an instance is one member"
            self._by_instance[member.instance_id] = member.member_id
        if not self._by_id:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._by_id[member.member_id] = member
        self._support.update(_names(member.protocols))
        self._pending.pop(member.member_id, None)
        self.await_heartbeat(member.member_id, now_ms)

    def add_pending(self, member_id: str, expires_ms: int) -> None:
        """Note an id that was assigned to a member that has yet to join with it."""
        self._pending[member_id] = None
        self._deadlines.set(Due(Timer.SESSION, member_id), expires_ms)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending id; the oldest other member becomes leader if necessary."""
        self._pending.pop(member_id, None)
        self.unsynced.discard(member_id)
        self._deadlines.cancel(Due(Timer.SESSION, member_id))
        member = self._by_id.pop(member_id, None)
        if member is None:
            return
        self._drop_support(member.protocols)
        self.joining.pop(member_id, None)
        self.syncing.pop(member_id, None)
        if member.instance_id is not None:
            del self._by_instance[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self._by_id), None)

    def rename(self, old_id: str, new_id: str, now_ms: int) -> Member:
        """Give a static member another id, after the response to its waiting requests."""
        assert old_id not in self.joining, "its join has a response"
        assert old_id not in self.syncing, "its sync has a response"
        member = self._by_id.pop(old_id)
        assert member.instance_id is not None, "only static members keep their place"
        member.member_id = new_id
        self._by_id[new_id] = member
        self._by_instance[member.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        self._deadlines.cancel(Due(Timer.SESSION, old_id))
        self.await_heartbeat(member.member_id, now_ms)
        self.on_synced(old_id)
        return member

    def update(
        self,
        member: Member,
        protocols: Protocols,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        """Adopt the settings of a member that joins again."""
        self._drop_support(member.protocols)
        self._support.update(_names(protocols))
        member.protocols = protocols
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    # Sessions

    def await_heartbeat(self, member_id: str, now_ms: int) -> None:
        """Begin the session timeout of a member again."""
        member = self._by_id[member_id]
        wait_ms = NEW_MEMBER_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        self._deadlines.set(Due(Timer.SESSION, member_id), now_ms + wait_ms)

    def await_syncs(self, until_ms: int) -> None:
        """Expect every member to request its assignment by `until_ms`."""
        self.unsynced = set(self._by_id)
        self._deadlines.set(SYNC, until_ms)

    def on_synced(self, member_id: str) -> None:
        """Note that a member has requested its assignment."""
        self.unsynced.discard(member_id)
        if not self.unsynced:
            self._deadlines.cancel(SYNC)

    def cancel_syncs(self) -> None:
        """Expect no further request for an assignment of this generation."""
        self.unsynced.clear()
        self._deadlines.cancel(SYNC)

    # Waiting requests

    def fail_join(self, member_id: str, error: ErrorCode, response_id: str | None = None) -> None:
        """Respond with `error` to a join, if one waits; with another member id if one is given."""
        waiter = self.joining.pop(member_id, None)
        if waiter is not None:
            response_id = member_id if response_id is None else response_id
            result = JoinResult(error=error, member_id=response_id)
            self._effects.append(RespondToJoin(waiter, result))

    def fail_sync(self, member_id: str, error: ErrorCode) -> bool:
        """Respond with `error` to a sync, if one waits; return whether one did."""
        waiter = self.syncing.pop(member_id, None)
        if waiter is None:
            return False
        self._effects.append(RespondToSync(waiter, SyncResult(error=error)))
        return True

    # The next generation

    def select_protocol(self) -> str:
        """Return the protocol with the most votes among the common ones of all members.

        Each member votes for its first common protocol. In a tie the protocol with the earliest
        first vote wins.
        """
        supported = {name for name, count in self._support.items() if count == len(self._by_id)}
        votes = Counter(
            next(name for name, _ in member.protocols if name in supported) for member in self
        )
        return votes.most_common(1)[0][0]

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader, the old leader if possible.

        Returns False if no member has joined.
        """
        if self.leader_id not in self.joining:
            joined = next(iter(self.joining), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def described(self, protocol_name: str) -> tuple[JoinedMember, ...]:
        """Return every member in the form that the leader needs for the assignment."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(protocol_name))
            for member in self
        )

    # Inside

    def _drop_support(self, protocols: Protocols) -> None:
        """Forget a member's support, and each name that no member supports any longer."""
        for name in _names(protocols):
            self._support[name] -= 1
            if not self._support[name]:
                del self._support[name]


def _names(protocols: Protocols) -> set[str]:
    # A set: a protocol that a member lists twice must not count as supported by two members.
    return {name for name, _ in protocols}

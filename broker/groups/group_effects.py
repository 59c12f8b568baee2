"""Requests to a group, its responses and its effects (decision).

A waiter completes the response to a waiting request. A group keeps it, returns it in an effect with
the response, and never calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from kafkawire.errors import ErrorCode

UNKNOWN_MEMBER: Final = ""
"""Member id of a client that has none yet."""
NO_GENERATION: Final = -1

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names with the member's metadata for each, in the member's order of preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """A member's request to join, for the first time or again."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    fresh_member_id: str
    """Id for the member if it has none yet."""
    requires_known_id: bool
    """Whether a dynamic member must first join again with its new id (KIP-394)."""
    can_skip_assignment: bool
    """Whether a returning static leader understands `skip_assignment` (KIP-814)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Syncing:
    """A member's request for its assignment; the leader's contains every assignment."""

    member_id: str
    instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member, as the response to the leader describes it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResult:
    """Response to `Joining`; only the leader gets the members."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """Response to `Syncing`."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


JoinWaiter: TypeAlias = Callable[[JoinResult], None]
SyncWaiter: TypeAlias = Callable[[SyncResult], None]


@dataclass(frozen=True, slots=True)
class RespondToJoin:
    """Send the response to a join."""

    waiter: JoinWaiter
    result: JoinResult


@dataclass(frozen=True, slots=True)
class RespondToSync:
    """Send the response to a sync."""

    waiter: SyncWaiter
    result: SyncResult


class StoreReason(Enum):
    """Reason for which a group is written to the log."""

    EMPTIED = "the last member has left"
    ASSIGNED = "the leader has sent the assignment"
    REPLACED = "a static member has returned with a new id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Write the group to the log, then call `Group.on_stored` with this effect."""

    reason: StoreReason
    generation_id: int
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    replaced: Replacement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A static member that replaced its former incarnation, and the settings of that one."""

    old_member_id: str
    new_member_id: str
    leader_before: str
    protocols_before: Protocols
    session_timeout_ms_before: int
    rebalance_timeout_ms_before: int
    can_skip_assignment: bool


Effect: TypeAlias = RespondToJoin | RespondToSync | Store

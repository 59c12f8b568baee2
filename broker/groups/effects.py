"""What is asked of a group, what it answers, and what it wants done (decision: values only).

A `Waiter` is whoever waits for an answer. A group keeps it, gives it back with the answer, and
never looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeAlias

from kafkawire.errors import ErrorCode

UNKNOWN_MEMBER: Final = ""
"""The member id of who has none yet."""
NO_GENERATION: Final = -1

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names with the member's metadata for each, in the order of the member's preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """A member's wish to join, first or again."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    fresh_member_id: str
    """What it will be called if it has no id yet."""
    requires_known_id: bool
    """Whether a dynamic member must come back with its new id first (KIP-394)."""
    can_skip_assignment: bool
    """Whether a static leader that comes back can be told not to assign anew (KIP-814)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Syncing:
    """A member's wish for its assignment; the leader brings those of all."""

    member_id: str
    instance_id: str | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member, as the leader of its group is told."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResult:
    """The answer to `Joining`; only the leader learns the members."""

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
    """The answer to `Syncing`."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


JoinWaiter: TypeAlias = Callable[[JoinResult], None]
SyncWaiter: TypeAlias = Callable[[SyncResult], None]


@dataclass(frozen=True, slots=True)
class AnswerJoin:
    """Tell a member what came of its join."""

    waiter: JoinWaiter
    result: JoinResult


@dataclass(frozen=True, slots=True)
class AnswerSync:
    """Tell a member its assignment."""

    waiter: SyncWaiter
    result: SyncResult


class StoreReason(Enum):
    """Why a group is written to the log."""

    EMPTIED = "the last member has gone"
    ASSIGNED = "the leader has assigned"
    REPLACED = "a static member has come back under a new id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Write the group to the log, then call `Group.on_stored` with this."""

    reason: StoreReason
    generation_id: int
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    replaced: Replacement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A static member that took over from its former self, and what that one was like."""

    old_member_id: str
    new_member_id: str
    leader_before: str
    protocols_before: Protocols
    session_timeout_ms_before: int
    rebalance_timeout_ms_before: int
    can_skip_assignment: bool


Effect: TypeAlias = AnswerJoin | AnswerSync | Store

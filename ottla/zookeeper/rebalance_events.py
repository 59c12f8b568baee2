"""The events of a member of a group, and the effects that follow from them (decision).

`rebalance` turns these events into these effects. An event and an effect with a `session` were
meant for that session only.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ottla.zookeeper.assignment import Slot

# Events


@dataclass(frozen=True, slots=True)
class SessionBegan:
    """The coordinator has granted a session."""

    session: int


@dataclass(frozen=True, slots=True)
class Registered:
    """The registration of this member exists in `session`."""

    session: int


@dataclass(frozen=True, slots=True)
class Changed:
    """A watched node has changed."""


@dataclass(frozen=True, slots=True)
class Viewed:
    """The group was read; `wanted` holds this member's partitions by the formula."""

    session: int
    wanted: Mapping[Slot, str]
    has_brokers: bool = True


@dataclass(frozen=True, slots=True)
class Missing:
    """The registration of this member was deleted, although its session lives."""

    session: int


@dataclass(frozen=True, slots=True)
class Impossible:
    """The group cannot be joined as it is; the application has the reason."""

    session: int


@dataclass(frozen=True, slots=True)
class Drained:
    """The partitions that move away are no longer read, and their offsets are committed."""

    session: int


@dataclass(frozen=True, slots=True)
class Released:
    """The claims of the partitions that move away are gone."""

    session: int


@dataclass(frozen=True, slots=True)
class Claimed:
    """All wanted partitions are owned."""

    session: int


@dataclass(frozen=True, slots=True)
class Refused:
    """`slot` has an owner, so that nothing was claimed."""

    session: int
    slot: Slot
    owner: str
    is_live: bool


@dataclass(frozen=True, slots=True)
class Moved:
    """A node that was read has changed before the operation, which was therefore not applied."""

    session: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The outcome of an operation is unknown."""

    session: int


@dataclass(frozen=True, slots=True)
class Started:
    """The claimed partitions are read, except for `unknown` ones."""

    session: int
    unknown: frozenset[Slot] = frozenset()


@dataclass(frozen=True, slots=True)
class Due:
    """A `Wait` is over; `is_early` if its claim was gone before its time, or it was interrupted."""

    session: int
    is_early: bool = False


@dataclass(frozen=True, slots=True)
class GaveUp:
    """Claims and registration of a member that gave up are gone."""

    session: int


@dataclass(frozen=True, slots=True)
class Lost:
    """Claims of this member are gone, although its session lives."""

    session: int
    slots: Collection[Slot]


@dataclass(frozen=True, slots=True)
class Suspected:
    """The session may have ended."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The session lives."""


@dataclass(frozen=True, slots=True)
class Expired:
    """The session has ended, and all claims with it."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The application reads again after a failed rebalance."""


@dataclass(frozen=True, slots=True)
class Closing:
    """The application leaves."""


Event: TypeAlias = (
    SessionBegan
    | Registered
    | Changed
    | Viewed
    | Missing
    | Impossible
    | Drained
    | Released
    | Claimed
    | Refused
    | Moved
    | Failed
    | Started
    | Due
    | GaveUp
    | Lost
    | Suspected
    | Restored
    | Expired
    | Resumed
    | Closing
)

# Effects


@dataclass(frozen=True, slots=True)
class Register:
    """Create the registration; `held` are claims that an older session may still have."""

    session: int
    held: frozenset[Slot]


@dataclass(frozen=True, slots=True)
class View:
    """Read the group, and arm the watches by the same reads."""

    session: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Stop reading these partitions and commit their offsets."""

    session: int
    slots: frozenset[Slot]


@dataclass(frozen=True, slots=True)
class Release:
    """Delete the claims that this session has created."""

    session: int
    slots: frozenset[Slot]


@dataclass(frozen=True, slots=True)
class Claim:
    """Create these claims, all or none."""

    session: int
    wanted: Mapping[Slot, str]


@dataclass(frozen=True, slots=True)
class Start:
    """Read these partitions, after the application has heard of them."""

    session: int
    slots: frozenset[Slot]


@dataclass(frozen=True, slots=True)
class Wait:
    """Report `Due` after `delay_ms`, or once `blocker` has no owner."""

    session: int
    delay_ms: int
    blocker: Slot | None = None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Drain and release `slots`, and delete the registration; the next read raises a `conflict`."""

    session: int
    slots: frozenset[Slot]
    conflict: Refused | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """Drain and release `slots`, and end the session."""

    session: int
    slots: frozenset[Slot]


@dataclass(frozen=True, slots=True)
class Lose:
    """Stop reading these partitions at once and commit nothing: others may own them."""

    slots: frozenset[Slot]


@dataclass(frozen=True, slots=True)
class Hold:
    """Hand over no record."""


@dataclass(frozen=True, slots=True)
class Open:
    """Hand over records again."""


Immediate: TypeAlias = Lose | Hold | Open
"""Effects that take no time and must not wait for others."""
Lasting: TypeAlias = Register | View | Drain | Release | Claim | Start | Wait | GiveUp | Leave
"""Effects with an end, of which one is under way at a time."""
Effect: TypeAlias = Immediate | Lasting

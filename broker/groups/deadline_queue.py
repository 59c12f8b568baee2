"""The kinds of deadlines of a group (decision).

`members` sets the deadlines of sessions and syncs, `rebalance` the deadlines of rebalances, and
`group` acts when one has passed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

from broker.internal_log.deadlines import Deadlines


class Timer(StrEnum):
    """Kinds of deadlines; strings, because the hash of a plain enum member runs Python code."""

    SESSION = "session"
    REBALANCE = "rebalance"
    SYNC = "sync"


class Due(NamedTuple):
    """One deadline; a session belongs to a member."""

    timer: Timer
    member_id: str = ""


REBALANCE = Due(Timer.REBALANCE)
SYNC = Due(Timer.SYNC)

GroupDeadlines: TypeAlias = Deadlines[Due]

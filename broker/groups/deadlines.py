"""When something is due in a group (decision: time comes from outside).

Moving a deadline later, as each heartbeat does, costs one assignment: `next_ms` is a lower bound,
made exact only when it has come.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Timer(Enum):
    """What can become due."""

    SESSION = "session"
    REBALANCE = "rebalance"
    SYNC = "sync"


class Due(NamedTuple):
    """One deadline; sessions are those of members."""

    timer: Timer
    member_id: str = ""


REBALANCE = Due(Timer.REBALANCE)
SYNC = Due(Timer.SYNC)


class Deadlines:
    """The deadlines of one group, each set at most once at a time."""

    def __init__(self) -> None:
        self._due_ms: dict[Due, int] = {}
        self.next_ms: int | None = None
        """Nothing is due before; None while nothing is set."""

    def __contains__(self, due: Due) -> bool:
        return due in self._due_ms

    def set(self, due: Due, at_ms: int) -> None:
        """Set a deadline, or move it."""
        self._due_ms[due] = at_ms
        if self.next_ms is None or at_ms < self.next_ms:
            self.next_ms = at_ms

    def cancel(self, due: Due) -> None:
        """Forget a deadline; one that is not set is no error."""
        self._due_ms.pop(due, None)
        if not self._due_ms:
            self.next_ms = None

    def cancel_all(self) -> None:
        """Forget every deadline."""
        self._due_ms.clear()
        self.next_ms = None

    def take_expired(self, now_ms: int) -> list[Due]:
        """Remove and return what is due, the earliest first."""
        if self.next_ms is None or now_ms < self.next_ms:
            return []
        expired = [(at_ms, due) for due, at_ms in self._due_ms.items() if at_ms <= now_ms]
        for _, due in expired:
            del self._due_ms[due]
        self.next_ms = min(self._due_ms.values(), default=None)
        return [due for _, due in sorted(expired, key=lambda each: each[0])]

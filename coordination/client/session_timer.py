"""Timer of a session (edge): wakes its client when an action is due.

A loop that was busy runs its timers before it reads the packets received meanwhile. A late timer
therefore waits a little longer, so that sockets are read before a deadline is judged.
"""

import asyncio
from collections.abc import Callable
from typing import Final

LATE_MS: Final = 50.0
READ_FIRST_MS: Final = 5.0


class SessionTimer:
    """Calls `on_due` once per `set`, unless it is set again or cancelled first."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[], None]) -> None:
        self._loop = loop
        self._on_due = on_due
        self._handle: asyncio.TimerHandle | None = None
        self._expected_ms = 0.0

    def set(self, wait_ms: float) -> None:
        """Schedule the call in `wait_ms`, replacing an earlier schedule."""
        self.cancel()
        self._expected_ms = self._now_ms() + wait_ms
        self._handle = self._loop.call_later(wait_ms / 1000, self._on_time)

    def cancel(self) -> None:
        """Cancel the scheduled call."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    def _on_time(self) -> None:
        if self._now_ms() - self._expected_ms > LATE_MS:
            # Only once: in a loop whose every turn is slow, nothing would be due any more.
            self._handle = self._loop.call_later(READ_FIRST_MS / 1000, self._act)
        else:
            self._act()

    def _act(self) -> None:
        self._handle = None
        self._on_due()

"""A timer that rings at the earliest of the requested times. Edge: the event loop's clock.

It rings once per setting. The callback checks for itself which work is due, so an early ring does
no harm. The alarm stores its own time because a handle does not have it on every event loop
(uvloop's handle of a time in the past).
"""

import asyncio
from collections.abc import Callable
from math import inf


class Alarm:
    """Calls `ring` at the requested time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.Handle | None = None
        self._at_s = inf

    def ring_by(self, at_s: float) -> None:
        """Ring at `at_s` (the loop's time) or earlier; `inf` sets no alarm."""
        if at_s < self._at_s:
            self.cancel()
            self._at_s = at_s
            self._handle = self._loop.call_at(at_s, self._on_time)

    def cancel(self) -> None:
        """Cancel the pending ring, if there is one."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._at_s = inf

    def _on_time(self) -> None:
        self._handle = None
        self._at_s = inf
        self._ring()

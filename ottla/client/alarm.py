"""One timer that rings at the earliest of the times asked for. Edge: the event loop's clock.

Rings once per setting; whoever hears it looks what is due, so that ringing too early does no harm.
The time is kept here because a handle does not tell it on every loop (uvloop's of a time that is
already past).
"""

import asyncio
from collections.abc import Callable
from math import inf


class Alarm:
    """Calls `ring` in time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.Handle | None = None
        self._at_s = inf

    def ring_by(self, at_s: float) -> None:
        """Ring at `at_s` (the loop's time) or earlier; `inf` asks for nothing."""
        if at_s < self._at_s:
            self.cancel()
            self._at_s = at_s
            self._handle = self._loop.call_at(at_s, self._on_time)

    def cancel(self) -> None:
        """Do not ring."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._at_s = inf

    def _on_time(self) -> None:
        self._handle = None
        self._at_s = inf
        self._ring()

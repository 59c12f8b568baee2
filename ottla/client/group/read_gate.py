"""Keeps reading apart from the taking away of partitions. Edge: waits.

A record is *in hand* from the moment it was handed over until its reader asks for the next ones.
Partitions may change owners only while nothing is in hand: a member that gets them then begins
behind the last record that was really processed. Java's consumer has this from doing both inside
`poll`; here the reader passes a gate.
Invariant: while the gate is held nothing is handed over.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class ReadGate:
    """Between one reader and whoever rebalances."""

    def __init__(self, loop: asyncio.AbstractEventLoop, interrupt: Callable[[], None]) -> None:
        """`interrupt` makes a reader that iterates come back for the next record."""
        self._loop = loop
        self._interrupt = interrupt
        self._holders = 0
        self._is_in_hand = False
        self._is_waiting = False
        self._came_at_s = loop.time()
        self._waiters: set[asyncio.Future[None]] = set()
        self.on_open: Callable[[], None] = _ignore
        """Called when nobody holds the gate any more; the reader may be waiting for that."""

    @property
    def is_held(self) -> bool:
        """Whether nothing may be handed over."""
        return self._holders > 0

    def idle_s(self) -> float:
        """Return how long nobody has asked for records; 0 while somebody waits for them."""
        return 0.0 if self._is_waiting else self._loop.time() - self._came_at_s

    def enter(self) -> None:
        """Note that the reader is back: it is done with all that it was given."""
        self._is_in_hand = False
        self._is_waiting = True
        self._came_at_s = self._loop.time()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def leave(self, *, with_records: bool) -> None:
        """Note that the reader goes, with records or without."""
        self._is_in_hand = with_records
        self._is_waiting = False
        self._came_at_s = self._loop.time()

    def give_back(self) -> None:
        """Note that there is no reader any more: nothing that it was given is in hand."""
        self.enter()
        self._is_waiting = False

    def hold(self) -> None:
        """Let nothing more be handed over until `release`; something may be in hand."""
        self._holders += 1
        self._interrupt()

    def release(self) -> None:
        """End one `hold`."""
        self._holders -= 1
        if not self._holders:
            self.on_open()

    async def reader(self) -> None:
        """Wait until the reader comes, or return if it waits already."""
        if not self._is_waiting:
            await self._wait()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the gate, from the moment on at which nothing is in hand."""
        self.hold()
        try:
            while self._is_in_hand:
                await self._wait()
            yield
        finally:
            self.release()

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)


def _ignore() -> None:
    pass

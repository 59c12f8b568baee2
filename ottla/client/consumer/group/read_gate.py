"""Synchronises reading with rebalances (edge).

A record is *in hand* from the moment it is handed over until its reader requests the next one.
Partitions may change owners only while no record is in hand, so that the new owner starts after
the last processed record. The Java consumer gets this by doing both inside `poll`; here the reader
passes a gate.
Invariant: while the gate is held, no record is handed over.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class ReadGate:
    """The gate between one reader and the rebalances of its group."""

    def __init__(self, loop: asyncio.AbstractEventLoop, interrupt: Callable[[], None]) -> None:
        """Call `interrupt` to make an iterating reader request its next record from the gate."""
        self._loop = loop
        self._interrupt = interrupt
        self._holders = 0
        self._is_in_hand = False
        self._is_waiting = False
        self._came_at_s = loop.time()
        # In the order of their creation, so that a simulation repeats itself.
        self._waiters: dict[asyncio.Future[None], None] = {}
        self.on_open: Callable[[], None] = _ignore
        """Callback for the last release of the gate; a reader may wait for it."""

    @property
    def is_held(self) -> bool:
        """Whether no record may be handed over."""
        return self._holders > 0

    def idle_s(self) -> float:
        """Return the time in s since the last request for records; 0 while a reader waits."""
        return 0.0 if self._is_waiting else self._loop.time() - self._came_at_s

    def enter(self) -> None:
        """Record that the reader requests records, so that none is in hand any longer."""
        self._is_in_hand = False
        self._is_waiting = True
        self._came_at_s = self._loop.time()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def leave(self, *, with_records: bool) -> None:
        """Record that the reader leaves, with records in hand or without."""
        self._is_in_hand = with_records
        self._is_waiting = False
        self._came_at_s = self._loop.time()

    def give_back(self) -> None:
        """Record that all records in hand were processed, and no reader waits."""
        self.enter()
        self._is_waiting = False

    def hold(self) -> None:
        """Stop handing over records until `release`; some may still be in hand."""
        self._holders += 1
        self._interrupt()

    def release(self) -> None:
        """End one `hold`."""
        self._holders -= 1
        if not self._holders:
            self.on_open()

    async def drained(self) -> None:
        """Wait until no record is in hand."""
        while self._is_in_hand:
            await self._wait()

    async def reader(self) -> None:
        """Wait until a reader requests records; return at once if one is waiting."""
        if not self._is_waiting:
            await self._wait()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the gate; the body starts once no record is in hand."""
        self.hold()
        try:
            await self.drained()
            yield
        finally:
            self.release()

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)


def _ignore() -> None:
    pass

"""Hands fetched records to whoever reads. Edge: tasks wait here for records.

Owns the waiting, nothing of the records: those lie in the buffer, and the fetcher brings them.
A record counts as processed when the next one is asked for; the gate of the group is told so.
"""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

from ottla.client.errors import OttlaError
from ottla.client.fetch_buffer import Cursor, FetchBuffer
from ottla.client.group.read_gate import ReadGate
from ottla.client.record import ConsumerRecord

CURSORS_PER_TURN: Final = 2
"""After reading that many without waiting, other tasks get a turn, and the next answer is received:
else the broker would wait until all that it sent before is read."""


class Membership(Protocol):
    """What a reader wants to know of its group."""

    @property
    def error(self) -> OttlaError | None:
        """Why this consumer cannot be in the group."""


class RecordReader:
    """Where a consumer's reading tasks get their records. `begin` once, `close` once.

    Invariant: nobody waits once it is closed.
    """

    def __init__(self, buffer: FetchBuffer) -> None:
        self._buffer = buffer
        self._waiters: set[asyncio.Future[None]] = set()
        self._next_turn = CURSORS_PER_TURN
        self._is_closed = False
        self._gate: ReadGate
        self._fetch: Callable[[], None]
        self._group: Membership | None

    def begin(self, gate: ReadGate, fetch: Callable[[], None], group: Membership | None) -> None:
        """Read from now on; `fetch` is called when the buffer has room again."""
        self._gate, self._fetch, self._group = gate, fetch, group

    def wake(self) -> None:
        """Let whoever waits look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        """End reading under way; what is asked for from now on is None."""
        self._is_closed = True
        self.wake()

    async def cursor(self) -> Cursor | None:
        """Return a cursor with records, when there is one; None when the reader is closed.

        What was handed over before counts as processed.

        Raises:
            OttlaError: the position cannot be read, a broker refuses, or the group does.
        """
        self._buffer.take_back()
        self._gate.enter()
        try:
            return await self._next_cursor()
        finally:
            self._gate.leave(with_records=False)

    async def batch(
        self, max_records: int, timeout_ms: float | None
    ) -> list[ConsumerRecord] | None:
        """Return up to `max_records` records, as `Consumer.fetch_batch`; None when it is closed."""
        records: list[ConsumerRecord] = []
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                cursor = await self.cursor()
        except TimeoutError:
            return records
        if cursor is None:
            return None
        self.hand_over()
        while cursor is not None:
            part = list(islice(cursor.iterator, max_records - len(records)))
            self._buffer.hold_from(cursor.block.state, part[0])
            records += part
            if len(records) == max_records:
                break
            # Quietly: an error must not swallow what was collected; the next read raises it.
            cursor = self._buffer.cursor(quietly=True)
        return records

    def hand_over(self) -> None:
        """Note that the reader goes off with records."""
        self._buffer.hand_out()
        self._gate.leave(with_records=True)

    def take_back(self) -> None:
        """Note that all that was handed over is processed."""
        self._buffer.take_back()
        self._gate.give_back()

    async def _next_cursor(self) -> Cursor | None:
        while not self._is_closed:
            if self._group is not None and self._group.error is not None:
                raise self._group.error
            cursor = None if self._gate.is_held else self._buffer.cursor()
            if self._buffer.has_room:
                self._buffer.has_room = False
                self._fetch()
            if self._buffer.cursor_count >= self._next_turn:
                self._next_turn = self._buffer.cursor_count + CURSORS_PER_TURN
                await asyncio.sleep(0)
            elif cursor is not None:
                return cursor
            else:
                await self._wait()
        return None

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

"""Hands fetched records to reading tasks (edge).

Owns only the waiting: the records are in the buffer, and the fetcher fills it. A record counts as
processed when the next one is requested; the reader reports this to the gate of the group.
"""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

from kafkawire.units import MIB
from ottla.client.consumer.fetch_buffer import Cursor, FetchBuffer
from ottla.client.consumer.group.read_gate import ReadGate
from ottla.client.consumer.record_hooks import RecordHooks
from ottla.client.errors import OttlaError
from ottla.client.record import ConsumerRecord

CURSORS_PER_TURN: Final = 2
"""Number of cursors read without waiting after which other tasks get a turn.

The event loop then receives the next response; otherwise the broker would have to wait until all
buffered records are read.
"""
BATCH_EXPANDED_BYTES: Final = 4 * MIB
"""Size of decompressed records from which on a batch of records takes no further cursor.

Otherwise a batch of many records could need far more memory than the fetched data.
"""


class Membership(Protocol):
    """The part of a group membership that concerns a reader."""

    @property
    def error(self) -> OttlaError | None:
        """The reason why this consumer cannot be in the group, if there is one."""


class RecordHandover:
    """The source of records for a consumer's reading tasks. Call `begin` and `close` once each.

    Invariant: no task waits once it is closed.
    """

    def __init__(self, buffer: FetchBuffer, hooks: RecordHooks | None = None) -> None:
        self._buffer = buffer
        self._hooks = hooks
        # In the order of their creation, so that a simulation repeats itself.
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._next_turn = CURSORS_PER_TURN
        self._find_refusal: Callable[[], OttlaError | None] | None = None
        self._is_closed = False
        self._gate: ReadGate
        self._fetch: Callable[[], None]
        self._group: Membership | None

    def begin(self, gate: ReadGate, fetch: Callable[[], None], group: Membership | None) -> None:
        """Allow reading; `fetch` is called when the buffer has room again."""
        self._gate, self._fetch, self._group = gate, fetch, group

    def wake(self) -> None:
        """Wake all waiting tasks."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def on_metadata(self, find_refusal: Callable[[], OttlaError | None]) -> None:
        """Let the next read raise the error that `find_refusal` returns then, if any, once."""
        self._find_refusal = find_refusal
        if find_refusal() is not None:
            self.wake()

    def close(self) -> None:
        """End reads in progress, and iterations after their record; later reads return None."""
        self._is_closed = True
        self._buffer.interrupt()
        self.wake()

    async def cursor(self) -> Cursor | None:
        """Wait for a cursor with records and return it; None if the reader is closed.

        All records that were handed over before count as processed.

        Raises:
            OttlaError: the position cannot be read, or a broker or the group refuses.
        """
        try:
            return await self._cursor()
        except OttlaError:
            await self._yield_after_error()
            raise

    async def batch(
        self, max_records: int, timeout_ms: float | None
    ) -> list[ConsumerRecord] | None:
        """Return up to `max_records` records, as `Consumer.fetch_batch`; None if closed."""
        records: list[ConsumerRecord] = []
        max_expanded_bytes = self._buffer.expanded_bytes + BATCH_EXPANDED_BYTES
        if self._is_turn_due:
            # Outside the time limit, which would end the turn without the records that are there.
            await self._take_turn()
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000) as limit:
                cursor = await self._cursor(limit)
        except TimeoutError:
            return records
        except OttlaError:
            # Outside of the time limit, which would hide the error.
            await self._yield_after_error()
            raise
        if cursor is None:
            return None
        self.hand_over()
        while cursor is not None:
            part = list(islice(cursor.iterator, max_records - len(records)))
            self._buffer.hold_from(cursor.block.state, part[0])
            records += part
            # Hooks may wait, and a cancellation then must not discard the collected records.
            if len(records) == max_records or self._hooks is not None:
                break
            if self._buffer.expanded_bytes >= max_expanded_bytes:
                break
            # Quietly: an error must not discard the collected records; the next read raises it.
            cursor = self._buffer.cursor(quietly=True)
        return records

    def hand_over(self) -> None:
        """Mark the records that are handed over from now on as in hand."""
        self._buffer.hand_out()
        self._gate.leave(with_records=True)

    def take_back(self) -> None:
        """Mark all records that were handed over as processed."""
        self._buffer.take_back()
        self._gate.give_back()

    @property
    def _is_turn_due(self) -> bool:
        return self._buffer.cursor_count >= self._next_turn

    async def _take_turn(self) -> None:
        """Let other tasks run."""
        self._next_turn = self._buffer.cursor_count + CURSORS_PER_TURN
        await asyncio.sleep(0)

    @staticmethod
    async def _yield_after_error() -> None:
        """Let other tasks run: an error may last, and a caller may do nothing but read again."""
        await asyncio.sleep(0)

    async def _cursor(self, limit: asyncio.Timeout | None = None) -> Cursor | None:
        self._buffer.take_back()
        self._gate.enter()
        try:
            return await self._next_cursor(limit)
        finally:
            self._gate.leave(with_records=False)

    async def _next_cursor(self, limit: asyncio.Timeout | None) -> Cursor | None:
        if self._is_turn_due:
            await self._take_turn()
        while not self._is_closed:
            if self._group is not None and self._group.error is not None:
                # The same object each time: its traceback would grow with each read.
                raise self._group.error.with_traceback(None)
            if self._find_refusal is not None:
                find_refusal, self._find_refusal = self._find_refusal, None
                if (refusal := find_refusal()) is not None:
                    raise refusal
            cursor = None if self._gate.is_held else self._buffer.cursor()
            if self._buffer.has_room:
                self._buffer.has_room = False
                self._fetch()
            if cursor is not None:
                if self._hooks is None or cursor.is_shown:
                    return cursor
                # Then look again: it may have been cut in the meantime.
                await self._show(self._hooks, cursor, limit)
            else:
                await self._wait()
        return None

    async def _show(
        self, hooks: RecordHooks, cursor: Cursor, limit: asyncio.Timeout | None
    ) -> None:
        """Let the hooks convert the records of a cursor, up to the first that fails."""
        fetched = cursor.left()
        deadline_s = None if limit is None else limit.when()
        if limit is not None:
            # Records have arrived. If the time ended here, the next read would begin again, and
            # reads with a limit below the time of the hooks would never return any of them.
            limit.reschedule(None)
        shown, error = await hooks.decoded(fetched)
        if limit is not None:
            limit.reschedule(deadline_s)
        if cursor.left_count < len(fetched):
            return
        if shown:
            cursor.show(shown)
        elif error is not None:
            raise error

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)

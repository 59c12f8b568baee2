"""Produce requests that take more than one turn of the loop (edge).

Each goes on in later turns, which all share. A batch that takes longer than a turn to validate
is validated in a thread, one at a time, in the order of arrival. Invariants: the batches of a
connection are appended in the order of its requests; nothing awaits between the checks of a
partition and the write; the buffer of a request belongs to it until its last batch is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol

from broker.handlers.appending import (
    MAX_REQUEST_DECOMPRESSED_BYTES,
    Appending,
    batch_of,
    expands_too_far,
)
from broker.network.limits import MIB
from broker.network.reply import Reply
from broker.network.request import ServedConnection
from broker.network.request_tasks import RequestTasks
from broker.replication.replica_manager import ReplicaManager
from kafkawire.errors import ApiError
from kafkawire.records import BatchHeader, Budget, BudgetSpentError

# Bytes of batches that one turn of the loop handles: about ten milliseconds, in plain Python, too.
TURN_BYTES: Final = 8 * MIB
# Limit of the bytes of all small requests that wait. Large ones have memory granted to them.
MAX_HELD_BYTES: Final = 64 * MIB


class Appender(Protocol):
    """The produce handler, as the work of later turns needs it."""

    def append(self, work: Appending) -> bool:
        """Append one batch at least; return whether all are done."""

    def conclude(self, work: Appending) -> Reply:
        """Return the reply to a request of which every batch is done."""


class LongProduces:
    """The requests that go on, and what is left of a turn."""

    def __init__(
        self, replicas: ReplicaManager, tasks: RequestTasks, now_ms: Callable[[], int]
    ) -> None:
        self.budget = Budget(TURN_BYTES)
        """The rest of this turn's share for batches."""
        self.running: dict[ServedConnection, asyncio.Future[None]] = {}
        """By connection: done when the last of its requests is."""
        self._replicas = replicas
        self._tasks = tasks
        self._loop = tasks.loop
        self._now_ms = now_ms
        # One thread: what it holds decompressed is as much as one batch may hold.
        self._executor = ThreadPoolExecutor(1, "kafka-produce-")
        self._next_turn: asyncio.Future[None] | None = None
        self._held_bytes = 0

    def refill_soon(self) -> None:
        """Let the next turn have its full budget."""
        if self._next_turn is None:
            self._next_turn = self._loop.create_future()
            self._loop.call_soon(self._refill)

    def finish(self, appender: Appender, work: Appending) -> Reply:
        """Go on with `work` behind the other requests of its connection."""
        release = self._take_buffer(work)
        if release is None:
            text = f"produce requests that wait hold {self._held_bytes} bytes already"
            return Reply.close(text)
        connection = work.request.connection
        before, done = self.running.get(connection), self._loop.create_future()
        self.running[connection] = done

        async def run() -> Reply:
            try:
                if before is not None:
                    await asyncio.wait([before])
                await self._append(appender, work)
            finally:
                release()
                done.set_result(None)
                if self.running.get(connection) is done:
                    del self.running[connection]
            return appender.conclude(work)

        reply = self._tasks.run(run)
        reply.on_cancel(work.abandon)
        return reply

    async def _append(self, appender: Appender, work: Appending) -> None:
        budget = Budget(MAX_REQUEST_DECOMPRESSED_BYTES, record_bytes=0)
        while True:
            if work.is_large:
                await self._append_large(work, budget)
            else:
                self.refill_soon()
                assert self._next_turn is not None, "asked for"
                await asyncio.wait([self._next_turn])
            if work.is_abandoned or appender.append(work):
                return

    async def _append_large(self, work: Appending, budget: Budget) -> None:
        """Append the next batch, which a thread looks at first."""
        replicas, acks = self._replicas, work.message.acks
        topic, data = work.next_data
        key = (topic, data.index)
        try:
            batch = batch_of(work.request, topic, data)
            info = None
            # Again if the topic's config has changed meanwhile.
            while info is None:
                rules = replicas.rules(key, acks)
                prepare = partial(rules.prepare, batch, self._now_ms(), budget)
                prepared = await self._in_thread(prepare)
                info = replicas.append_prepared(key, rules, prepared, acks, self._now_ms())
        except BudgetSpentError:
            work.is_spent = True
            work.refuse(expands_too_far())
        except ApiError as error:
            work.refuse(error.without_origin())
        else:
            work.accept(info, replicas.is_committed)

    async def _in_thread(
        self, prepare: Callable[[], tuple[memoryview, BatchHeader]]
    ) -> tuple[memoryview, BatchHeader]:
        running = self._loop.run_in_executor(self._executor, prepare)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The thread reads the request's buffer until it ends.
            await asyncio.wait([running])
            raise

    def _take_buffer(self, work: Appending) -> Callable[[], None] | None:
        """Keep what is left of the request's bytes; return what gives them back, None if not."""
        request = work.request
        release, request.release = request.release, None
        if release is not None:
            return release
        if self._held_bytes + len(request.body) > MAX_HELD_BYTES:
            return None
        size_bytes = work.own_batches()
        self._held_bytes += size_bytes

        def drop() -> None:
            self._held_bytes -= size_bytes

        return drop

    def _refill(self) -> None:
        self.budget.left_bytes = TURN_BYTES
        next_turn, self._next_turn = self._next_turn, None
        assert next_turn is not None, "scheduled with it"
        next_turn.set_result(None)

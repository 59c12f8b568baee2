"""Produce requests that take more than one turn of the loop (edge).

Such requests continue in later turns and share the budget of each turn. Batches whose validation
takes longer than a turn are validated in a thread, one at a time, in order of arrival. Invariants:
the batches of a connection are appended in request order; nothing awaits between the checks of a
partition and the write; a request owns its buffer until its last batch is done.
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
from broker.network.reply import Reply
from broker.network.request import Connection
from broker.network.request_tasks import RequestTasks
from broker.replication.replica_manager import ReplicaManager
from kafkawire.errors import ApiError
from kafkawire.records import BatchHeader, Budget, BudgetSpentError
from kafkawire.sentinels import ACKS_NONE
from kafkawire.units import MIB

# Bytes of batches per turn of the loop: about ten milliseconds, even in plain Python.
TURN_BYTES: Final = 8 * MIB
# Limit of the total size of small waiting requests. Large requests have reservations of memory.
MAX_HELD_BYTES: Final = 64 * MIB


class Appender(Protocol):
    """The produce handler, as seen by long requests."""

    async def verify(self, work: Appending) -> None:
        """Ask the coordinator about the partitions of a transactional request, if necessary."""

    def append(self, work: Appending) -> bool:
        """Append at least one batch; return whether all are done."""

    def conclude(self, work: Appending) -> Reply:
        """Return the reply to a request after its last batch."""


class LongProduces:
    """The unfinished requests and the budget of the current turn."""

    def __init__(
        self, replicas: ReplicaManager, tasks: RequestTasks, now_ms: Callable[[], int]
    ) -> None:
        self.budget = Budget(TURN_BYTES)
        """Bytes of batches left for this turn."""
        self.running: dict[Connection, asyncio.Future[None]] = {}
        """By connection, a future that is done when its last request is."""
        self._replicas = replicas
        self._tasks = tasks
        self._loop = tasks.loop
        self._now_ms = now_ms
        # One thread, so that at most one batch is decompressed at a time.
        self._executor = ThreadPoolExecutor(1, "kafka-produce-")
        self._next_turn: asyncio.Future[None] | None = None
        self._held_bytes = 0

    def refill_soon(self) -> None:
        """Restore the full budget in the next turn."""
        if self._next_turn is None:
            self._next_turn = self._loop.create_future()
            self._loop.call_soon(self._refill)

    def finish(self, appender: Appender, work: Appending) -> Reply:
        """Finish `work` after the earlier requests of its connection."""
        release = self._take_buffer(work)
        if release is None:
            text = f"waiting produce requests hold {self._held_bytes} of {MAX_HELD_BYTES} bytes"
            return Reply.close(text)
        connection = work.request.connection
        before, done = self.running.get(connection), self._loop.create_future()
        self.running[connection] = done

        async def run() -> Reply:
            try:
                if before is not None:
                    await asyncio.wait([before])
                if work.message.transactional_id is not None:
                    await appender.verify(work)
                await self._append(appender, work)
            finally:
                work.drop_batches()
                release()
                done.set_result(None)
                if self.running.get(connection) is done:
                    del self.running[connection]
            return appender.conclude(work)

        reply = self._tasks.run(run)
        if work.message.acks != ACKS_NONE:
            # A producer with acks=0 counts batches as written when it has sent them, and may leave.
            reply.on_cancel(work.abandon)
        return reply

    async def _append(self, appender: Appender, work: Appending) -> None:
        budget = Budget(MAX_REQUEST_DECOMPRESSED_BYTES, record_bytes=0)
        while True:
            if work.is_large:
                await self._append_large(work, budget)
            else:
                self.refill_soon()
                assert self._next_turn is not None, "set by refill_soon"
                await asyncio.wait([self._next_turn])
            if work.is_abandoned or appender.append(work):
                return

    async def _append_large(self, work: Appending, budget: Budget) -> None:
        """Append the next batch after a thread has validated it."""
        replicas, acks = self._replicas, work.message.acks
        topic, data = work.next_data
        key = (topic, data.index)
        try:
            work.check(key)
            batch = batch_of(work.request, topic, data)
            info = None
            # Repeat if the topic's config has changed meanwhile.
            while info is None:
                rules = replicas.rules(key, acks)
                prepare = partial(rules.prepare, batch, self._now_ms(), budget)
                prepared = await self._in_thread(prepare)
                info = replicas.append_prepared(
                    key, rules, prepared, acks, self._now_ms(), work.transaction
                )
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
            # The thread reads the request's buffer until it has finished.
            await asyncio.wait([running])
            raise

    def _take_buffer(self, work: Appending) -> Callable[[], None] | None:
        """Take over the unhandled bytes of the request.

        Return the function that releases them; None if they do not fit.
        """
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

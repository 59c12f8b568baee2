"""Runs requests that take more than one turn of the loop, each in a task (edge).

Tasks run concurrently: the versions of the coordinator's nodes guard their writes against lost
updates. A limit of one task makes a queue: no other task runs between a check and the step that it
guards. Invariant: after `stop()` no task runs, and every reply is complete.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from broker.network.reply import Reply

Work = Callable[[], Coroutine[Any, Any, object]]
T = TypeVar("T")
# Elements of a request that a task handles before it yields: a few milliseconds of work.
ITEMS_PER_TURN: Final = 1_000
STOPPING: Final = "the broker is stopping"

log = structlog.get_logger(__name__)


async def in_turns(items: Iterable[T], weight: int | Callable[[T], int] = 1) -> AsyncIterator[T]:
    """Yield each of `items`; yield to the loop after every `ITEMS_PER_TURN` of them.

    With `weight`, an item takes as much work as that many; a function returns that of each, before
    it is yielded.
    """
    done = 0
    for item in items:
        done += max(1, weight(item) if callable(weight) else weight)
        yield item
        if done >= ITEMS_PER_TURN:
            await asyncio.sleep(0)
            done = 0


class CloseConnection(Exception):  # noqa: N818 - an instruction, not an error
    """Raised by work without a response: closes the connection for the given reason."""


class RequestTasks:
    """Runs work in tasks; each returns the response to its request, or a pending `Reply`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, max_running: int | None = None) -> None:
        """With `max_running`, further work waits; it begins in the order of the calls."""
        self.loop = loop
        self._max_running = max_running
        self._waiting: deque[tuple[Work, Reply]] = deque()
        # In the order of their creation, so that a simulation repeats itself.
        self._running: dict[asyncio.Task[object], None] = {}

    def run(self, work: Work) -> Reply:
        """Start `work`, or queue it; return the reply that it will complete."""
        reply = Reply()
        self._waiting.append((work, reply))
        self._begin_waiting()
        return reply

    async def stop(self) -> None:
        """Drop waiting work, cancel all tasks and wait for their cleanup."""
        waiting, self._waiting = self._waiting, deque()
        for _, reply in waiting:
            reply.complete_by_closing(STOPPING)
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _begin_waiting(self) -> None:
        while self._waiting and (
            self._max_running is None or len(self._running) < self._max_running
        ):
            work, reply = self._waiting.popleft()
            task = self.loop.create_task(work(), name="request")
            self._running[task] = None
            task.add_done_callback(partial(self._on_done, reply))

    def _on_done(self, reply: Reply, done: asyncio.Task[object]) -> None:
        self._running.pop(done, None)
        if done.cancelled():
            reply.complete_by_closing(STOPPING)
        elif isinstance(error := done.exception(), CloseConnection):
            reply.complete_by_closing(str(error))
        elif error is not None:
            log.error("request.failed", exc_info=error)
            reply.complete_by_closing("internal error of the broker")
        elif isinstance(result := done.result(), Reply):
            reply.follow(result)
        else:
            reply.complete(result)
        self._begin_waiting()

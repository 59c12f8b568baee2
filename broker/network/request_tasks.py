"""Runs requests that take more than one turn of the loop, each in a task (edge).

Tasks run concurrently; the versions of the coordinator's nodes guard their writes against lost
updates. Invariant: after `stop()` no task runs, and every reply is complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

import structlog

from broker.network.reply import Reply

Work = Callable[[], Coroutine[Any, Any, object]]
T = TypeVar("T")
# Elements of a request that a task handles before it yields: a few milliseconds of work.
ITEMS_PER_TURN: Final = 1_000

log = structlog.get_logger(__name__)


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield each of `items`; yield to the loop after every `ITEMS_PER_TURN` of them."""
    for number, item in enumerate(items, 1):
        yield item
        if not number % ITEMS_PER_TURN:
            await asyncio.sleep(0)


class CloseConnection(Exception):  # noqa: N818 - an instruction, not an error
    """Raised by work without a response: closes the connection for the given reason."""


class RequestTasks:
    """Runs work in tasks; each returns the response to its request, or a pending `Reply`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._running: set[asyncio.Task[object]] = set()

    def run(self, work: Work) -> Reply:
        """Start `work`; return the reply that it will complete."""
        reply = Reply()
        self._start(work, reply)
        return reply

    def begin(self, work: Work) -> None:
        """Start work without a response."""
        self._start(work, Reply())

    async def stop(self) -> None:
        """Cancel all tasks and wait for their cleanup."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _start(self, work: Work, reply: Reply) -> None:
        task = self.loop.create_task(work(), name="request")
        self._running.add(task)
        task.add_done_callback(lambda done: self._on_done(done, reply))

    def _on_done(self, done: asyncio.Task[object], reply: Reply) -> None:
        self._running.discard(done)
        if done.cancelled():
            reply.complete_by_closing("the broker is stopping")
        elif isinstance(error := done.exception(), CloseConnection):
            reply.complete_by_closing(str(error))
        elif error is not None:
            log.error("request.failed", exc_info=error)
            reply.complete_by_closing("internal error of the broker")
        elif isinstance(result := done.result(), Reply):
            reply.follow(result)
        else:
            reply.complete(result)

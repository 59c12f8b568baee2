"""Requests whose answer takes more than one turn of the loop (edge): a task for each.

They run side by side; what guards them from each other is the version of the node that each of
them writes. Invariant: after `stop()` no task runs, and every reply is complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

import structlog

from broker.network.reply import Reply

Work = Callable[[], Coroutine[Any, Any, object]]
T = TypeVar("T")
# Elements of a request that a task works on before others have their turn: some milliseconds.
ITEMS_PER_TURN: Final = 1_000

log = structlog.get_logger(__name__)


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield each of `items`, and let others have their turn between them now and then."""
    for number, item in enumerate(items, 1):
        yield item
        if not number % ITEMS_PER_TURN:
            await asyncio.sleep(0)


class CloseConnection(Exception):  # noqa: N818 - what to do, not what is wrong
    """Raised by work that has no answer: its connection is closed for the reason given."""


class RequestTasks:
    """Runs work; each piece returns the message that answers its request, or a `Reply` to be."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._running: set[asyncio.Task[object]] = set()

    def run(self, work: Work) -> Reply:
        """Return the reply that `work` will complete."""
        reply = Reply()
        self._start(work, reply)
        return reply

    def begin(self, work: Work) -> None:
        """Run work that answers nobody."""
        self._start(work, Reply())

    async def stop(self) -> None:
        """Cancel what runs, and wait until it has cleaned up."""
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
            reply.complete_by_closing("the broker stops")
        elif isinstance(error := done.exception(), CloseConnection):
            reply.complete_by_closing(str(error))
        elif error is not None:
            log.error("request.failed", exc_info=error)
            reply.complete_by_closing("a step of the broker failed")
        elif isinstance(result := done.result(), Reply):
            reply.follow(result)
        else:
            reply.complete(result)

"""Administrative work in several steps, one task at a time (edge).

Creating and deleting partitions costs milliseconds of disk each. Such work yields to the event loop
between partitions, so that other requests are served meanwhile. Invariant: tasks never overlap and
run in the order of their requests, so no other task runs between a check and the step that it
guards.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from broker.network.reply import Reply

Work = Callable[[], Coroutine[Any, Any, object]]

log = structlog.get_logger(__name__)


class AdminQueue:
    """Runs tasks in order; each returns the response to its request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Work, Reply]] = deque()
        self._running: asyncio.Task[object] | None = None

    def run(self, work: Work) -> Reply:
        """Return the reply that `work` will complete, after all earlier tasks."""
        reply = Reply()
        self._waiting.append((work, reply))
        self._begin_next()
        return reply

    async def stop(self) -> None:
        """Start no more tasks, cancel the current one, and wait until it has cleaned up."""
        self._waiting.clear()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    def _begin_next(self) -> None:
        if self._running is None and self._waiting:
            work, reply = self._waiting.popleft()
            self._running = self._loop.create_task(work(), name="admin")
            self._running.add_done_callback(lambda done: self._on_done(done, reply))

    def _on_done(self, done: asyncio.Task[object], reply: Reply) -> None:
        self._running = None
        if done.cancelled():
            reply.complete_by_closing("the broker stops")
        elif (error := done.exception()) is not None:
            log.error("admin.failed", exc_info=error)
            reply.complete_by_closing("a step of the broker failed")
        else:
            reply.complete(done.result())
        self._begin_next()


async def give_way() -> None:
    """Yield to everything else that is ready to run."""
    await asyncio.sleep(0)

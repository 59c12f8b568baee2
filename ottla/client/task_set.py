"""Background tasks with one owner that no task outlives. Edge: asyncio tasks.

Invariant: after `cancel_all` returned, no task of this set is running.
"""

import asyncio
import logging
from collections.abc import Coroutine

log = logging.getLogger(__name__)


class TaskSet:
    """Starts tasks, holds references to them, and cancels them together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[object]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[object, object, object], name: str) -> None:
        """Run `work` until it ends or `cancel_all` is called; log any exception it raises."""
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    async def cancel_all(self) -> None:
        """Cancel every task and wait until the last one has ended."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def _on_done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("task.failed name=%s", task.get_name(), exc_info=error)

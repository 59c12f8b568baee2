"""Timers and tasks that work in the background of a client, and its end (edge).

An `Alarm` rings once per setting. Its callback checks for itself which work is due, so an early
ring does no harm. It stores its own time because a handle does not have it on every event loop
(uvloop's handle of a time in the past).
Invariant: after `TaskSet.cancel_all` returned, no task of the set is running.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from math import inf

log = logging.getLogger(__name__)


class Alarm:
    """Calls `ring` at the earliest of the requested times."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._handle: asyncio.Handle | None = None
        self._at_s = inf

    def ring_by(self, at_s: float) -> None:
        """Ring at `at_s` (the loop's time) or earlier; `inf` sets no alarm."""
        if at_s < self._at_s:
            self.cancel()
            self._at_s = at_s
            self._handle = self._loop.call_at(at_s, self._on_time)

    def cancel(self) -> None:
        """Cancel the pending ring, if there is one."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._at_s = inf

    def _on_time(self) -> None:
        self._handle = None
        self._at_s = inf
        self._ring()


class TaskSet:
    """Background tasks with one owner that no task outlives."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # In the order of their creation, so that a simulation repeats itself.
        self._tasks: dict[asyncio.Task[object], None] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[object, object, object], name: str) -> None:
        """Run `work` until it ends or `cancel_all` is called; log any exception it raises."""
        task = self._loop.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._on_done)

    async def cancel_all(self) -> None:
        """Cancel every task and wait until the last one has ended."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)

    def _on_done(self, task: asyncio.Task[object]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            if not task.cancelling():
                # It raised CancelledError by itself: its owner waits for work that nobody does.
                log.error("task.cancelled name=%s", task.get_name())
        elif (error := task.exception()) is not None:
            log.error("task.failed name=%s", task.get_name(), exc_info=error)


def is_cancellation(error: BaseException) -> bool:
    """Whether `error` ends the current task because another one has cancelled it.

    A function of the application may also raise CancelledError by itself, for example by awaiting a
    task that it has cancelled. That is an error like any other.
    """
    task = asyncio.current_task()
    is_cancelled = task is not None and task.cancelling() > 0
    return isinstance(error, asyncio.CancelledError) and is_cancelled


class Closing:
    """The end of a client: the first call closes it, and the others wait for that call."""

    def __init__(self) -> None:
        self._ended: asyncio.Future[None] | None = None
        self._task: asyncio.Task[object] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there was a call."""
        return self._ended is not None

    def begin(self) -> bool:
        """Return whether this call is the first, which has to call `end`."""
        if self.has_begun:
            return False
        self._ended = asyncio.get_running_loop().create_future()
        self._task = asyncio.current_task()
        return True

    def end(self) -> None:
        """Let the other calls return."""
        assert self._ended is not None
        self._ended.set_result(None)

    async def wait(self, timeout_s: float) -> None:
        """Wait for the end, up to `timeout_s`.

        A callback of the application that the first call runs, and that closes the client, too,
        does not wait: the first call would wait for it.
        """
        assert self._ended is not None
        if asyncio.current_task() is not self._task:
            await asyncio.wait([self._ended], timeout=timeout_s)

"""Work that returns: checkpoints, flushing, cleaning up (edge).

A task never runs twice at a time: its next run is timed when the last one has ended. One that
fails is logged and runs again. Invariant: after `stop()` no task runs, and none will.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Final

import structlog

from storage.errors import StorageError

LONGEST_DELAY_MS: Final = 30 * 86_400_000
"""A timer for later than this is not set: event loops cannot count to Kafka's "never"."""
SHORTEST_PERIOD_MS: Final = 1

log = structlog.get_logger(__name__)


class PeriodicTask:
    """One task: what it does, when, and how often it has."""

    def __init__(
        self,
        name: str,
        run: Callable[[], Awaitable[None] | None],
        *,
        period_ms: int,
        delay_ms: int = 0,
        runs_in_loop: bool = False,
    ) -> None:
        """Run first after `delay_ms`, then a period after the end of each run.

        A period of Kafka's "never" means that: it does not run once either.

        A run blocks, and so happens in a thread, unless it `runs_in_loop`; there it may return
        something to await, and give way to others.
        """
        self.name = name
        self.run = run
        self.delay_ms = delay_ms
        self.period_ms = max(period_ms, SHORTEST_PERIOD_MS)
        self.runs_in_loop = runs_in_loop
        self.run_count = 0
        self.failure_count = 0
        self.last_run_s: float | None = None
        """When the last run began, in the loop's time."""
        self.next_run_s: float | None = None


class Scheduler:
    """Runs periodic tasks, in the loop or in the threads of `executor`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, executor: Executor) -> None:
        self._loop = loop
        self._executor = executor
        self.tasks: list[PeriodicTask] = []
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._is_stopped = False

    def add(self, task: PeriodicTask) -> None:
        """Run `task` from now on."""
        self.tasks.append(task)
        if task.period_ms <= LONGEST_DELAY_MS:
            self._set_timer(task, task.delay_ms)

    def described(self) -> list[dict[str, object]]:
        """Return what each task is, and how many seconds ago and ahead its runs are."""
        now_s = self._loop.time()
        return [
            {
                "name": task.name,
                "period_ms": task.period_ms,
                "run_count": task.run_count,
                "failure_count": task.failure_count,
                "last_run_s": None
                if task.last_run_s is None
                else round(task.last_run_s - now_s, 3),
                "next_run_s": None
                if task.next_run_s is None
                else round(task.next_run_s - now_s, 3),
            }
            for task in self.tasks
        ]

    async def stop(self) -> None:
        """Start no run any more, and wait for those that have begun."""
        self._is_stopped = True
        for timer in self._timers.values():
            timer.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _set_timer(self, task: PeriodicTask, delay_ms: int) -> None:
        if not self._is_stopped:
            delay_ms = min(delay_ms, LONGEST_DELAY_MS)
            task.next_run_s = self._loop.time() + delay_ms / 1000
            self._timers[task.name] = self._loop.call_later(delay_ms / 1000, self._begin, task)

    def _begin(self, task: PeriodicTask) -> None:
        running = self._loop.create_task(self._run(task), name=task.name)
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def _run(self, task: PeriodicTask) -> None:
        task.last_run_s, task.next_run_s = self._loop.time(), None
        try:
            if task.runs_in_loop:
                rest = task.run()
                if rest is not None:
                    await rest
            else:
                await self._loop.run_in_executor(self._executor, task.run)
        except (StorageError, OSError) as error:
            task.failure_count += 1
            log.error("task.failed", task=task.name, error=str(error))
        task.run_count += 1
        self._set_timer(task, task.period_ms)

"""Runs periodic work: checkpoints, flushing, cleaning up (edge).

Runs of one task never overlap: the scheduler sets the timer for the next run when the last one has
ended. A failed run is logged, and the task runs again. Invariant: after `stop()` no task runs, and
none will.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Final

import structlog

from storage.errors import StorageError

LONGEST_DELAY_MS: Final = 30 * 86_400_000
"""Longest timer: event loops cannot represent Kafka's "never"."""
SHORTEST_PERIOD_MS: Final = 1

log = structlog.get_logger(__name__)


class PeriodicTask:
    """One task: its work, its period and the number of its runs."""

    def __init__(
        self,
        name: str,
        run: Callable[[], Awaitable[None] | None],
        *,
        period_ms: int,
        delay_ms: int = 0,
        runs_in_loop: bool = False,
    ) -> None:
        """Run first after `delay_ms`, then one period after the end of each run.

        A task whose period is Kafka's "never" does not run at all.

        `run` may block, and is called in a thread. With `runs_in_loop` it is called in the loop,
        must not block, and may return an awaitable.
        """
        self.name = name
        self.run = run
        self.delay_ms = delay_ms
        self.period_ms = max(period_ms, SHORTEST_PERIOD_MS)
        self.runs_in_loop = runs_in_loop
        self.run_count = 0
        self.failure_count = 0
        self.last_run_s: float | None = None
        """Start of the last run, in the loop's time."""
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
        """Return a description of each task; times of runs are in seconds from now."""
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
        """Start no further run, and wait for the running ones."""
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
                remainder = task.run()
                if remainder is not None:
                    await remainder
            else:
                await self._loop.run_in_executor(self._executor, task.run)
        except (StorageError, OSError) as error:
            task.failure_count += 1
            log.error("task.failed", task=task.name, error=str(error))
        except Exception:
            # A bug in one run must not end checkpoints, retention or expiry until a restart.
            task.failure_count += 1
            log.exception("task.failed", task=task.name)
        task.run_count += 1
        self._set_timer(task, task.period_ms)

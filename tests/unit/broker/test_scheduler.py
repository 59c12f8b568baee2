"""Periodic work: `broker.scheduler`."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from structlog.testing import capture_logs

from broker.scheduler import LONGEST_DELAY_MS, PeriodicTask, Scheduler
from storage.errors import StorageError

TIMEOUT_S = 10


@pytest.fixture
async def scheduler() -> AsyncIterator[Scheduler]:
    with ThreadPoolExecutor(1) as executor:
        made = Scheduler(asyncio.get_running_loop(), executor)
        yield made
        await made.stop()


class Runs:
    """Counts runs and lets a test wait for them."""

    def __init__(self, awaited: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.done = asyncio.Event()
        self.threads: list[int] = []
        self.awaited = awaited

    def __call__(self) -> None:
        self.threads.append(threading.get_ident())
        if len(self.threads) == self.awaited:
            self.loop.call_soon_threadsafe(self.done.set)

    async def wait(self) -> None:
        await asyncio.wait_for(self.done.wait(), TIMEOUT_S)


async def test_a_task_runs_again_and_again_outside_the_loop(scheduler: Scheduler) -> None:
    runs = Runs(awaited=3)
    scheduler.add(PeriodicTask("t", runs, period_ms=1))
    await runs.wait()
    assert threading.get_ident() not in runs.threads


async def test_a_task_may_run_in_the_loop(scheduler: Scheduler) -> None:
    runs = Runs(awaited=2)
    scheduler.add(PeriodicTask("t", runs, period_ms=1, runs_in_loop=True))
    await runs.wait()
    assert set(runs.threads) == {threading.get_ident()}


@pytest.mark.parametrize("error", [OSError("disk"), StorageError("disk"), KeyError("a bug")])
async def test_a_task_that_fails_runs_again(scheduler: Scheduler, error: Exception) -> None:
    runs = Runs(awaited=2)

    def fail() -> None:
        runs()
        raise error

    task = PeriodicTask("t", fail, period_ms=1)
    scheduler.add(task)
    await runs.wait()
    await scheduler.stop()
    assert task.failure_count == task.run_count >= 2


async def test_a_bug_in_a_task_is_logged_and_the_task_runs_again(scheduler: Scheduler) -> None:
    runs = Runs(awaited=2)

    async def fail() -> None:
        await asyncio.sleep(0)
        runs()
        raise KeyError("a bug")

    task = PeriodicTask("t", fail, period_ms=1, runs_in_loop=True)
    with capture_logs() as lines:
        scheduler.add(task)
        await runs.wait()
        await scheduler.stop()
    assert {(each["event"], each["task"], each["exc_info"]) for each in lines} == {
        ("task.failed", "t", True)
    }
    assert len(lines) == task.failure_count >= 2


async def test_a_task_with_kafkas_never_does_not_run(scheduler: Scheduler) -> None:
    scheduler.add(PeriodicTask("t", lambda: None, period_ms=LONGEST_DELAY_MS + 1))
    scheduler.add(PeriodicTask("u", lambda: None, period_ms=2**63 - 1))
    assert not scheduler._timers


async def test_stopping_waits_for_running_tasks_and_starts_no_others(scheduler: Scheduler) -> None:
    began, may_end = Runs(awaited=1), threading.Event()

    def slow() -> None:
        began()
        may_end.wait(TIMEOUT_S)

    task = PeriodicTask("t", slow, period_ms=0)
    scheduler.add(task)
    await began.wait()
    stopping = asyncio.create_task(scheduler.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    may_end.set()
    await asyncio.wait_for(stopping, TIMEOUT_S)
    assert task.run_count == len(began.threads) == 1


async def test_a_task_in_the_loop_may_yield(scheduler: Scheduler) -> None:
    runs = Runs(awaited=2)
    steps: list[str] = []

    async def run() -> None:
        steps.append("begins")
        await asyncio.sleep(0)
        steps.append("ends")
        runs()

    scheduler.add(PeriodicTask("t", run, period_ms=1, runs_in_loop=True))
    await runs.wait()
    assert steps[:4] == ["begins", "ends", "begins", "ends"]


async def test_the_first_run_waits_for_the_delay_only(scheduler: Scheduler) -> None:
    runs = Runs(awaited=1)
    scheduler.add(PeriodicTask("t", runs, delay_ms=1, period_ms=LONGEST_DELAY_MS))
    await runs.wait()

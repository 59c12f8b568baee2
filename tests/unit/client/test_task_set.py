"""Background tasks end with their owner."""

import asyncio
import logging

import pytest

from ottla.client.task_set import TaskSet


async def test_all_tasks_are_gone_after_cancelling() -> None:
    tasks = TaskSet(asyncio.get_running_loop())
    ended = []

    async def stubborn(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(number)

    for number in range(3):
        tasks.spawn(stubborn(number), f"task {number}")
    await asyncio.sleep(0)
    assert len(tasks) == 3
    await tasks.cancel_all()
    assert len(tasks) == 0
    assert sorted(ended) == [0, 1, 2]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_exception_of_a_task_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    tasks = TaskSet(asyncio.get_running_loop())

    async def fail() -> None:
        raise RuntimeError("a bug")

    with caplog.at_level(logging.ERROR, "ottla"):
        tasks.spawn(fail(), "failing")
        for _ in range(3):
            await asyncio.sleep(0)
    assert "task.failed name=failing" in caplog.text
    assert "a bug" in caplog.text

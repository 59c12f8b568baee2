"""An alarm rings at the earliest requested time; tasks end with their owner, and it ends once."""

import asyncio
import logging
from collections.abc import Callable
from math import inf

import pytest
import uvloop

from ottla.client.background import Alarm, Closing, TaskSet
from tests.waiting import DEADLINE_S

RING_WINDOW_S = 0.05

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


async def rings(*delays_s: float, cancels: bool = False) -> int:
    """Request these times, and count the rings until a while after the last."""
    loop = asyncio.get_running_loop()
    count = 0

    def ring() -> None:
        nonlocal count
        count += 1

    alarm = Alarm(loop, ring)
    now_s = loop.time()
    for delay_s in delays_s:
        alarm.ring_by(now_s + delay_s)
    if cancels:
        alarm.cancel()
    # There is no condition to wait for: a superfluous ring would come after the last one.
    window = loop.create_future()
    loop.call_later(RING_WINDOW_S, window.set_result, None)
    await window
    alarm.cancel()
    return count


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize(
    ("delays_s", "cancels", "expected"),
    [
        pytest.param([0.01], False, 1, id="later"),
        pytest.param([-1.0], False, 1, id="already past"),
        pytest.param([60.0, 0.01, 30.0], False, 1, id="the earliest"),
        pytest.param([-1.0, -2.0, 60.0], False, 1, id="past, twice"),
        pytest.param([60.0], False, 0, id="not yet"),
        pytest.param([inf], False, 0, id="never"),
        pytest.param([0.01, -1.0], True, 0, id="cancelled"),
        pytest.param([], True, 0, id="cancelled without reason"),
    ],
)
def test_ringing(
    new_loop: LoopFactory, delays_s: list[float], cancels: bool, expected: int
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(rings(*delays_s, cancels=cancels)) == expected


async def test_an_alarm_can_be_set_again_after_it_rang() -> None:
    loop = asyncio.get_running_loop()
    rang = asyncio.Event()
    alarm = Alarm(loop, rang.set)
    for _ in range(2):
        alarm.ring_by(loop.time() + 0.001)
        async with asyncio.timeout(DEADLINE_S):
            await rang.wait()
        rang.clear()


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


async def test_the_end_of_a_task_that_nobody_cancelled_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = TaskSet(asyncio.get_running_loop())

    async def await_cancelled() -> None:
        worker = asyncio.get_running_loop().create_future()
        worker.cancel()
        await worker

    with caplog.at_level(logging.ERROR, "ottla"):
        tasks.spawn(asyncio.Event().wait(), "cancelled by its owner")
        tasks.spawn(await_cancelled(), "ended by itself")
        for _ in range(3):
            await asyncio.sleep(0)
        await tasks.cancel_all()
    assert [record.getMessage() for record in caplog.records] == [
        "task.cancelled name=ended by itself"
    ]


async def test_only_the_first_call_closes_and_the_others_wait_for_it() -> None:
    closing = Closing()
    assert [closing.begin(), closing.begin()] == [True, False]
    # The task that closes, such as in a callback of the application, does not wait for itself.
    await closing.wait(timeout_s=60)
    other = asyncio.ensure_future(closing.wait(timeout_s=60))
    impatient = asyncio.ensure_future(closing.wait(timeout_s=0))
    async with asyncio.timeout(10):
        await impatient
    assert not other.done()
    closing.end()
    async with asyncio.timeout(10):
        await other
        await asyncio.ensure_future(closing.wait(timeout_s=60))

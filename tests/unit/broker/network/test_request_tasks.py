"""Requests that take several turns of the loop: `broker.network.request_tasks`."""

import asyncio

import pytest
from structlog.testing import capture_logs

from broker.network.reply import ReplyState
from broker.network.request_tasks import ITEMS_PER_TURN, RequestTasks, in_turns

TIMEOUT_S = 10


class Piece:
    """Work that records its begin and end, and ends when the test permits."""

    def __init__(self, name: str, journal: list[str]) -> None:
        self.name = name
        self.journal = journal
        self.may_end = asyncio.Event()

    async def __call__(self) -> str:
        self.journal.append(f"{self.name} begins")
        try:
            await self.may_end.wait()
        finally:
            self.journal.append(f"{self.name} ends")
        return self.name


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_tasks_run_concurrently() -> None:
    tasks, may_end = RequestTasks(asyncio.get_running_loop()), asyncio.Event()

    async def slow() -> str:
        await may_end.wait()
        return "slow"

    async def quick() -> str:
        return "quick"

    first, second = tasks.run(slow), tasks.run(quick)
    await turns()
    assert (first.is_done, second.message) == (False, "quick")
    may_end.set()
    await turns()
    assert first.message == "slow"


async def test_a_failing_task_closes_only_its_own_connection() -> None:
    tasks = RequestTasks(asyncio.get_running_loop())

    async def fail() -> object:
        raise RuntimeError("a bug")

    with capture_logs() as logs:
        reply = tasks.run(fail)
        tasks.run(fail)
        await turns()
    assert reply.state is ReplyState.CLOSE
    assert [log["event"] for log in logs] == ["request.failed"] * 2


async def test_stopping_cancels_running_tasks() -> None:
    tasks, ended = RequestTasks(asyncio.get_running_loop()), asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    reply = tasks.run(endless)
    await turns()
    await asyncio.wait_for(tasks.stop(), TIMEOUT_S)
    await turns()
    assert ended.is_set()
    assert reply.state is ReplyState.CLOSE
    await tasks.stop()


async def test_work_above_the_limit_waits_and_begins_in_order() -> None:
    queue, journal = RequestTasks(asyncio.get_running_loop(), max_running=1), list[str]()
    first, second = Piece("first", journal), Piece("second", journal)
    second.may_end.set()
    replies = [queue.run(first), queue.run(second)]
    await turns()
    assert journal == ["first begins"]
    first.may_end.set()
    await turns()
    assert journal == ["first begins", "first ends", "second begins", "second ends"]
    assert [reply.message for reply in replies] == ["first", "second"]


async def test_work_continues_after_its_client_has_disconnected() -> None:
    tasks, journal = RequestTasks(asyncio.get_running_loop()), list[str]()
    piece = Piece("piece", journal)
    reply = tasks.run(piece)
    await turns()
    reply.cancel()
    piece.may_end.set()
    await turns()
    assert journal == ["piece begins", "piece ends"]


async def test_stopping_begins_no_waiting_work() -> None:
    queue, journal = RequestTasks(asyncio.get_running_loop(), max_running=1), list[str]()
    replies = [queue.run(Piece(name, journal)) for name in ("first", "second")]
    await turns()
    await asyncio.wait_for(queue.stop(), TIMEOUT_S)
    await turns()
    assert journal == ["first begins", "first ends"]
    assert [reply.state for reply in replies] == [ReplyState.CLOSE] * 2


@pytest.mark.parametrize(
    ("weight", "per_turn"),
    [(0, ITEMS_PER_TURN), (1, ITEMS_PER_TURN), (10, ITEMS_PER_TURN // 10), (2 * ITEMS_PER_TURN, 1)],
)
async def test_a_long_series_of_items_yields_to_other_tasks(weight: int, per_turn: int) -> None:
    seen = 0

    async def work() -> None:
        nonlocal seen
        async for number in in_turns(range(1, 2 * per_turn + 2), weight):
            assert number == seen + 1
            seen = number

    running = asyncio.create_task(work())
    lengths = []
    while not running.done():
        await asyncio.sleep(0)
        lengths.append(seen)
    assert lengths[:3] == [per_turn, 2 * per_turn, 2 * per_turn + 1]
    await running

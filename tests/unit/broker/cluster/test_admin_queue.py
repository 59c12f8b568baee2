"""Work in several turns of the event loop: `broker.cluster.admin_queue`."""

import asyncio

from structlog.testing import capture_logs

from broker.cluster.admin_queue import AdminQueue, give_way
from broker.network.reply import ReplyState

TIMEOUT_S = 10


class Piece:
    """A task that records its begin and end, and ends when the test permits."""

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
        await give_way()


async def test_tasks_run_in_order_and_never_overlap() -> None:
    queue, journal = AdminQueue(asyncio.get_running_loop()), list[str]()
    first, second = Piece("first", journal), Piece("second", journal)
    replies = [queue.run(first), queue.run(second)]
    second.may_end.set()
    await turns()
    assert journal == ["first begins"]
    first.may_end.set()
    await turns()
    assert journal == ["first begins", "first ends", "second begins", "second ends"]
    assert [reply.message for reply in replies] == ["first", "second"]


async def test_failed_task_closes_only_its_own_connection() -> None:
    queue, journal = AdminQueue(asyncio.get_running_loop()), list[str]()

    async def fail() -> object:
        raise RuntimeError("a bug")

    after = Piece("after", journal)
    after.may_end.set()
    with capture_logs() as logs:
        failed, done = queue.run(fail), queue.run(after)
        await turns()
    assert failed.state is ReplyState.CLOSE
    assert done.message == "after"
    assert [log["event"] for log in logs] == ["admin.failed"]


async def test_task_continues_after_its_client_has_disconnected() -> None:
    queue, journal = AdminQueue(asyncio.get_running_loop()), list[str]()
    piece = Piece("piece", journal)
    reply = queue.run(piece)
    await turns()
    reply.cancel()
    piece.may_end.set()
    await turns()
    assert journal == ["piece begins", "piece ends"]


async def test_stop_cancels_the_running_task_and_starts_no_other() -> None:
    queue, journal = AdminQueue(asyncio.get_running_loop()), list[str]()
    replies = [queue.run(Piece(name, journal)) for name in ("first", "second")]
    await turns()
    await asyncio.wait_for(queue.stop(), TIMEOUT_S)
    await turns()
    assert journal == ["first begins", "first ends"]
    assert [reply.state for reply in replies] == [ReplyState.CLOSE, ReplyState.PENDING]
    await asyncio.wait_for(queue.stop(), TIMEOUT_S)

"""A watch that reads a node again after each change, in virtual time."""

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

import pytest
from structlog.testing import capture_logs

from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.node_watch import REREAD_S, NodeWatch
from coordination.errors import ErrorCode, OperationError, SessionExpiredError
from tests.simulation.coordination.virtual_loop import VirtualLoop

REFUSED = OperationError.of(ErrorCode.NO_AUTH, "/node")
REFUSED_OTHERWISE = OperationError.of(ErrorCode.NO_AUTH, "/other")
EXPIRED = SessionExpiredError(ErrorCode.SESSION_EXPIRED)
BUG = KeyError("a bug")
Result = OperationError | SessionExpiredError | KeyError | None


class World:
    """A node and its watch, whose reads end with `results`."""

    def __init__(self, *results: Result) -> None:
        self.results = list(results)
        self.notify: Callable[[], None] = lambda: None
        self.read_s: list[float] = []
        self.is_over = asyncio.Event()
        self.loop = VirtualLoop(seed=0)

    def watch(self, _path: str, callback: Callable[[], None]) -> None:
        self.notify = callback

    async def read(self) -> None:
        self.read_s.append(self.loop.time())
        result = self.results.pop(0)
        if not self.results:
            self.is_over.set()
        if result:
            raise result

    def run(self, *, is_read: bool = False) -> list[Mapping[str, object]]:
        """Read until all results are used; return the log."""

        async def main() -> None:
            watch = NodeWatch(cast("CoordinatorSession", self), "/node", self.read)
            watch.start(is_read=is_read)
            await self.is_over.wait()
            await watch.stop()

        with capture_logs() as lines:
            self.loop.run_until_complete(main())
        self.loop.close()
        return list(lines)

    @property
    def delays_s(self) -> list[float]:
        return [later - each for each, later in zip(self.read_s, self.read_s[1:], strict=False)]


def test_refused_reads_are_repeated_ever_more_rarely_and_logged_once() -> None:
    world = World(*[REFUSED] * 9, None, None)
    events = [line["event"] for line in world.run()]
    assert world.delays_s == [1, 2, 4, 8, 16, 32, REREAD_S, REREAD_S, REREAD_S, REREAD_S]
    assert events == ["watch.not_read", "watch.read_again"]


def test_each_reason_of_a_refusal_and_each_recovery_is_logged() -> None:
    world = World(REFUSED, REFUSED_OTHERWISE, None, REFUSED, EXPIRED, REFUSED, None, None)
    events = [line["event"] for line in world.run()]
    refused, recovered = "watch.not_read", "watch.read_again"
    assert events == [refused, refused, recovered, refused, recovered]


def test_a_bug_in_one_read_does_not_end_the_watch() -> None:
    world = World(BUG, BUG, REFUSED, None, None)
    events = [line["event"] for line in world.run()]
    assert world.delays_s == [1, 2, 4, REREAD_S]
    assert events == ["watch.failed", "watch.not_read", "watch.read_again"]


def test_lost_watch_is_found_by_a_read_without_a_change() -> None:
    world = World(None)
    begin_s = world.loop.time()
    assert world.run(is_read=True) == []
    assert world.read_s == [begin_s + REREAD_S]


def test_change_during_the_back_off_is_read_at_once() -> None:
    world = World(*[REFUSED] * 6, None)
    due_s = world.loop.time() + 40
    world.loop.call_at(due_s, lambda: world.notify())
    world.run()
    assert world.read_s[-1] == due_s


@pytest.mark.parametrize("turn_count", range(5))
def test_a_watch_ends_although_a_change_comes_at_that_moment(turn_count: int) -> None:
    world = World(None, None)

    async def main() -> None:
        watch = NodeWatch(cast("CoordinatorSession", world), "/node", world.read)
        watch.start(is_read=True)
        for _ in range(turn_count):
            await asyncio.sleep(0)
        watch.wake()
        for _ in range(turn_count):
            await asyncio.sleep(0)
        async with asyncio.timeout(1):
            await watch.stop()

    world.loop.run_until_complete(main())
    world.loop.close()

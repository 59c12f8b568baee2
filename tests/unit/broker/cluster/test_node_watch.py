"""A watch that reads a node again after each change."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from broker.cluster import node_watch
from broker.cluster.coordinator_session import CoordinatorSession
from broker.cluster.node_watch import NodeWatch
from coordination.errors import ErrorCode, OperationError


class FakeSession:
    """Holds the callback of one watch."""

    def __init__(self) -> None:
        self.notify: Callable[[], None] = lambda: None

    def watch(self, _path: str, callback: Callable[[], None]) -> None:
        self.notify = callback


async def test_a_refused_read_is_repeated_and_later_changes_are_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_watch, "RETRY_S", 0.0)
    refusals = [OperationError.of(ErrorCode.NO_AUTH, "/node"), None]
    is_read = asyncio.Event()

    async def read() -> None:
        if refusals and (refusal := refusals.pop(0)):
            raise refusal
        is_read.set()

    session = FakeSession()
    watch = NodeWatch(cast("CoordinatorSession", session), "/node", read)
    watch.start()
    async with asyncio.timeout(20):
        await is_read.wait()
        is_read.clear()
        session.notify()
        await is_read.wait()
    await watch.stop()

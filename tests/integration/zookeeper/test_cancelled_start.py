"""A start of a client on znodes that is cancelled leaves nothing behind."""

import asyncio
from collections.abc import Callable

import pytest

from ottla.zookeeper.consumer import ZooKeeperConsumer
from ottla.zookeeper.producer import ZooKeeperProducer
from tests.ports import free_port
from tests.waiting import until

SESSION = "coordination-client"
"""Name of the task that keeps a session."""


def sessions() -> list[asyncio.Task[object]]:
    """Return the running tasks that keep sessions."""
    return [task for task in asyncio.all_tasks() if task.get_name() == SESSION]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda at: ZooKeeperConsumer(at, group_id="g"), id="consumer"),
        pytest.param(ZooKeeperProducer, id="producer"),
    ],
)
async def test_a_cancelled_start_ends_the_session(
    make: Callable[[str], ZooKeeperConsumer | ZooKeeperProducer],
) -> None:
    client = make(f"127.0.0.1:{free_port()}")
    starting = asyncio.ensure_future(client.start())
    # Nothing listens there, so that the session is tried again and again.
    await until(lambda: len(sessions()) == 1, "the attempt to connect")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert sessions() == []

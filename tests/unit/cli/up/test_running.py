"""Works beside a cluster, such as its console, end in order: `ottla.cli.up.running`."""

import asyncio
from typing import cast

import pytest

from ottla.cli.failure import CommandError
from ottla.cli.up.running import _work
from ottla.cli.up.supervisor import Supervisor

TURNS = 10
"""More turns of the event loop than pass until a cancellation has reached all works."""


class Cluster:
    """A supervisor of a cluster that runs until it is stopped, or fails."""

    def __init__(self) -> None:
        self.failing = asyncio.Event()

    async def start(self) -> None:
        pass

    async def run(self) -> None:
        await self.failing.wait()
        raise CommandError("the cluster cannot be used")


class Beside:
    """A work that takes a while to end, like the wait for the end of a child process."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.has_ended = False

    async def run(self) -> None:
        try:
            self.begun.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            self.has_ended = True


async def test_a_stop_waits_for_the_works_beside_the_cluster() -> None:
    beside = Beside()
    work = asyncio.create_task(_work(cast(Supervisor, Cluster()), [beside.run]))
    async with asyncio.timeout(10):
        await beside.begun.wait()
        work.cancel()
        await asyncio.wait([work])
    assert (work.cancelled(), beside.has_ended) == (True, True)


async def test_a_cluster_that_fails_ends_the_works_beside_it() -> None:
    cluster, beside = Cluster(), Beside()
    work = asyncio.create_task(_work(cast(Supervisor, cluster), [beside.run]))
    async with asyncio.timeout(10):
        await beside.begun.wait()
        cluster.failing.set()
        with pytest.raises(CommandError, match="cannot be used"):
            await work
    assert beside.has_ended

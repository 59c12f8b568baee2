"""kill -9 at random moments under load: acknowledged writes survive, and a multi is atomic."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from coordination.client import Client, ops
from coordination.errors import ConnectionLossError, OperationError
from coordination.protocol.messages import OPEN_ACL
from coordination.server.coordinator import open_state
from coordination.server.disk.data_dir import DataDir, snapshots_of, spent_files
from coordination.server.disk.snapshotter import take_snapshot
from coordination.server.state.txns import CreateTxn, Entry
from tests.integration.coordination.process import Coordinator

T = TypeVar("T")

DEADLINE_S = 60.0
IN_FLIGHT = 200


async def answered(read: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a read; retry while connections to the dead server are lost."""
    while True:
        try:
            return await read()
        except ConnectionLossError:
            # A suspect client refuses requests at once; the loop must run for it to reconnect.
            await asyncio.sleep(0)


class Load:
    """Writes with many requests in flight, and records the acknowledged ones."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        self.client = client
        self.chance = chance
        self.created: set[str] = set()
        self.pairs: set[int] = set()
        self.version = -1
        self.number = 0
        self.has_progressed = asyncio.Event()

    async def run(self) -> None:
        """Write until the connection is lost."""
        pending: set[asyncio.Task[None]] = set()
        while not any(task.done() and task.exception() for task in pending):
            pending = {task for task in pending if not task.done()}
            while len(pending) < IN_FLIGHT:
                self.number += 1
                pending.add(asyncio.create_task(self._write(self.number)))
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*pending, return_exceptions=True)

    async def _write(self, number: int) -> None:
        match number % 3:
            case 0:
                self.created.add(await self.client.create("/load/n-", b"x" * 100, sequential=True))
            case 1:
                await self.client.multi(
                    [ops.create(f"/load/pair-{number}-{half}") for half in ("a", "b")]
                )
                self.pairs.add(number)
                self.has_progressed.set()
            case _:
                stat = await self.client.set_data("/counter", b"%d" % number)
                self.version = max(self.version, stat.version)

    async def check(self) -> None:
        """Compare the state with the acknowledged writes."""
        found = set(await answered(lambda: self.client.get_children("/load")))
        assert {path.rpartition("/")[2] for path in self.created} <= found
        halves = {name for name in found if name.startswith("pair-")}
        numbers = {name.split("-")[1] for name in halves}
        assert {str(number) for number in self.pairs} <= numbers
        assert halves == {f"pair-{number}-{half}" for number in numbers for half in "ab"}
        _, stat = await answered(lambda: self.client.get_data("/counter"))
        assert stat.version >= self.version


@pytest.mark.parametrize("rounds", [4, pytest.param(100, marks=pytest.mark.soak)])
async def test_acknowledged_writes_survive_sigkill_under_load(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(rounds)
    server = Coordinator(tmp_path / "data")
    acknowledged = 0
    try:
        async with Client(server.address, session_timeout_ms=30_000) as client:
            await client.create("/load")
            await client.create("/counter")
            load = Load(client, chance)
            for _ in range(rounds):
                load.has_progressed.clear()
                running = asyncio.create_task(load.run())
                async with asyncio.timeout(DEADLINE_S):
                    await load.has_progressed.wait()
                # The random delay is the experiment: it picks a moment of the running load.
                await asyncio.sleep(chance.uniform(0, 0.3))
                await asyncio.to_thread(server.kill)
                await running
                await asyncio.to_thread(server.start)
                async with asyncio.timeout(DEADLINE_S):
                    await load.check()
                assert len(load.created) + len(load.pairs) > acknowledged
                acknowledged = len(load.created) + len(load.pairs)
    finally:
        server.kill()


async def test_a_session_and_its_nodes_survive_repeated_crashes(tmp_path: Path) -> None:
    server = Coordinator(tmp_path / "data")
    try:
        async with Client(server.address, session_timeout_ms=10_000) as client:
            await client.create("/e", ephemeral=True)
            before = await client.exists("/e")
            for _ in range(5):
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                async with asyncio.timeout(DEADLINE_S):
                    while True:
                        try:
                            assert await client.exists("/e") == before
                            break
                        except ConnectionLossError:
                            await asyncio.sleep(0)
                        except OperationError as error:
                            raise AssertionError("the session was lost") from error
    finally:
        server.kill()


@pytest.mark.parametrize("restarts", [150, pytest.param(1000, marks=pytest.mark.soak)])
def test_many_restarts_lose_nothing(tmp_path: Path, restarts: int) -> None:
    directory = tmp_path / "data"
    for restart in range(restarts):
        data_dir = DataDir(directory)
        recovered, writer = open_state(data_dir)
        assert recovered.state.zxid == restart
        assert recovered.state.tree.node_count == 4 + restart
        create = CreateTxn(f"/{restart}", b"", OPEN_ACL, 0, restart + 1)
        writer.append([Entry(restart + 1, restart, 0, 0, create)])
        writer.sync()
        # Every second stop is in order; the others leave the segment open, like a crash.
        if restart % 2:
            writer.close()
        else:
            os.close(writer._file)
        data_dir.close()
        if restart % 50 == 49:
            take_snapshot(directory)
            for path in spent_files(directory):
                path.unlink()
    assert len(snapshots_of(directory)) == 2


@pytest.mark.soak
async def test_a_thousand_restarts_of_the_process_lose_nothing(tmp_path: Path) -> None:
    server = Coordinator(tmp_path / "data")
    try:
        for restart in range(1000):
            async with Client(server.address, has_heartbeat_thread=False) as client:
                names = await client.get_children("/")
                assert len(names) == restart + 1
                await client.create(f"/{restart}")
            await asyncio.to_thread(server.kill if restart % 2 else server.stop)
            await asyncio.to_thread(server.start)
    finally:
        server.kill()

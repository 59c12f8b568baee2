"""Our coordinator client against Debian's ZooKeeper: one server, and an ensemble with failover."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.client import Client, SessionState, patterns
from tests.integration.coordination.behaviour import EXPERIMENTS, Experiment
from tests.integration.coordination.process import (
    ZooKeeper,
    ensemble,
    four_letter,
    has_zookeeper,
    kill_all,
)

pytestmark = pytest.mark.skipif(not has_zookeeper(), reason="needs Debian's zookeeper and java")
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ZooKeeper]]:
    servers = ensemble(tmp_path_factory.mktemp("ensemble"), 3)
    yield servers
    kill_all(servers)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.__name__)
async def test_against_one_zookeeper(zookeeper: ZooKeeper, experiment: Experiment) -> None:
    await experiment(zookeeper.address, f"/{experiment.__name__}")


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.__name__)
async def test_against_an_ensemble(members: list[ZooKeeper], experiment: Experiment) -> None:
    await experiment(addresses(members), f"/{experiment.__name__}")


@pytest.mark.parametrize("role", ["follower", "leader"])
async def test_a_killed_member_loses_no_session_and_no_acknowledged_write(
    tmp_path: Path, role: str
) -> None:
    servers = ensemble(tmp_path, 3)
    try:
        client = Client(addresses(servers), session_timeout_ms=10_000)
        await client.connect()
        states: list[SessionState] = []
        client.on_state_change(states.append)
        session_id = client.session_id
        await client.create("/mine", b"1", ephemeral=True)
        acknowledged = [await client.create("/n-", sequential=True) for _ in range(20)]
        victim = next(each for each in servers if f"Mode: {role}" in four_letter(each.port, "srvr"))
        victim.kill()
        async with asyncio.timeout(DEADLINE_S):
            stat = await patterns.retry_read(lambda: client.exists("/mine"))
            assert stat is not None
            assert stat.ephemeral_owner == session_id == client.session_id
            await patterns.set_data(client, "/mine", b"2", 0)
            children = await patterns.retry_read(lambda: client.get_children("/"))
        assert {path[1:] for path in acknowledged} <= set(children)
        assert SessionState.EXPIRED not in states
        await client.close()
    finally:
        kill_all(servers)


def addresses(servers: list[ZooKeeper]) -> str:
    return ",".join(server.address for server in servers)

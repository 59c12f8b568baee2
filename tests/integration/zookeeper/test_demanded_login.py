"""Clients on znodes, and their commands, at a coordinator that demands a login."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.cli.app import make_app
from ottla.cli.up.coordinator_login import FILE, write_login
from ottla.client.errors import NoBrokerAvailableError
from ottla.zookeeper.consumer import ZooKeeperConsumer
from ottla.zookeeper.producer import ZooKeeperProducer
from ottla.zookeeper.refusal import LOGIN_DEMANDED
from tests.integration.coordination.process import Coordinator, kill_all

Make = Callable[[str, Path | None], ZooKeeperConsumer | ZooKeeperProducer]


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Coordinator]:
    """Return a coordinator as that of `ottla up`."""
    login = f"--login-config={write_login(tmp_path, 's3cret-at-the-coordinator')}"
    coordinator = Coordinator(tmp_path / "coordinator", login, "--enforce-auth-schemes=sasl")
    yield coordinator
    kill_all([coordinator])


def consumer(address: str, login: Path | None) -> ZooKeeperConsumer:
    return ZooKeeperConsumer(address, group_id="g", coordinator_login=login)


def producer(address: str, login: Path | None) -> ZooKeeperProducer:
    return ZooKeeperProducer(address, coordinator_login=login)


@pytest.mark.parametrize("make", [consumer, producer])
async def test_clients_log_in_or_say_that_a_login_is_demanded(
    closed: Coordinator, make: Make, tmp_path: Path
) -> None:
    with pytest.raises(NoBrokerAvailableError, match=LOGIN_DEMANDED):
        await make(closed.address, None).start()
    # Without `start`, which waits for a broker.
    client = make(closed.address, tmp_path / FILE)._client
    try:
        await client.connect()
        assert await client.exists("/") is not None
    finally:
        await client.close()


def test_commands_log_in_or_say_that_a_login_is_demanded(
    closed: Coordinator, tmp_path: Path
) -> None:
    arguments = ["groups", "list", "--json", "--coordinator", closed.address]
    refused = CliRunner().invoke(make_app(), arguments)
    text = f"ottla: the coordinator at {closed.address} failed: {LOGIN_DEMANDED}.\n"
    assert (refused.exit_code, text in refused.output) == (1, True)
    login = {"OTTLA_COORDINATOR_LOGIN": str(tmp_path / FILE)}
    served = CliRunner().invoke(make_app(), arguments, env=login)
    assert (served.exit_code, json.loads(served.output)) == (0, [])

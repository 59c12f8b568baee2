"""Clients on znodes, and their commands, at a coordinator that demands a login."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.cli.app import make_app
from ottla.cli.up.coordinator_login import write_login
from ottla.client.errors import NoBrokerAvailableError
from ottla.zookeeper.consumer import ZooKeeperConsumer
from ottla.zookeeper.producer import ZooKeeperProducer
from ottla.zookeeper.refusal import LOGIN_DEMANDED
from tests.integration.coordination.process import Coordinator, kill_all


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Coordinator]:
    """Return a coordinator as that of `ottla up`."""
    login = f"--login-config={write_login(tmp_path)}"
    coordinator = Coordinator(tmp_path / "coordinator", login, "--enforce-auth-schemes=sasl")
    yield coordinator
    kill_all([coordinator])


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda at: ZooKeeperConsumer(at, group_id="g"), id="consumer"),
        pytest.param(ZooKeeperProducer, id="producer"),
    ],
)
async def test_clients_say_that_the_coordinator_demands_a_login(
    closed: Coordinator, make: Callable[[str], ZooKeeperConsumer | ZooKeeperProducer]
) -> None:
    with pytest.raises(NoBrokerAvailableError, match=LOGIN_DEMANDED):
        await make(closed.address).start()


def test_commands_say_that_the_coordinator_demands_a_login(closed: Coordinator) -> None:
    arguments = ["groups", "list", "--coordinator", closed.address]
    result = CliRunner().invoke(make_app(), arguments)
    text = f"ottla: the coordinator at {closed.address} failed: {LOGIN_DEMANDED}.\n"
    assert (result.exit_code, text in result.output) == (1, True)

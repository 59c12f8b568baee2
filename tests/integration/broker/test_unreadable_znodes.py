"""Brokers without permission to read a znode still handle all other topics."""

from pathlib import Path

import pytest

from clusterstate.broker_registration import create_top_nodes
from clusterstate.coordinator_edge import CoordinatorEdge
from clusterstate.znodes import paths
from coordination.client import Client
from coordination.protocol.messages import OPEN_ACL, Acl, OpCode, SetAclRequest
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from tests.integration.broker.broker_cluster import BrokerCluster
from tests.integration.broker.test_admin import SET, alter_incrementally
from tests.integration.broker.test_lifecycle import local, try_to_start
from tests.integration.broker.test_tools_at_nodes import Tool
from tests.integration.broker.wire import batch
from tests.integration.coordination.process import Coordinator, RawClient, wait_until

KEY = "max.message.bytes"
NOBODY = (Acl(31, "digest", "nobody:x"),)
LOCKED = TopicPartition("locked", 0)


def set_acl(coordinator: Coordinator, path: str, acl: tuple[Acl, ...]) -> None:
    with RawClient(coordinator.port) as client:
        client.shake_hands()
        assert client.ask(1, OpCode.SET_ACL, SetAclRequest(path, acl, -1))[0].err == 0


@pytest.mark.parametrize(
    "path",
    [paths.config("topics/locked"), paths.topic("locked"), paths.partition_state(LOCKED)],
    ids=["config", "topic", "state"],
)
def test_an_unreadable_znode_stops_only_the_work_on_its_topic(
    coordinator: Coordinator, path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tool = Tool(coordinator.address)
    with BrokerCluster(tmp_path_factory.mktemp("cluster"), coordinator.address) as cluster:
        cluster.start(1)
        cluster.start(2)
        for topic in ("locked", "free"):
            cluster.create_topic(topic, [[2, 1]])
        with cluster.wire(1) as wire:
            assert alter_incrementally(wire, "locked", (KEY, SET, "1000")) == 0
        set_acl(coordinator, path, NOBODY)
        tool.announce({"version": 2, "entity_path": "topics/locked"})
        with cluster.wire(1) as wire:
            assert alter_incrementally(wire, "free", (KEY, SET, "1000")) == 0
        with cluster.wire(2) as wire:
            wait_until(
                lambda: (
                    wire.produce("free", batch(b"x" * 2000)).error_code
                    == ErrorCode.MESSAGE_TOO_LARGE
                )
            )
        cluster.brokers[1].kill()
        wait_until(lambda: tool.state("free")["isr"] == [2])
        assert tool.json(paths.CONTROLLER)["brokerid"] == 2
        with cluster.wire(2) as wire:
            assert wire.produce("free", batch(b"x")).error_code == ErrorCode.NONE


def test_a_change_that_the_coordinator_refuses_is_answered(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    with BrokerCluster(tmp_path, coordinator.address) as cluster:
        cluster.start(1)
        cluster.create_topic("t", [[1]])
        with cluster.wire(1) as wire:
            set_acl(coordinator, paths.CONFIG_CHANGES, (Acl(30, "world", "anyone"),))
            code = alter_incrementally(wire, "t", (KEY, SET, "1000"))
            assert code == ErrorCode.REQUEST_TIMED_OUT
            set_acl(coordinator, paths.CONFIG_CHANGES, OPEN_ACL)
            assert alter_incrementally(wire, "t", (KEY, SET, "1001")) == ErrorCode.NONE
            assert wire.produce("t", batch(b"x" * 2000)).error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("path", "permissions"),
    [(paths.BROKER_IDS, 30), (paths.BROKER_IDS, 1), (paths.CONFIG_CHANGES, 30)],
    ids=["list of brokers", "registration", "config changes"],
)
async def test_a_broker_says_which_permission_its_start_lacks(
    coordinator: Coordinator, tmp_path: Path, path: str, permissions: int
) -> None:
    async with Client(coordinator.address) as client:
        await CoordinatorEdge(client, lambda _event: None).run(create_top_nodes())
    set_acl(coordinator, path, (Acl(permissions, "world", "anyone"),))
    code, output = try_to_start(
        *local(tmp_path / "data", zookeeper_connect=coordinator.address, broker_id="1")
    )
    assert code == 1
    assert "broker.not_started" in output
    verb = "write" if permissions == 1 else "access"
    assert f"the coordinator does not let this broker {verb} {path}" in output
    assert "Traceback" not in output

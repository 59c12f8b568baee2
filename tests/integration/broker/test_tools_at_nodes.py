"""Tools of the ZooKeeper era that write Kafka's nodes of a running cluster directly."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from clusterstate.znodes import paths
from coordination.client import Client
from coordination.errors import NoNodeError
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from tests.integration.broker.broker_cluster import IDS, BrokerCluster
from tests.integration.broker.test_admin import config
from tests.integration.broker.wire import batch
from tests.integration.coordination.process import Coordinator, wait_until

T = TypeVar("T")
ANY_VERSION = -1
ELECTION_KEYS = {"leader.imbalance.check.interval.seconds": "1"}


@pytest.fixture(scope="module")
def cluster(
    shared_coordinator: Coordinator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with BrokerCluster(directory, shared_coordinator.address) as made:
        made.start(*IDS)
        made.until_all_say(lambda each: len(made.metadata(each).brokers) == 3)
        yield made


class Tool:
    """A client of the coordinator with a short session per operation."""

    def __init__(self, address: str) -> None:
        self._address = address

    def read(self, path: str) -> bytes | None:
        """Return a node's data; None if the node does not exist."""

        async def get(client: Client) -> bytes | None:
            try:
                data, _ = await client.get_data(path)
            except NoNodeError:
                return None
            return data or b""

        return self._do(get)

    def write(self, path: str, data: bytes) -> None:
        self._do(lambda client: client.set_data(path, data, ANY_VERSION))

    def create(self, path: str, data: bytes) -> None:
        self._do(lambda client: client.create(path, data))

    def announce(self, notification: Mapping[str, object]) -> None:
        """Notify all brokers of a changed config."""
        prefix, data = paths.CONFIG_CHANGE_PREFIX, json.dumps(notification).encode()
        self._do(lambda client: client.create(prefix, data, sequential=True))

    def delete(self, path: str) -> None:
        self._do(lambda client: client.delete(path, ANY_VERSION))

    def json(self, path: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.read(path) or b"{}")
        return found

    def state(self, topic: str) -> dict[str, object]:
        """Return the state of a topic's first partition."""
        return self.json(paths.partition_state(TopicPartition(topic, 0)))

    def epoch(self) -> int:
        return int(self.read(paths.CONTROLLER_EPOCH) or b"0")

    def _do(self, act: Callable[[Client], Awaitable[T]]) -> T:
        async def run() -> T:
            async with Client(self._address, has_heartbeat_thread=False) as client:
                return await act(client)

        return asyncio.run(run())


@pytest.fixture
def tool(cluster: BrokerCluster, shared_coordinator: Coordinator) -> Tool:
    del cluster
    return Tool(shared_coordinator.address)


def agreed_controller(cluster: BrokerCluster, tool: Tool) -> int | None:
    """Return the controller in the node, if all brokers agree on it."""
    named = tool.json(paths.CONTROLLER).get("brokerid")
    said = {cluster.controller(each) for each in cluster.running}
    return int(str(named)) if said == {named} else None


def test_deleting_the_controller_node_causes_an_election(
    cluster: BrokerCluster, tool: Tool
) -> None:
    epoch = tool.epoch()
    tool.delete(paths.CONTROLLER)
    wait_until(lambda: tool.epoch() == epoch + 1)
    wait_until(lambda: agreed_controller(cluster, tool) is not None)
    cluster.create_topic("after-deletion", [[1, 2, 3]])
    assert tool.state("after-deletion")["controller_epoch"] == epoch + 1


def test_a_controller_resigns_when_its_node_names_another(
    cluster: BrokerCluster, tool: Tool
) -> None:
    cluster.create_topic("before-usurper", [[1, 2, 3]])
    epoch, data = tool.epoch(), tool.json(paths.CONTROLLER)
    tool.write(paths.CONTROLLER, json.dumps({**data, "brokerid": 9}).encode())
    resigned = cluster.brokers[int(str(data["brokerid"]))]
    resigned.wait_for_event(
        "controller.resigned", where=lambda event: event["controller_epoch"] == epoch
    )
    assert tool.epoch() == epoch, "no other broker has become controller"
    tool.delete(paths.CONTROLLER)
    wait_until(lambda: agreed_controller(cluster, tool) is not None)
    assert tool.epoch() == epoch + 1


def test_raising_the_controller_epoch_deposes_the_controller(
    cluster: BrokerCluster, tool: Tool
) -> None:
    epoch = tool.epoch()
    tool.write(paths.CONTROLLER_EPOCH, str(epoch + 5).encode())
    # The controller's next write is refused: it resigns, and a broker is elected.
    topic = json.dumps({"version": 1, "partitions": {"0": [1, 2, 3]}}).encode()
    tool.create(paths.topic("after-raise"), topic)
    wait_until(lambda: tool.state("after-raise").get("controller_epoch") == epoch + 6)
    wait_until(lambda: agreed_controller(cluster, tool) is not None)
    assert tool.epoch() == epoch + 6


def test_partitions_are_added_by_rewriting_the_node(cluster: BrokerCluster, tool: Tool) -> None:
    cluster.create_topic("grown-by-tool", [[1, 2]])
    node = tool.json(paths.topic("grown-by-tool"))
    assert isinstance(node["partitions"], dict)
    node["partitions"] |= {"1": [2, 3], "2": [3, 1]}
    tool.write(paths.topic("grown-by-tool"), json.dumps(node).encode())
    cluster.until_in_sync("grown-by-tool", {1, 2}, {2, 3}, {1, 3})
    assert cluster.leaders(1, "grown-by-tool") == [1, 2, 3]


def test_replicas_are_moved_added_and_removed(cluster: BrokerCluster, tool: Tool) -> None:
    cluster.create_topic("moved-by-tool", [[1]])
    with cluster.wire(1) as wire:
        assert wire.produce("moved-by-tool", batch(b"a", b"b")).error_code == ErrorCode.NONE
    for replicas in ([1, 2, 3], [3, 2], [2, 3]):
        move = {"topic": "moved-by-tool", "partition": 0, "replicas": replicas}
        wanted = json.dumps({"version": 1, "partitions": [move]}).encode()
        tool.create(paths.REASSIGN_PARTITIONS, wanted)
        wait_until(lambda: tool.read(paths.REASSIGN_PARTITIONS) is None)
        cluster.until_in_sync("moved-by-tool", set(replicas))
        node = tool.json(paths.topic("moved-by-tool"))
        assert node["partitions"] == {"0": replicas}
        assert (node["adding_replicas"], node["removing_replicas"]) == ({}, {})
    leader = cluster.leaders(1, "moved-by-tool")[0]
    with cluster.wire(leader) as wire:
        assert wire.fetch("moved-by-tool", 0).high_watermark == 2
    gone = cluster.data_dir(1) / "moved-by-tool-0"
    wait_until(lambda: not gone.exists())


def test_preferred_leaders_are_elected_by_node(cluster: BrokerCluster, tool: Tool) -> None:
    cluster.create_topic("elected-by-tool", [[1, 2]])
    cluster.until_in_sync("elected-by-tool", {1, 2})
    move = {"topic": "elected-by-tool", "partition": 0, "replicas": [2, 1]}
    wanted = json.dumps({"version": 1, "partitions": [move]}).encode()
    tool.create(paths.REASSIGN_PARTITIONS, wanted)
    wait_until(lambda: tool.read(paths.REASSIGN_PARTITIONS) is None)
    assert cluster.leaders(1, "elected-by-tool") == [1], "a reassignment alone moves no leader"
    asked = {"version": 1, "partitions": [{"topic": "elected-by-tool", "partition": 0}]}
    tool.create(paths.PREFERRED_ELECTION, json.dumps(asked).encode())
    cluster.until_all_say(lambda each: cluster.leaders(each, "elected-by-tool") == [2])
    wait_until(lambda: tool.read(paths.PREFERRED_ELECTION) is None)


def test_a_topic_is_deleted_by_node(cluster: BrokerCluster, tool: Tool) -> None:
    cluster.create_topic("deleted-by-tool", [[1, 2, 3]])
    tool.create(paths.topic_deletion("deleted-by-tool"), b"")
    wait_until(lambda: tool.read(paths.topic_deletion("deleted-by-tool")) is None)
    assert tool.read(paths.topic("deleted-by-tool")) is None


@pytest.mark.parametrize(
    "notification",
    [
        {"version": 1, "entity_type": "topics", "entity_name": "changed-by-tool"},
        {"version": 2, "entity_path": "topics/changed-by-tool"},
    ],
)
def test_configs_written_by_a_tool_reach_every_broker(
    cluster: BrokerCluster, tool: Tool, notification: dict[str, object]
) -> None:
    value = str(1000 + int(str(notification["version"])))
    path = paths.config("topics/changed-by-tool")
    # The second one is of another product: it is left out.
    configs = {"max.message.bytes": value, "confluent.tier.enable": "true"}
    data = json.dumps({"version": 1, "config": configs}).encode()
    if tool.read(path) is None:
        cluster.create_topic("changed-by-tool", [[1, 2, 3]])
        tool.create(path, data)
    else:
        tool.write(path, data)

    tool.announce(notification)

    def is_known(asked: int) -> bool:
        with cluster.wire(asked) as wire:
            return config(wire, "changed-by-tool", "max.message.bytes").value == value

    cluster.until_all_say(is_known)
    leader = cluster.leaders(1, "changed-by-tool")[0]
    with cluster.wire(leader) as wire:
        wait_until(
            lambda: (
                wire.produce("changed-by-tool", batch(b"x" * 2000)).error_code
                == ErrorCode.MESSAGE_TOO_LARGE
            )
        )


def test_the_last_of_an_in_sync_set_stays_in_it(tmp_path: Path, coordinator: Coordinator) -> None:
    with BrokerCluster(tmp_path, coordinator.address) as cluster:
        tool = Tool(coordinator.address)
        cluster.start(1, 2)
        cluster.create_topic("t", [[2]])
        cluster.brokers[2].kill()
        wait_until(lambda: tool.state("t")["leader"] == -1)
        assert tool.state("t")["isr"] == [2]
        cluster.start(2)
        wait_until(lambda: tool.state("t")["leader"] == 2)


def test_leadership_returns_to_the_preferred_replica_automatically(
    tmp_path: Path, coordinator: Coordinator
) -> None:
    overrides = {**ELECTION_KEYS, "auto.leader.rebalance.enable": "true"}
    with BrokerCluster(tmp_path, coordinator.address, overrides) as cluster:
        cluster.start(1, 2)
        cluster.create_topic("t", [[2, 1]])
        cluster.brokers[2].kill()
        wait_until(lambda: cluster.leaders(1, "t") == [1])
        cluster.start(2)
        # First checked five seconds after the election of the controller, then every second.
        wait_until(lambda: cluster.leaders(1, "t") == [2])

"""Advertised listeners that change while brokers run."""

from collections.abc import Iterator

import pytest

from clusterstate.znodes import paths
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tests.integration.broker.broker_cluster import BrokerCluster
from tests.integration.broker.test_admin import BROKER, DELETE, SET, alter_incrementally
from tests.integration.broker.test_tools_at_nodes import Tool
from tests.integration.broker.wire import batch
from tests.integration.coordination.process import Coordinator, wait_until

KEY = "advertised.listeners"
DYNAMIC_BROKER_CONFIG = 2
STATIC_BROKER_CONFIG = 4


@pytest.fixture
def cluster(
    coordinator: Coordinator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerCluster]:
    with BrokerCluster(tmp_path_factory.mktemp("cluster"), coordinator.address) as made:
        made.start(1, 2)
        yield made


def change(cluster: BrokerCluster, listeners: str | None, name: str = "2") -> int:
    """Set the advertised listeners of broker 2, or remove the setting; return the error code."""
    operation = DELETE if listeners is None else SET
    with cluster.wire(2) as wire:
        return alter_incrementally(wire, name, (KEY, operation, listeners), kind=BROKER)


def until_found_at(cluster: BrokerCluster, host: str, port: int) -> None:
    """Wait until each broker names this address of broker 2."""

    def says(asked: int) -> bool:
        brokers = {each.node_id: each for each in cluster.metadata(asked).brokers}
        found = brokers.get(2)
        return found is not None and (found.host, found.port) == (host, port)

    cluster.until_all_say(says)


def test_clients_and_brokers_follow_the_advertised_listeners(
    cluster: BrokerCluster, coordinator: Coordinator
) -> None:
    tool = Tool(coordinator.address)
    cluster.create_topic("t", [[2, 1]])
    port = cluster.port(2)
    assert change(cluster, f"PLAINTEXT://localhost:{port}") == ErrorCode.NONE
    until_found_at(cluster, "localhost", port)
    registered = tool.json(paths.broker(2))
    assert registered["endpoints"] == [f"PLAINTEXT://localhost:{port}"]
    # The follower copies from the new address.
    with cluster.wire(2) as wire:
        assert wire.produce("t", batch(b"x"), acks=-1).error_code == ErrorCode.NONE
    # The new address counts for the next start, too.
    assert cluster.brokers[2].stop() == 0
    cluster.start(2)
    until_found_at(cluster, "localhost", port)
    assert change(cluster, None) == ErrorCode.NONE
    until_found_at(cluster, "127.0.0.1", port)
    cluster.until_in_sync("t", {1, 2})


@pytest.mark.parametrize(
    ("name", "listeners"),
    [
        ("2", "OTHER://localhost:1"),
        ("2", "PLAINTEXT://0.0.0.0:1"),
        ("2", "localhost:1"),
        ("2", "PLAINTEXT://a:1,PLAINTEXT://b:1"),
        ("2", "PLAINTEXT://a:70000"),
        ("2", ""),
        ("", "PLAINTEXT://localhost:1"),
    ],
)
def test_listeners_that_no_broker_can_advertise_are_refused(
    cluster: BrokerCluster, name: str, listeners: str
) -> None:
    assert change(cluster, listeners, name) == ErrorCode.INVALID_REQUEST
    until_found_at(cluster, "127.0.0.1", cluster.port(2))


def test_address_of_another_broker_is_not_registered(cluster: BrokerCluster) -> None:
    assert change(cluster, f"PLAINTEXT://127.0.0.1:{cluster.port(1)}") == ErrorCode.NONE
    kept = cluster.brokers[2].wait_for_event("registration.kept")
    assert "broker 1 advertises" in str(kept["error"])
    until_found_at(cluster, "127.0.0.1", cluster.port(2))
    assert change(cluster, f"PLAINTEXT://localhost:{cluster.port(2)}") == ErrorCode.NONE
    until_found_at(cluster, "localhost", cluster.port(2))


def test_advertised_listeners_are_described_as_dynamic(cluster: BrokerCluster) -> None:
    port = cluster.port(2)

    def described() -> tuple[str | None, int, bool]:
        resource = DescribeConfigsResource(
            resource_type=BROKER, resource_name="2", configuration_keys=[KEY]
        )
        request = DescribeConfigsRequest(resources=[resource])
        with cluster.wire(2) as wire:
            answer = wire.ask(ApiKey.DESCRIBE_CONFIGS, 4, request, DescribeConfigsResponse)
        [entry] = answer.results[0].configs
        return entry.value, entry.config_source, entry.read_only

    listeners = f"PLAINTEXT://localhost:{port}"
    assert change(cluster, listeners) == ErrorCode.NONE
    wait_until(lambda: described() == (listeners, DYNAMIC_BROKER_CONFIG, False))

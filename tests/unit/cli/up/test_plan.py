"""Processes of a cluster and their arguments: `ottla.cli.up.plan`."""

from pathlib import Path

import pytest

from ottla.cli.up.plan import Child, ClusterPlan, make_plan

HERE = Path("/data")


def plan(ports: list[int], **overrides: str) -> ClusterPlan:
    settings = {key.replace("_", "."): value for key, value in overrides.items()}
    return make_plan(HERE, broker_ports=ports, coordinator_port=2181, overrides=settings)


def settings_of(child: Child) -> dict[str, str]:
    pairs = [word for word in child.arguments if "=" in word]
    return dict(pair.split("=", 1) for pair in pairs)


def test_each_broker_has_its_own_id_port_and_directory() -> None:
    made = plan([9092, 9093])
    assert [(each.name, each.directory, each.broker_id) for each in made.brokers] == [
        ("broker-1", HERE / "broker-1", 1),
        ("broker-2", HERE / "broker-2", 2),
    ]
    assert made.bootstrap == "127.0.0.1:9092,127.0.0.1:9093"
    second = settings_of(made.brokers[1])
    assert (second["broker.id"], second["listeners"], second["log.dirs"]) == (
        "2",
        "PLAINTEXT://127.0.0.1:9093",
        "/data/broker-2",
    )


def test_coordinator_starts_first_and_brokers_get_its_address() -> None:
    made = plan([9092])
    assert [each.name for each in made.children] == ["coordinator", "broker-1"]
    assert made.children[0].arguments[:3] == ("coordinator", "--listen", "127.0.0.1:2181")
    assert settings_of(made.brokers[0])["zookeeper.connect"] == "127.0.0.1:2181"


def test_plan_with_an_existing_coordinator_starts_none() -> None:
    made = plan([9092], zookeeper_connect="zoo:2181/kafka")
    assert made.coordinator is None
    assert [each.name for each in made.children] == ["broker-1"]
    assert made.connect == settings_of(made.brokers[0])["zookeeper.connect"] == "zoo:2181/kafka"


@pytest.mark.parametrize(
    ("brokers", "replicas", "least"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)]
)
def test_default_replication_factor_depends_on_the_number_of_brokers(
    brokers: int, replicas: int, least: int
) -> None:
    found = settings_of(plan([9092 + each for each in range(brokers)]).brokers[0])
    assert found["default.replication.factor"] == str(replicas)
    assert found["min.insync.replicas"] == str(least)


def test_overrides_take_precedence_over_the_defaults() -> None:
    found = settings_of(plan([9092], default_replication_factor="1", num_partitions="6").brokers[0])
    assert (found["default.replication.factor"], found["num.partitions"]) == ("1", "6")


def test_per_broker_keys_cannot_be_overridden() -> None:
    with pytest.raises(ValueError, match=r"broker\.id differs from broker to broker"):
        plan([9092], broker_id="7")


def test_ports_beyond_the_maximum_are_rejected() -> None:
    with pytest.raises(ValueError, match="choose a lower --port"):
        plan([65_535, 65_536])

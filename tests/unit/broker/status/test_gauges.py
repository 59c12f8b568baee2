"""Metrics of the broker with one value each: `broker.status.gauges`."""

import pytest

from broker.status.families import FAMILIES
from broker.status.gauges import BrokerState, Metrics
from coordination.server.metrics_page import COORDINATOR_FAMILIES
from monitoring.status_server import ends_turn


def test_a_snapshot_reads_every_gauge() -> None:
    metrics = Metrics()
    values = [1, 2]
    metrics.add_gauge("partitions", lambda: len(values))
    metrics.state = BrokerState.RUNNING
    values.append(3)
    assert metrics.snapshot() == {"broker_state": 3, "partitions": 3}


def test_gauges_and_counters_have_the_names_of_dashboards() -> None:
    metrics = Metrics()
    metrics.add_gauge("isr_shrinks", lambda: 2)
    first, second = filter(None, metrics.pieces())
    assert first.endswith("\nkafka_server_kafkaserver_brokerstate 0\n")
    assert second.endswith(
        "# TYPE kafka_server_replicamanager_isrshrinks_total counter\n"
        "kafka_server_replicamanager_isrshrinks_total 2\n"
    )


def test_other_work_runs_after_each_gauge() -> None:
    metrics = Metrics()
    metrics.add_gauge("partitions", lambda: 1)
    metrics.add_gauge("leader_count", lambda: 1)
    pieces = list(metrics.pieces())
    assert [ends_turn(each, len(each)) for each in pieces] == [False, True] * 3


def test_names_of_gauges_are_unique() -> None:
    metrics = Metrics()
    metrics.add_gauge("partitions", lambda: 1)
    with pytest.raises(AssertionError, match="duplicate gauge"):
        metrics.add_gauge("partitions", lambda: 2)


def test_a_gauge_needs_a_family() -> None:
    with pytest.raises(AssertionError, match="has no family"):
        Metrics().add_gauge("unheard_of", lambda: 1)


def test_families_are_named_once() -> None:
    names = [each.name for families in FAMILIES.values() for each in families]
    names += [each.name for each in COORDINATOR_FAMILIES]
    assert len(names) == len(set(names)) > 90

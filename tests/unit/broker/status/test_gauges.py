"""Metrics of the broker: `broker.status.gauges`."""

import pytest

from broker.status.gauges import BrokerState, Metrics


def test_a_snapshot_reads_every_gauge() -> None:
    metrics = Metrics()
    values = [1, 2]
    metrics.add_gauge("values", lambda: len(values))
    metrics.state = BrokerState.RUNNING
    values.append(3)
    assert metrics.snapshot() == {"broker_state": 3, "values": 3}


def test_names_of_gauges_are_unique() -> None:
    metrics = Metrics()
    metrics.add_gauge("a", lambda: 1)
    with pytest.raises(AssertionError, match="duplicate gauge"):
        metrics.add_gauge("a", lambda: 2)

"""Kafka's own tool moves our partitions with a throttle."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.errors import ErrorCode
from tests.integration.broker.broker_cluster import BrokerCluster
from tests.integration.broker.test_broker_configs import BROKER, TOPIC, described, shown
from tests.integration.broker.wire import batch
from tests.integration.coordination.process import Coordinator, kill_all
from tests.interop.kafka_jars import needs_jars, run_java

pytestmark = needs_jars

COMMAND = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokerCluster]:
    coordinator = Coordinator(tmp_path / "coordinator")
    try:
        with BrokerCluster(tmp_path, coordinator.address) as made:
            made.start(1, 2)
            yield made
    finally:
        kill_all([coordinator])


def test_a_move_is_throttled_until_it_is_verified(cluster: BrokerCluster, tmp_path: Path) -> None:
    cluster.create_topic("t", [[1]])
    with cluster.wire(1) as wire:
        for _ in range(60):
            assert wire.produce("t", batch(b"x" * 100_000)).error_code == ErrorCode.NONE
    plan = tmp_path / "plan.json"
    move = {"topic": "t", "partition": 0, "replicas": [2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    where = ("--bootstrap-server", cluster.brokers[1].bootstrap)
    which = ("--reassignment-json-file", str(plan))
    run_java(COMMAND, *where, *which, "--execute", "--throttle", "50000")
    with cluster.wire(1) as one, cluster.wire(2) as two:
        assert shown(one, TOPIC, "t", LEADERS)[0] == "0:1"
        assert shown(one, TOPIC, "t", FOLLOWERS)[0] == "0:2"
        for rate in RATES:
            assert shown(one, BROKER, "1", rate)[0] == "50000"
            assert shown(two, BROKER, "2", rate)[0] == "50000"
        assert cluster.leaders(2, "t") == [1], "six megabytes take two minutes at this rate"
        run_java(COMMAND, *where, *which, "--execute", "--additional", "--throttle", "50000000")
        cluster.until_in_sync("t", {2})
        assert "complete" in run_java(COMMAND, *where, *which, "--verify")
        assert shown(one, TOPIC, "t", LEADERS)[0] == ""
        assert not described(one, BROKER, "1", RATES)

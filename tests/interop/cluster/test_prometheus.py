"""The dashboard and the alert rules of docs/monitoring on a real Prometheus and a real cluster."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from broker.status.families import FAMILIES
from coordination.server.metrics_page import COORDINATOR_FAMILIES
from kafkawire.errors import ErrorCode
from tests.integration.broker.broker_cluster import BrokerCluster
from tests.integration.broker.test_quotas import alter, produce
from tests.integration.broker.test_status import get, port_of
from tests.integration.broker.wire import batch
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.cluster.prometheus import Prometheus, needs_prometheus
from tests.ports import free_port

pytestmark = needs_prometheus

DOCS = Path(__file__).resolve().parents[3] / "docs" / "monitoring"
DASHBOARD = json.loads((DOCS / "dashboard.json").read_text(encoding="utf-8"))
PANELS = [
    (panel["title"], target["expr"])
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", ())
]
COMPARISON = re.compile(r"\s(==|!=|<|>)\s[0-9.]+$")
VARIABLES = {"$__rate_interval": "1m", "$topic": ".*", "$group": ".*"}
TIMEOUT_S = 180.0
"""The machine may be busy."""
CLIENT = (("client-id", "slow"),)


@dataclass
class Watched:
    """A cluster with some traffic, and the Prometheus that scrapes it."""

    cluster: BrokerCluster
    ports: dict[int, int]
    coordinator_port: int
    prometheus: Prometheus


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    directory = tmp_path_factory.mktemp("watched")
    port = free_port()
    coordinator = Coordinator(directory / "coordinator", f"--metrics-listen=127.0.0.1:{port}")
    overrides = {"metrics.listener": "127.0.0.1:0", "offsets.topic.num.partitions": "5"}
    try:
        with BrokerCluster(directory, coordinator.address, overrides) as cluster:
            cluster.start(1, 2, 3)
            ports = {each: port_of(broker) for each, broker in cluster.brokers.items()}
            make_traffic(cluster)
            targets = {
                "ottla": [f"127.0.0.1:{each}" for each in ports.values()],
                "ottla-coordinator": [f"127.0.0.1:{port}"],
            }
            with Prometheus(directory, DOCS / "alerts.yaml", targets) as prometheus:
                # Rates need two scrapes of each target.
                scraped = "count_over_time(up[5m]) > 2"
                wait_until(lambda: len(prometheus.query(scraped)) == len(ports) + 1, TIMEOUT_S)
                yield Watched(cluster, ports, port, prometheus)
    finally:
        coordinator.kill()


def make_traffic(cluster: BrokerCluster) -> None:
    """Write and read records, fail a request, and give a client a quota."""
    cluster.create_topic("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    cluster.until_in_sync("t", {1, 2, 3}, {1, 2, 3}, {1, 2, 3})
    asyncio.run(write_and_read(",".join(each.bootstrap for each in cluster.brokers.values())))
    with cluster.wire(1) as wire:
        refused = wire.produce("t", batch(b"x"), partition=99)
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert alter(wire, CLIENT, producer_byte_rate=1e9)[0] == ErrorCode.NONE
        wait_until(lambda: produce(wire, "slow") == 0 and has_rate(cluster))


def has_rate(cluster: BrokerCluster) -> bool:
    return "kafka_server_produce_byte_rate{" in get(port_of(cluster.brokers[1]), "/metrics")[1]


async def write_and_read(bootstrap: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await producer.start()
    try:
        for number in range(60):
            await producer.send_and_wait("t", b"x" * 100, partition=number % 3)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(
        "t", bootstrap_servers=bootstrap, group_id="readers", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        seen = 0
        while seen < 60:
            seen += sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))
        await consumer.commit()
    finally:
        await consumer.stop()


def filled_in(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def series_counts(prometheus: Prometheus, queries: dict[str, str]) -> dict[str, int]:
    """Return the number of series of each query, once each has one."""
    counts = dict.fromkeys(queries, 0)

    def is_complete() -> bool:
        for name, expression in queries.items():
            counts[name] = counts[name] or len(prometheus.query(expression))
        return all(counts.values())

    try:
        wait_until(is_complete, TIMEOUT_S)
    except AssertionError:
        empty = {name: queries[name] for name, count in counts.items() if not count}
        raise AssertionError(f"no data: {empty}; targets: {prometheus.targets()}") from None
    return counts


def test_every_panel_of_the_dashboard_returns_data(watched: Watched) -> None:
    assert len(PANELS) > 50
    queries = {title: filled_in(expression) for title, expression in PANELS}
    assert len(queries) == len(PANELS), "titles are unique"
    for title, count in series_counts(watched.prometheus, queries).items():
        sys.stdout.write(f"{count:5} {title}\n")


def test_every_alert_rule_watches_series_that_exist(watched: Watched) -> None:
    wait_until(lambda: bool(watched.prometheus.rules()))
    rules = watched.prometheus.rules()
    assert len(rules) > 20
    assert all(COMPARISON.search(expression) for expression in rules.values())
    queries = {name: COMPARISON.sub("", expression) for name, expression in rules.items()}
    for name, count in series_counts(watched.prometheus, queries).items():
        sys.stdout.write(f"{count:5} {name}\n")


def test_lags_of_groups_count_unread_records(watched: Watched) -> None:
    """The leaders of two partitions are not the coordinator of the group."""
    query = 'kafka_consumergroup_lag{consumergroup="readers",topic="t"}'
    prometheus = watched.prometheus

    def lags() -> dict[str, int]:
        return {
            each["metric"]["partition"]: int(each["value"][1]) for each in prometheus.query(query)
        }

    wait_until(lambda: lags().keys() == {"0", "1", "2"}, TIMEOUT_S)
    before = lags()
    for broker_id in (1, 2, 3):
        with watched.cluster.wire(broker_id) as wire:
            wire.produce("t", batch(b"a", b"b"), partition=broker_id - 1)
    wait_until(lambda: lags() == {each: lag + 2 for each, lag in before.items()}, TIMEOUT_S)


def test_every_metric_of_the_pages_is_documented(watched: Watched) -> None:
    known = {each.name: each for families in FAMILIES.values() for each in families}
    known |= {each.name: each for each in COORDINATOR_FAMILIES}
    for port in (*watched.ports.values(), watched.coordinator_port):
        status, text = get(port, "/metrics")
        assert status == 200
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                assert known[name].kind == kind


def test_probes_answer(watched: Watched) -> None:
    for port in (*watched.ports.values(), watched.coordinator_port):
        assert get(port, "/healthz") == (200, "ok\n")
        assert get(port, "/readyz") == (200, "ok\n")


def test_a_dead_broker_raises_alerts(watched: Watched) -> None:
    """The last test of the module: it kills a broker."""
    watched.cluster.brokers[3].kill()
    wanted = {"OttlaBrokerDown", "OttlaUnderReplicatedPartitions"}

    def names() -> set[str]:
        return {each["labels"]["alertname"] for each in watched.prometheus.alerts()}

    wait_until(lambda: names() >= wanted, TIMEOUT_S)

"""Kafka 3.9 brokers and ours in one cluster, on our coordinator.

Each side is the controller once, and leads and follows partitions of the other. Replicas are
compared byte by byte; librdkafka writes and reads.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

import ottla
from kafkawire.ids import TopicPartition
from tests.harness.cluster import ClusterProcesses
from tests.harness.observer import Observer
from tests.harness.replica_files import differences
from tests.harness.workload import read_logs
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import START_TIMEOUT_S, KafkaBroker, kafka_jars_or_skip

THEIRS = 7
TOPIC = "t"
PARTITIONS = 6
RECORDS = 600
SETTLE_TIMEOUT_S = 60.0
PLACES = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    server = Coordinator(tmp_path / "shared-coordinator")
    yield server
    server.kill()


def start_theirs(directory: Path, coordinator: Coordinator) -> KafkaBroker:
    broker = KafkaBroker(
        THEIRS,
        directory,
        coordinator.address,
        kafka_jars_or_skip(),
        {"replica.lag.time.max.ms": "3000", "auto.create.topics.enable": "false"},
    )
    wait_until(broker.has_started, START_TIMEOUT_S)
    return broker


def ours(directory: Path, coordinator: Coordinator) -> ClusterProcesses:
    return ClusterProcesses(directory, broker_count=2, connect=coordinator.address)


async def test_kafka_follows_our_controller_and_then_takes_over(
    tmp_path: Path, coordinator: Coordinator
) -> None:
    with ours(tmp_path, coordinator) as cluster:
        theirs = await asyncio.to_thread(start_theirs, tmp_path, coordinator)
        try:
            async with Observer(coordinator.address) as observer:
                assert await observer.wait_for_controller() in cluster.numbers
                await run_together(cluster, theirs, observer, stopped_first=[1, 2])
                assert await observer.wait_for_controller() == THEIRS
        finally:
            theirs.kill()


async def test_our_brokers_follow_kafkas_controller_and_then_take_over(
    tmp_path: Path, coordinator: Coordinator
) -> None:
    theirs = await asyncio.to_thread(start_theirs, tmp_path, coordinator)
    try:
        with ours(tmp_path, coordinator) as cluster:
            async with Observer(coordinator.address) as observer:
                assert await observer.wait_for_controller() == THEIRS
                await run_together(cluster, theirs, observer, stopped_first=[THEIRS])
                assert await observer.wait_for_controller() in cluster.numbers
    finally:
        theirs.kill()


async def run_together(
    cluster: ClusterProcesses, theirs: KafkaBroker, observer: Observer, stopped_first: list[int]
) -> None:
    """Create, write, kill the brokers in `stopped_first`, write, restart them, compare."""
    bootstrap = f"{cluster.bootstrap},{theirs.address}"
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topics([ottla.NewTopic(TOPIC, PARTITIONS, 3)])
    await observer.wait_until_whole(3, SETTLE_TIMEOUT_S)
    leaders = {state.leader for state in (await observer.partitions()).values()}
    assert leaders == {1, 2, THEIRS}, "each broker leads some partitions"
    await asyncio.to_thread(write, bootstrap, 0)
    for number in stopped_first:
        await asyncio.to_thread(kill, cluster, theirs, number)
    left = {1, 2, THEIRS} - set(stopped_first)
    await observer.wait_for(
        observer.partitions,
        lambda them: all(state.leader in left for state in them.values()),
        SETTLE_TIMEOUT_S,
    )
    controller = await observer.wait_for_controller()
    assert controller in left
    await asyncio.to_thread(write, bootstrap, RECORDS)
    for number in stopped_first:
        await asyncio.to_thread(start, cluster, theirs, number)
    await observer.wait_until_whole(3, SETTLE_TIMEOUT_S)
    await asyncio.to_thread(write, bootstrap, 2 * RECORDS)
    await observer.wait_until_whole(3, SETTLE_TIMEOUT_S)
    logs = await asyncio.to_thread(read_logs, bootstrap, dict.fromkeys(PLACES, 3 * RECORDS))
    for where in PLACES:
        assert [seen.value for seen in logs[where]] == [value(n) for n in range(3 * RECORDS)]
        directories = {number: cluster.log_directory(number) for number in cluster.numbers}
        directories[THEIRS] = theirs.log_directory
        assert differences(directories, where, 3 * RECORDS) == []


def kill(cluster: ClusterProcesses, theirs: KafkaBroker, number: int) -> None:
    if number == THEIRS:
        theirs.kill()
    else:
        cluster.kill(number)


def start(cluster: ClusterProcesses, theirs: KafkaBroker, number: int) -> None:
    if number == THEIRS:
        theirs.start()
    else:
        cluster.start_brokers(number)


def write(bootstrap: str, begin: int) -> None:
    """Write RECORDS records to each partition with acks=all."""
    failures: list[object] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "max.in.flight.requests.per.connection": 1,
            "message.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    for number in range(begin, begin + RECORDS):
        for where in PLACES:
            producer.produce(
                where.topic,
                value(number),
                partition=where.partition,
                on_delivery=lambda error, _message: failures.append(error) if error else None,
            )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failures == []


def value(number: int) -> bytes:
    return b"%d" % number

"""Kafka 3.9.1 and our broker, one after the other, on the same log directory.

Needs java and Kafka's jars.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kazoo.client import KazooClient  # type: ignore[import-untyped]

from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from tests.conftest import StartBroker
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import START_TIMEOUT_S, KafkaBroker, kafka_jars_or_skip

TOPIC = "t"
PARTITIONS = 2
RECORDS = 5_000
MORE = 300
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_TIMEOUT_S = 30.0


class Row(NamedTuple):
    """A record as any client sees it."""

    partition: int
    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    coordinator = Coordinator(tmp_path / "coordinator")
    yield coordinator
    coordinator.kill()


@pytest.fixture
def kafka(tmp_path: Path, coordinator: Coordinator) -> Iterator[KafkaBroker]:
    jars = kafka_jars_or_skip()
    broker = KafkaBroker(1, tmp_path, coordinator.address, jars)
    wait_until(broker.has_started, START_TIMEOUT_S)
    yield broker
    broker.kill()


def produce(address: str, count: int, name: str) -> None:
    """Produce to both partitions, in every codec."""
    for codec in CODECS:
        settings = {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 2}
        producer = Producer(settings | {"batch.size": 4_000})
        for number in range(count // len(CODECS)):
            value = b"%s %s %d" % (name.encode(), codec.encode(), number)
            producer.produce(TOPIC, value * 5, key=b"%d" % (number % 50))
            producer.poll(0)
        assert producer.flush(READ_TIMEOUT_S) == 0


def has_leaders(address: str) -> bool:
    topics = AdminClient({"bootstrap.servers": address}).list_topics(timeout=READ_TIMEOUT_S).topics
    partitions = topics[TOPIC].partitions.values() if TOPIC in topics else ()
    return len(partitions) == PARTITIONS and all(each.leader >= 0 for each in partitions)


def has_session_ended(coordinator: Coordinator) -> bool:
    """Whether the session of a killed broker has ended, so that its id is free."""
    client = KazooClient(hosts=coordinator.address)
    client.start()
    try:
        return client.exists("/brokers/ids/1") is None
    finally:
        client.stop()
        client.close()


def read_all(address: str) -> list[Row]:
    """Return all records, sorted by partition and offset."""
    settings = {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer(settings)
    ends = {}
    for partition in range(PARTITIONS):
        place = TopicPartition(TOPIC, partition, 0)
        ends[partition] = consumer.get_watermark_offsets(place, timeout=READ_TIMEOUT_S)[1]
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in ends])
    rows: list[Row] = []
    while len(rows) < sum(ends.values()):
        message = consumer.poll(READ_TIMEOUT_S)
        assert message is not None, f"only {len(rows)} records of {ends} arrived"
        assert message.error() is None, message.error()
        rows.append(_row(message))
    consumer.close()
    return sorted(rows)


def _row(message: Message) -> Row:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return Row(partition, offset, message.timestamp(), message.key(), message.value())


@pytest.mark.parametrize("is_orderly", [True, False], ids=["stopped", "killed"])
def test_each_broker_opens_the_directory_of_the_other(
    coordinator: Coordinator, kafka: KafkaBroker, start_broker: StartBroker, is_orderly: bool
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.address})
    config = {"segment.bytes": "100000", "index.interval.bytes": "1000"}
    topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1, config=config)
    admin.create_topics([topic])[TOPIC].result(READ_TIMEOUT_S)
    produce(kafka.address, RECORDS, "Kafka's")
    written = read_all(kafka.address)
    assert len(written) == RECORDS
    if is_orderly:
        kafka.stop()
    else:
        kafka.kill()
        wait_until(lambda: has_session_ended(coordinator), START_TIMEOUT_S)

    # In the same cluster, as the metadata of the log directory requires.
    overrides = {"broker.id": "1", "zookeeper.connect": coordinator.address}
    ours = start_broker(kafka.log_directory, overrides=overrides)
    address = f"127.0.0.1:{ours.port}"
    wait_until(lambda: has_leaders(address), START_TIMEOUT_S)
    assert read_all(address) == written
    produce(address, MORE, "ours")
    both = read_all(address)
    assert len(both) == RECORDS + MORE
    assert set(written) < set(both)
    if is_orderly:
        assert ours.stop() == 0
        found = [
            finding
            for result in verify_directories(
                [kafka.log_directory], VerifyOptions(with_records=True)
            )
            for finding in result.findings
        ]
        assert found == []
    else:
        ours.kill()

    kafka.start()
    wait_until(kafka.has_started, START_TIMEOUT_S)
    wait_until(lambda: has_leaders(kafka.address), START_TIMEOUT_S)
    assert read_all(kafka.address) == both
    produce(kafka.address, MORE, "Kafka's again")
    assert len(read_all(kafka.address)) == RECORDS + 2 * MORE

"""Logs of Kafka 3.9 with committed, aborted and open transactions, read from our brokers.

Four clients and Java's read the same records at both isolation levels as from Kafka itself: from a
log directory that our broker takes over, even after a crash that lost the indexes and after a
cleaning, and from a follower of Kafka that became leader. Needs java and Kafka's jars.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

import ottla
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from storage.segment.transaction_index import read_aborted
from tests.conftest import StartBroker
from tests.harness.cluster import ClusterProcesses
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import START_TIMEOUT_S, KafkaBroker, kafka_jars_or_skip
from tests.interop.transactions.readers import PARTITIONS, Level, Row, agreed, ends_of, read_all

# kafka-python loads its schemas with a deprecated function of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")

SETTLE_TIMEOUT_S = 60.0
ROUNDS = 24
KEYS = 17
SEGMENT_BYTES = 8_000
PLAIN, COMPACTED = "plain", "compacted"
TOPICS = (PLAIN, COMPACTED)
THEIRS = 7
KAFKA = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "log.cleaner.enable": "false",
    "auto.create.topics.enable": "false",
}


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    server = Coordinator(tmp_path / "shared-coordinator")
    yield server
    server.kill()


def start_kafka(number: int, directory: Path, coordinator: Coordinator) -> KafkaBroker:
    broker = KafkaBroker(number, directory, coordinator.address, kafka_jars_or_skip(), KAFKA)
    wait_until(broker.has_started, START_TIMEOUT_S)
    return broker


class Writer:
    """Writes transactions and plain records; `opened` ones stay open while this object exists."""

    def __init__(self, address: str, topics: tuple[str, ...]) -> None:
        self._address = address
        self._topics = topics
        self._number = 0
        self.opened: list[Producer] = []

    def producer(self, name: str | None = None) -> Producer:
        settings: dict[str, str | int] = {"bootstrap.servers": self._address, "linger.ms": 0}
        if name is not None:
            settings |= {"transactional.id": name, "transaction.timeout.ms": 900_000}
        made = Producer(settings)
        if name is not None:
            made.init_transactions(SETTLE_TIMEOUT_S)
        return made

    def send(self, producer: Producer, kind: str, count: int = 3) -> None:
        for topic in self._topics:
            for partition in range(PARTITIONS):
                for _ in range(count):
                    self._number += 1
                    value = f"{kind} {self._number} {'x' * 60}"
                    key = b"%d" % (self._number % KEYS)
                    producer.produce(topic, value.encode(), key=key, partition=partition)
        assert producer.flush(SETTLE_TIMEOUT_S) == 0

    def write_everything(self) -> None:
        """Write overlapping transactions; every third is aborted, and the last one stays open."""
        plain = self.producer()
        first, second = self.producer("first"), self.producer("second")
        long = self.producer("long")
        for number in range(ROUNDS):
            if number % 8 == 0:
                long.begin_transaction()
                self.send(long, "aborted")
            first.begin_transaction()
            second.begin_transaction()
            is_aborted = number % 3 == 0
            self.send(first, "aborted" if is_aborted else "committed")
            self.send(plain, "plain", 1)
            self.send(second, "committed" if is_aborted else "aborted")
            self.send(first, "aborted" if is_aborted else "committed", 1)
            for producer, is_given_up in ((first, is_aborted), (second, not is_aborted)):
                end = producer.abort_transaction if is_given_up else producer.commit_transaction
                end(SETTLE_TIMEOUT_S)
            if number % 8 == 5:
                long.abort_transaction(SETTLE_TIMEOUT_S)
        never_ends = self.producer("open")
        never_ends.begin_transaction()
        self.send(never_ends, "open")
        self.send(plain, "plain")
        self.opened.append(never_ends)


def checked(address: str, topics: tuple[str, ...]) -> dict[Level, tuple[Row, ...]]:
    """Return the records that all clients agree on, after checking their kinds."""
    rows = agreed(read_all(address, topics))
    expected: dict[Level, set[str]] = {
        "read_committed": {"committed", "plain"},
        "read_uncommitted": {"committed", "plain", "aborted", "open"},
    }
    for level, kinds in expected.items():
        found = {row.value.split()[0].decode() for row in rows[level]}
        assert found == kinds
    return rows


def latest_by_key(rows: tuple[Row, ...]) -> dict[tuple[str, int, bytes], Row]:
    return {(row.topic, row.partition, row.key): row for row in sorted(rows)}


def has_leaders(address: str, count: int) -> bool:
    topics = AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).topics
    leaders = [each.leader for name in TOPICS for each in topics[name].partitions.values()]
    return len(leaders) == count and all(leader >= 0 for leader in leaders)


def lose_indexes(directory: Path) -> None:
    for suffix in ("index", "timeindex", "txnindex"):
        for topic in TOPICS:
            for path in directory.glob(f"{topic}-*/*.{suffix}"):
                path.unlink()


def indexes_of(directory: Path) -> dict[str, bytes]:
    """Return the transaction indexes of a broker by partition, joined over the segments."""
    return {
        f"{topic}-{partition}": b"".join(
            path.read_bytes() for path in sorted(directory.glob(f"{topic}-{partition}/*.txnindex"))
        )
        for topic in TOPICS
        for partition in range(PARTITIONS)
    }


def is_cleaned(directory: Path) -> bool:
    path = directory / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    cleaned = {tuple(line.split()[:2]) for line in lines if int(line.split()[2]) > 0}
    return cleaned >= {(COMPACTED, str(number)) for number in range(PARTITIONS)}


def test_a_log_directory_of_kafka_reads_the_same_from_our_broker(
    tmp_path: Path, coordinator: Coordinator, start_broker: StartBroker
) -> None:
    kafka = start_kafka(1, tmp_path, coordinator)
    directory = kafka.log_directory
    try:
        config = {"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "500"}
        compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        topics = [
            NewTopic(PLAIN, PARTITIONS, 1, config=config),
            NewTopic(COMPACTED, PARTITIONS, 1, config=config | compact),
        ]
        admin = AdminClient({"bootstrap.servers": kafka.address})
        for created in admin.create_topics(topics).values():
            created.result(SETTLE_TIMEOUT_S)
        writer = Writer(kafka.address, TOPICS)
        writer.write_everything()
        theirs = checked(kafka.address, TOPICS)
        kafka.stop()
    finally:
        kafka.kill()
    indexes = indexes_of(directory)
    assert all(indexes.values())

    overrides = {
        "broker.id": "1",
        "zookeeper.connect": coordinator.address,
        "log.cleaner.enable": "false",
    }
    ours = start_broker(directory, overrides=overrides)
    address = f"127.0.0.1:{ours.port}"
    wait_until(lambda: has_leaders(address, 2 * PARTITIONS), START_TIMEOUT_S)
    assert checked(address, TOPICS) == theirs
    assert ours.stop() == 0
    assert indexes_of(directory) == indexes

    ours = start_broker(directory, overrides=overrides)
    address = f"127.0.0.1:{ours.port}"
    wait_until(lambda: has_leaders(address, 2 * PARTITIONS), START_TIMEOUT_S)
    assert checked(address, TOPICS) == theirs
    ours.kill()
    lose_indexes(directory)

    ours = start_broker(directory, overrides=overrides)
    address = f"127.0.0.1:{ours.port}"
    wait_until(lambda: has_leaders(address, 2 * PARTITIONS), START_TIMEOUT_S)
    assert checked(address, TOPICS) == theirs
    assert ours.stop() == 0
    assert indexes_of(directory) == indexes

    cleaning = {"log.cleaner.enable": "true", "log.cleaner.backoff.ms": "200"}
    ours = start_broker(directory, overrides=overrides | cleaning)
    address = f"127.0.0.1:{ours.port}"
    wait_until(lambda: has_leaders(address, 2 * PARTITIONS), START_TIMEOUT_S)
    wait_until(lambda: is_cleaned(directory), START_TIMEOUT_S)
    cleaned = agreed(read_all(address, TOPICS))
    assert latest_by_key(cleaned["read_committed"]) == latest_by_key(theirs["read_committed"])
    for level, rows in cleaned.items():
        assert set(rows) < set(theirs[level]), "compaction only removes records"
        assert _of(PLAIN, rows) == _of(PLAIN, theirs[level])
    stable = ends_of(address, "read_committed", TOPICS)
    for row in theirs["read_uncommitted"]:
        if row.offset >= stable[ottla.TopicPartition(row.topic, row.partition)]:
            assert row in cleaned["read_uncommitted"], "the cleaner stops at the open transaction"
    assert ours.stop() == 0
    found = [
        finding
        for result in verify_directories([directory], VerifyOptions(with_records=True))
        for finding in result.findings
    ]
    assert found == []


def _of(topic: str, rows: tuple[Row, ...]) -> list[Row]:
    return [row for row in rows if row.topic == topic]


def test_a_follower_of_kafka_serves_the_same_records_as_leader(
    tmp_path: Path, coordinator: Coordinator
) -> None:
    kafka = start_kafka(THEIRS, tmp_path, coordinator)
    # The transaction coordinator must be Kafka's: its topic is created while Kafka is alone.
    Writer(kafka.address, ()).producer("warms up")
    try:
        with ClusterProcesses(tmp_path, broker_count=1, connect=coordinator.address) as cluster:
            admin = AdminClient({"bootstrap.servers": kafka.address})
            config = {"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "500"}
            replicas = [[THEIRS, 1]] * PARTITIONS
            topics = [
                NewTopic(name, PARTITIONS, replica_assignment=replicas, config=config)
                for name in TOPICS
            ]
            wait_until(lambda: len(admin.list_topics(timeout=30).brokers) == 2, START_TIMEOUT_S)
            for created in admin.create_topics(topics).values():
                created.result(SETTLE_TIMEOUT_S)
            writer = Writer(kafka.address, TOPICS)
            writer.write_everything()
            theirs = checked(kafka.address, TOPICS)
            kafka.kill()
            address = cluster.bootstrap
            wait_until(lambda: has_leaders(address, 2 * PARTITIONS), START_TIMEOUT_S)
            assert checked(address, TOPICS) == theirs
            indexes = indexes_of(kafka.log_directory)
            assert all(indexes.values())
            assert {
                name: read_aborted(data)
                for name, data in indexes_of(cluster.log_directory(1)).items()
            } == {name: read_aborted(data) for name, data in indexes.items()}
            cluster.kill(1)
            lose_indexes(cluster.log_directory(1))
            cluster.start_brokers(1)
            wait_until(lambda: has_leaders(address, 2 * PARTITIONS), START_TIMEOUT_S)
            assert checked(address, TOPICS) == theirs
    finally:
        kafka.kill()

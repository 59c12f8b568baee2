"""A broker of Kafka takes over our transaction log and coordinator, and ours takes them back."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

import ottla
from kafkawire.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.harness.cluster import ClusterProcesses
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import KafkaBroker, kafka_jars_or_skip
from tests.interop.transactions.readers import agreed, read_all

OURS, THEIRS = 1, 7
TOPIC, GROUP = "t", "g"
TIMEOUT_S = 120.0
ONE_PARTITION = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "auto.create.topics.enable": "false",
}


class Pair:
    """One broker of ours and one of Kafka, which follow each other in every partition."""

    def __init__(self, cluster: ClusterProcesses, theirs: KafkaBroker) -> None:
        self.cluster, self.theirs = cluster, theirs
        self.bootstrap = f"{cluster.bootstrap},{theirs.address}"

    async def create_topics(self) -> None:
        async with ottla.Admin(self.bootstrap) as admin:
            compacted = {"cleanup.policy": "compact"}
            replicas = {0: (OURS, THEIRS)}
            await admin.create_topics(
                [
                    ottla.NewTopic(TRANSACTIONS_TOPIC, assignment=replicas, configs=compacted),
                    ottla.NewTopic(OFFSETS_TOPIC, assignment=replicas, configs=compacted),
                    ottla.NewTopic(TOPIC, assignment={**replicas, 1: (OURS, THEIRS)}),
                ]
            )

    def wait_until_in_sync(self, *brokers: int) -> None:
        """Wait until the in-sync set of every partition is these brokers, led by the first."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

        def is_reached() -> bool:
            topics = admin.list_topics(timeout=30).topics
            return {TRANSACTIONS_TOPIC, OFFSETS_TOPIC, TOPIC} <= set(topics) and all(
                partition.leader == brokers[0] and set(partition.isrs) == set(brokers)
                for topic in (TRANSACTIONS_TOPIC, OFFSETS_TOPIC, TOPIC)
                for partition in topics[topic].partitions.values()
            )

        wait_until(is_reached, TIMEOUT_S)

    def producer(self, transactional_id: str) -> confluent_kafka.Producer:
        """Return a producer that is ready for its first transaction."""
        made = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": 600_000,
                "log_level": 0,
            }
        )
        made.init_transactions(TIMEOUT_S)
        return made

    def states(self) -> dict[str, tuple[int, str]]:
        """Return the coordinator and state of each transactional id."""

        async def ask() -> dict[str, tuple[int, str]]:
            async with ottla.Admin(self.bootstrap) as admin:
                listed = await admin.list_transactions()
                return {each.transactional_id: (each.coordinator_id, each.state) for each in listed}

        return asyncio.run(ask())

    @contextmanager
    def consumer(self) -> Iterator[confluent_kafka.Consumer]:
        """A consumer of the group, which joins nothing."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": GROUP, "log_level": 0}
        consumer = confluent_kafka.Consumer(settings)
        try:
            yield consumer
        finally:
            consumer.close()

    def produce_offset(self, producer: confluent_kafka.Producer, offset: int) -> None:
        """Add an offset of the group to the transaction."""
        place = confluent_kafka.TopicPartition(TOPIC, 0, offset)
        with self.consumer() as consumer:
            group = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction([place], group, TIMEOUT_S)

    def committed_offset(self) -> int:
        with self.consumer() as consumer:
            [found] = consumer.committed([confluent_kafka.TopicPartition(TOPIC, 0)], TIMEOUT_S)
            return int(found.offset)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        coordinator = Coordinator(tmp_path / "coordinator")
        stack.callback(coordinator.kill)
        settings = dict(ONE_PARTITION)
        jars = kafka_jars_or_skip()
        theirs = KafkaBroker(THEIRS, tmp_path, coordinator.address, jars, settings)
        stack.callback(theirs.kill)
        cluster = stack.enter_context(
            ClusterProcesses(
                tmp_path, broker_count=1, connect=coordinator.address, overrides=settings
            )
        )
        wait_until(theirs.has_started, TIMEOUT_S)
        yield Pair(cluster, theirs)


def produce(producer: confluent_kafka.Producer, name: str) -> None:
    """Begin a transaction with a record in each partition."""
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce(TOPIC, f"{name}-{partition}".encode(), key=b"", partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def test_kafka_takes_over_and_gives_back(pair: Pair) -> None:
    asyncio.run(pair.create_topics())
    pair.wait_until_in_sync(OURS, THEIRS)
    done, left, given_up = (pair.producer(name) for name in ("done", "left", "given up"))
    produce(done, "done")
    pair.produce_offset(done, 1)
    done.commit_transaction(TIMEOUT_S)
    assert pair.committed_offset() == 1
    produce(given_up, "given-up")
    given_up.abort_transaction(TIMEOUT_S)
    produce(left, "left")
    pair.produce_offset(left, 2)
    assert pair.states() == {
        "done": (OURS, "CompleteCommit"),
        "given up": (OURS, "CompleteAbort"),
        "left": (OURS, "Ongoing"),
    }

    pair.cluster.kill(OURS)
    pair.wait_until_in_sync(THEIRS)
    # Kafka knows the open transaction from our log, and ends it in partitions that it now leads.
    assert pair.states()["left"] == (THEIRS, "Ongoing")
    left.commit_transaction(TIMEOUT_S)
    assert pair.committed_offset() == 2
    produce(done, "again")
    done.commit_transaction(TIMEOUT_S)
    # A newer producer fences the one that our coordinator knew.
    successor = pair.producer("given up")
    produce(successor, "successor")
    given_up.begin_transaction()
    given_up.produce(TOPIC, b"fenced", partition=0)
    with pytest.raises(confluent_kafka.KafkaException) as fenced:
        given_up.commit_transaction(TIMEOUT_S)
    assert fenced.value.args[0].fatal()

    pair.cluster.start_brokers(OURS)
    pair.wait_until_in_sync(THEIRS, OURS)
    pair.theirs.kill()
    pair.wait_until_in_sync(OURS)
    # We know it from Kafka's records behind ours.
    assert pair.states() == {
        "done": (OURS, "CompleteCommit"),
        "given up": (OURS, "Ongoing"),
        "left": (OURS, "CompleteCommit"),
    }
    pair.produce_offset(successor, 3)
    successor.commit_transaction(TIMEOUT_S)
    assert pair.committed_offset() == 3
    produce(left, "last")
    left.abort_transaction(TIMEOUT_S)
    rows = agreed(read_all(pair.cluster.bootstrap, [TOPIC]))
    for partition in (0, 1):
        values = [
            row.value.decode() for row in rows["read_committed"] if row.partition == partition
        ]
        names = ["done", "left", "again", "successor"]
        assert values == [f"{name}-{partition}" for name in names]
    found = {row.value for row in rows["read_uncommitted"]}
    assert {b"given-up-0", b"last-1"} <= found

"""A Kafka 3.9 broker coordinates transactions while ours leads the partitions, and the reverse.

The requests of the producer are the test's own, so that it can stop between any two of them.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka
import pytest

import ottla
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafkawire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopic,
)
from kafkawire.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.harness.cluster import ClusterProcesses
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import Coordinator, wait_until
from tests.interop.kafka_broker import START_TIMEOUT_S, KafkaBroker, kafka_jars_or_skip
from tests.interop.kafka_jars import run_java
from tests.interop.transactions.readers import Level
from tests.unit.storage.produced_batches import produced

THEIRS, OURS = 7, 1
TOPIC, ID, GROUP = "t", "id", "g"
JAVA_COPIER = Path(__file__).with_name("CopyInTransactions.java")
SETTLE_TIMEOUT_S = 60.0
WAITING = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[ClusterProcesses, KafkaBroker]]:
    with ExitStack() as stack:
        coordinator = Coordinator(tmp_path / "coordinator")
        stack.callback(coordinator.kill)
        theirs = KafkaBroker(
            THEIRS,
            tmp_path,
            coordinator.address,
            kafka_jars_or_skip(),
            {
                "transaction.state.log.num.partitions": "1",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.min.isr": "1",
                "auto.create.topics.enable": "false",
                "offsets.topic.num.partitions": "1",
            },
        )
        stack.callback(theirs.kill)
        wait_until(theirs.has_started, START_TIMEOUT_S)
        cluster = stack.enter_context(
            ClusterProcesses(
                tmp_path,
                broker_count=1,
                connect=coordinator.address,
                overrides={"offsets.topic.num.partitions": "1"},
            )
        )
        yield cluster, theirs


async def create_topics(bootstrap: str, transactions: int = THEIRS, offsets: int = OURS) -> None:
    compacted = {"cleanup.policy": "compact"}
    topics = [
        ottla.NewTopic(TRANSACTIONS_TOPIC, assignment={0: (transactions,)}, configs=compacted),
        ottla.NewTopic(OFFSETS_TOPIC, assignment={0: (offsets,)}, configs=compacted),
        ottla.NewTopic(TOPIC, assignment={0: (OURS,)}),
    ]
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topics(topics)


class Transactions:
    """A producer, between the coordinator of its transactions and the leader."""

    def __init__(self, theirs: Wire, ours: Wire) -> None:
        self.theirs, self.ours = theirs, ours
        self.producer_id = self.epoch = self.sequence = 0

    def begin(self) -> None:
        """Get a producer id, after the coordinator has ended earlier transactions."""
        response = InitProducerIdResponse()

        def is_ready() -> bool:
            nonlocal response
            response = self.theirs.ask(
                ApiKey.INIT_PRODUCER_ID,
                4,
                InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000),
                InitProducerIdResponse,
            )
            assert not response.error_code or response.error_code in WAITING
            return not response.error_code

        wait_until(is_ready, SETTLE_TIMEOUT_S)
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        self.sequence = 0

    def add_partition(self) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )

        def is_added() -> bool:
            response = self.theirs.ask(
                ApiKey.ADD_PARTITIONS_TO_TXN, 3, request, AddPartitionsToTxnResponse
            )
            [topic] = response.results_by_topic_v3_and_below
            code = topic.results_by_partition[0].partition_error_code
            assert not code or code in WAITING
            return not code

        wait_until(is_added, SETTLE_TIMEOUT_S)

    def add_offsets(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=ID,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=GROUP,
        )
        response = self.theirs.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, request, AddOffsetsToTxnResponse)
        assert response.error_code == ErrorCode.NONE

    def produce(self) -> int:
        batch = produced(
            self.producer_id, self.sequence, 2, epoch=self.epoch, is_transactional=True
        )
        code = self.ours.produce(TOPIC, bytes(batch), transactional_id=ID).error_code
        self.sequence += 2 if code == ErrorCode.NONE else 0
        return code

    def check_refused(self) -> None:
        """Check that a batch before AddPartitionsToTxn is refused, also if it is retried."""

        def is_final() -> bool:
            code = self.produce()
            # The coordinator may not have finished the transaction before.
            assert code in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_TXN_STATE)
            return code == ErrorCode.INVALID_TXN_STATE

        wait_until(is_final, SETTLE_TIMEOUT_S)

    def commit_offset(self, offset: int) -> int:
        request = TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=GROUP,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        response = self.ours.ask(ApiKey.TXN_OFFSET_COMMIT, 3, request, TxnOffsetCommitResponse)
        return response.topics[0].partitions[0].error_code

    def end(self, *, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        response = self.theirs.ask(ApiKey.END_TXN, 3, request, EndTxnResponse)
        assert response.error_code == ErrorCode.NONE

    @property
    def is_decided(self) -> bool:
        """Whether no transaction is open at the leader."""
        data = self.ours.fetch(TOPIC, 0)
        return data.last_stable_offset == data.high_watermark

    def wait_until_decided(self) -> None:
        """Wait until the leader has all markers."""
        wait_until(lambda: self.is_decided, SETTLE_TIMEOUT_S)

    def committed(self) -> int | ErrorCode:
        wanted = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])], require_stable=True
        )
        response = self.ours.ask(ApiKey.OFFSET_FETCH, 8, request, OffsetFetchResponse)
        [partition] = response.groups[0].topics[0].partitions
        code = partition.error_code
        return ErrorCode(code) if code else partition.committed_offset

    def wait_for_group(self) -> None:
        """Wait until the group coordinator answers."""

        def is_ready() -> bool:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP)])
            response = self.ours.ask(ApiKey.OFFSET_FETCH, 8, request, OffsetFetchResponse)
            return response.groups[0].error_code == ErrorCode.NONE

        wait_until(is_ready, SETTLE_TIMEOUT_S)

    def wait_for_offset(self, offset: int | ErrorCode) -> None:
        """Wait until the group has this committed offset."""
        wait_until(lambda: self.committed() == offset, SETTLE_TIMEOUT_S)

    def open_transactions(self) -> list[int]:
        """Return the first offsets of open transactions, as the leader describes them."""
        topic = DescribeProducersTopic(name=TOPIC, partition_indexes=[0])
        request = DescribeProducersRequest(topics=[topic])
        response = self.ours.ask(ApiKey.DESCRIBE_PRODUCERS, 0, request, DescribeProducersResponse)
        return [
            each.current_txn_start_offset
            for each in response.topics[0].partitions[0].active_producers
            if each.current_txn_start_offset >= 0
        ]


def test_transactions_of_kafkas_coordinator_in_our_partitions(
    brokers: tuple[ClusterProcesses, KafkaBroker],
) -> None:
    cluster, theirs = brokers
    asyncio.run(create_topics(f"{cluster.bootstrap},{theirs.address}"))
    with Wire(theirs.port) as their_wire, Wire(cluster.ports[OURS]) as our_wire:
        each = Transactions(their_wire, our_wire)
        each.wait_for_group()
        each.begin()
        committed: int | ErrorCode = -1
        for number, is_commit in enumerate([True, False, True, False]):
            each.check_refused()
            each.add_partition()
            assert each.produce() == ErrorCode.NONE
            assert each.produce() == ErrorCode.NONE
            assert each.commit_offset(number) == ErrorCode.INVALID_TXN_STATE
            each.add_offsets()
            assert each.commit_offset(0) == ErrorCode.NONE
            assert each.commit_offset(number) == ErrorCode.NONE
            assert not each.is_decided
            assert each.open_transactions() == [5 * number]
            assert each.committed() is ErrorCode.UNSTABLE_OFFSET_COMMIT
            each.end(is_commit=is_commit)
            each.wait_until_decided()
            committed = number if is_commit else committed
            each.wait_for_offset(committed)
            assert each.open_transactions() == []
        # A newer producer fences this one, whose open transaction is aborted.
        each.add_partition()
        assert each.produce() == ErrorCode.NONE
        old_epoch = each.epoch
        each.begin()
        assert each.epoch > old_epoch
        assert each.is_decided
        each.epoch, each.sequence = old_epoch, 18
        assert each.produce() == ErrorCode.INVALID_PRODUCER_EPOCH
        # From the first marker on: the log has rolled there, as the records are of another year.
        data = our_wire.fetch(TOPIC, 4, isolation_level=1)
        assert data.aborted_transactions is not None
        assert [each.first_offset for each in data.aborted_transactions] == [5, 15, 20]
    assert asyncio.run(read_committed(cluster.bootstrap)) == [0, 1, 2, 3, 10, 11, 12, 13]


def test_open_transaction_survives_the_death_of_our_leader(
    brokers: tuple[ClusterProcesses, KafkaBroker],
) -> None:
    """Kafka decides while our broker is dead, and sends its markers once that is back."""
    cluster, theirs = brokers
    asyncio.run(create_topics(f"{cluster.bootstrap},{theirs.address}"))
    with Wire(theirs.port) as their_wire:
        for round_number, is_commit in enumerate((True, False)):
            with Wire(cluster.ports[OURS]) as our_wire:
                each = Transactions(their_wire, our_wire)
                each.wait_for_group()
                each.begin()
                each.add_partition()
                assert each.produce() == ErrorCode.NONE
                each.add_offsets()
                assert each.commit_offset(round_number + 5) == ErrorCode.NONE
            cluster.kill(OURS)
            each.end(is_commit=is_commit)
            cluster.start_brokers(OURS)
            with Wire(cluster.ports[OURS]) as our_wire:
                each.ours = our_wire
                each.wait_for_group()
                each.wait_for_offset(5)
                each.wait_until_decided()
                assert each.open_transactions() == []
    assert asyncio.run(read_committed(cluster.bootstrap)) == [0, 1]


SOURCE, TARGET = "source", "target"
COUNT = 60


async def create_copied_topics(bootstrap: str, leader: int = OURS) -> None:
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topics(
            [ottla.NewTopic(name, assignment={0: (leader,)}) for name in (SOURCE, TARGET)]
        )
    async with ottla.Producer(bootstrap) as producer:
        for number in range(COUNT):
            await producer.send(SOURCE, str(number).encode(), key=b"key")


async def values(bootstrap: str, topic: str, level: Level) -> list[bytes]:
    async with ottla.Consumer(
        bootstrap, isolation_level=level, auto_offset_reset="earliest"
    ) as consumer:
        places = await consumer.assign_topics(topic)
        end = (await consumer.end_offsets(places))[places[0]]
        found: list[bytes] = []
        while (consumer.position(places[0]) or 0) < end:
            found += [each.value or b"" for each in await consumer.fetch_batch(timeout_ms=100)]
        return found


def copy_with_librdkafka(bootstrap: str) -> None:
    """Copy in transactions of a few records; every third is aborted, and read again."""
    shared = {"bootstrap.servers": bootstrap, "log_level": 0}
    consumer = confluent_kafka.Consumer(
        {
            **shared,
            "group.id": "librdkafka",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    producer = confluent_kafka.Producer({**shared, "transactional.id": "librdkafka"})
    source = confluent_kafka.TopicPartition(SOURCE, 0, 0)
    try:
        consumer.assign([source])
        producer.init_transactions(SETTLE_TIMEOUT_S)
        copied = number = 0
        while copied < COUNT:
            messages = consumer.consume(7, 5)
            assert all(each.error() is None for each in messages)
            if not messages:
                continue
            producer.begin_transaction()
            for each in messages:
                producer.produce(TARGET, each.value(), partition=0)
            producer.send_offsets_to_transaction(
                consumer.position([source]), consumer.consumer_group_metadata(), SETTLE_TIMEOUT_S
            )
            number += 1
            if number % 3:
                producer.commit_transaction(SETTLE_TIMEOUT_S)
                copied += len(messages)
            else:
                producer.flush()
                producer.abort_transaction(SETTLE_TIMEOUT_S)
                [last] = consumer.committed([source], SETTLE_TIMEOUT_S)
                consumer.seek(confluent_kafka.TopicPartition(SOURCE, 0, max(last.offset, 0)))
    finally:
        consumer.close()


def copy_with_java(bootstrap: str) -> None:
    assert f"copied {COUNT}" in run_java(str(JAVA_COPIER), bootstrap, SOURCE, TARGET, str(COUNT))


@pytest.mark.parametrize("copy", [copy_with_librdkafka, copy_with_java])
def test_other_clients_copy_exactly_once(
    brokers: tuple[ClusterProcesses, KafkaBroker], copy: Callable[[str], None]
) -> None:
    cluster, theirs = brokers
    bootstrap = f"{cluster.bootstrap},{theirs.address}"
    asyncio.run(create_topics(bootstrap))
    asyncio.run(create_copied_topics(bootstrap))
    copy(bootstrap)
    expected = [str(number).encode() for number in range(COUNT)]
    assert asyncio.run(values(cluster.bootstrap, TARGET, "read_committed")) == expected
    everything = asyncio.run(values(cluster.bootstrap, TARGET, "read_uncommitted"))
    assert len(everything) > COUNT, "some transactions were aborted"


@pytest.mark.parametrize("copy", [copy_with_librdkafka, copy_with_java])
@pytest.mark.parametrize("offsets", [OURS, THEIRS])
def test_kafka_leads_the_partitions_of_our_transactions(
    brokers: tuple[ClusterProcesses, KafkaBroker], copy: Callable[[str], None], offsets: int
) -> None:
    """Ours coordinates: Kafka's leader asks it for verification, and gets its markers."""
    cluster, theirs = brokers
    bootstrap = f"{cluster.bootstrap},{theirs.address}"
    asyncio.run(create_topics(bootstrap, transactions=OURS, offsets=offsets))
    asyncio.run(create_copied_topics(bootstrap, leader=THEIRS))
    copy(bootstrap)
    expected = [str(number).encode() for number in range(COUNT)]
    assert asyncio.run(values(bootstrap, TARGET, "read_committed")) == expected
    everything = asyncio.run(values(bootstrap, TARGET, "read_uncommitted"))
    assert len(everything) > COUNT, "some transactions were aborted"


async def read_committed(bootstrap: str) -> list[int]:
    async with ottla.Consumer(
        bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        places = await consumer.assign_topics(TOPIC)
        end = (await consumer.end_offsets(places))[places[0]]
        offsets: list[int] = []
        while (consumer.position(places[0]) or 0) < end:
            offsets += [each.offset for each in await consumer.fetch_batch(timeout_ms=100)]
        return offsets

"""Leaders and followers of partitions with transactions; the test is their coordinator."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopic,
    ProducerDescription,
)
from kafkawire.messages.fetch import AbortedTransaction
from kafkawire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from storage.disk.layout import TRANSACTION_INDEX_SUFFIX
from tests.conftest import StartBroker
from tests.integration.broker.broker_cluster import IDS, BrokerCluster
from tests.integration.broker.wire import Wire
from tests.integration.coordination.process import Coordinator, wait_until
from tests.unit.storage.produced_batches import produced

TOPIC, ID = "t", "id"
A, B = 7, 8
SETTINGS = {
    # No coordinator could confirm the transactions.
    "transaction.partition.verification.enable": "false",
    # The records of tests are old, and would roll to a segment before each marker.
    "log.roll.hours": "1000000",
    "replica.lag.time.max.ms": "2000",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BrokerCluster]:
    coordinator = Coordinator(tmp_path / "coordinator")
    try:
        with BrokerCluster(tmp_path, coordinator.address, SETTINGS) as made:
            made.start(*IDS)
            made.until_all_say(lambda each: len(made.metadata(each).brokers) == len(IDS))
            made.create_topic(TOPIC, [IDS], min_insync_replicas="2")
            made.until_in_sync(TOPIC, set(IDS))
            yield made
    finally:
        coordinator.kill()


def produce(wire: Wire, producer_id: int, sequence: int, epoch: int = 0) -> int:
    batch = produced(producer_id, sequence, epoch=epoch, is_transactional=True)
    return wire.produce(TOPIC, bytes(batch), transactional_id=ID).error_code


def end(
    wire: Wire, producer_id: int, *, is_commit: bool, epoch: int = 0, coordinator_epoch: int = 3
) -> int:
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=is_commit,
        topics=[WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    response = wire.ask(ApiKey.WRITE_TXN_MARKERS, 1, request, WriteTxnMarkersResponse)
    return response.markers[0].topics[0].partitions[0].error_code


def producers(wire: Wire) -> list[ProducerDescription]:
    topic = DescribeProducersTopic(name=TOPIC, partition_indexes=[0])
    request = DescribeProducersRequest(topics=[topic])
    response = wire.ask(ApiKey.DESCRIBE_PRODUCERS, 0, request, DescribeProducersResponse)
    return list(response.topics[0].partitions[0].active_producers)


def describes(
    cluster: BrokerCluster, broker_id: int, expected: Sequence[ProducerDescription]
) -> bool:
    with cluster.wire(broker_id) as wire:
        return producers(wire) == expected


def test_late_transactions_are_counted_and_can_be_aborted(start_broker: StartBroker) -> None:
    """An administrator ends a transaction that no coordinator knows."""
    broker = start_broker(overrides={**SETTINGS, "metrics.listener": "127.0.0.1:0"})
    address = broker.wait_for_event("status.listening")["address"]

    def late() -> tuple[int, int]:
        """Return the numbers of open transactions, and of partitions with late ones."""
        with urlopen(f"http://{address}/metrics") as page:
            lines = [line.split() for line in page.read().decode().splitlines()]
        found = {line[0]: line[-1] for line in lines}
        lates = "kafka_server_replicamanager_partitionswithlatetransactionscount"
        names = ("ottla_open_transactions", lates)
        opened, late = (int(float(found[name])) for name in names)
        return opened, late

    with Wire(broker.port) as wire:
        wire.create_topic(TOPIC)
        assert late() == (0, 0)
        assert produce(wire, A, 0) == ErrorCode.NONE
        assert late() == (1, 1), "the records of tests are old"
        assert end(wire, A, is_commit=False) == ErrorCode.NONE
        assert late() == (0, 0)


def index_of(cluster: BrokerCluster, broker_id: int) -> bytes:
    directory = cluster.data_dir(broker_id) / str(TopicPartition(TOPIC, 0))
    return b"".join(
        path.read_bytes() for path in sorted(directory.glob(f"*{TRANSACTION_INDEX_SUFFIX}"))
    )


def test_transaction_continues_and_ends_under_another_leader(cluster: BrokerCluster) -> None:
    with cluster.wire(1) as wire:
        assert produce(wire, A, 0) == ErrorCode.NONE
        assert end(wire, A, is_commit=False) == ErrorCode.NONE
        assert produce(wire, A, 1) == ErrorCode.NONE
        assert produce(wire, B, 0) == ErrorCode.NONE
        assert end(wire, B, is_commit=True) == ErrorCode.NONE
        described = producers(wire)
    assert [each.current_txn_start_offset for each in described] == [2, -1]
    for follower in (2, 3):
        # A follower describes the producers of its replica, which may lag.
        wait_until(partial(describes, cluster, follower, described))
        with cluster.wire(follower) as wire:
            assert end(wire, A, is_commit=True) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.brokers[1].kill()
    cluster.until_all_say(lambda each: cluster.leaders(each, TOPIC) == [2])
    with cluster.wire(2) as wire:

        def is_open_at_offset_2() -> bool:
            data = wire.fetch(TOPIC, 0, isolation_level=1)
            return (data.last_stable_offset, data.high_watermark) == (2, 5)

        wait_until(is_open_at_offset_2)
        assert producers(wire) == described
        assert produce(wire, A, 2) == ErrorCode.NONE
        assert end(wire, A, is_commit=False, coordinator_epoch=2) == (
            ErrorCode.TRANSACTION_COORDINATOR_FENCED
        )
        # The coordinator fences the producer with the next epoch.
        assert end(wire, A, is_commit=False, epoch=1) == ErrorCode.NONE
        assert produce(wire, A, 3) == ErrorCode.INVALID_PRODUCER_EPOCH
        data = wire.fetch(TOPIC, 0, isolation_level=1)
        assert (data.last_stable_offset, data.high_watermark) == (7, 7)
        assert data.aborted_transactions == [
            AbortedTransaction(producer_id=A, first_offset=0),
            AbortedTransaction(producer_id=A, first_offset=2),
        ]
    cluster.start(1)
    cluster.until_in_sync(TOPIC, set(IDS))
    indexes = {index_of(cluster, each) for each in IDS}
    assert [len(each) for each in indexes] == [2 * 34], "the same entries on every replica"


def test_marker_without_enough_replicas_is_refused_until_they_are_back(
    cluster: BrokerCluster,
) -> None:
    with cluster.wire(1) as wire:
        assert produce(wire, A, 0) == ErrorCode.NONE
        for follower in (2, 3):
            cluster.brokers[follower].kill()
        cluster.until_all_say(
            lambda each: [set(of.isr_nodes) for of in cluster.partitions(each, TOPIC)] == [{1}]
        )
        assert end(wire, A, is_commit=True) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert wire.fetch(TOPIC, 0, isolation_level=1).last_stable_offset == 0
        cluster.start(2)
        cluster.until_in_sync(TOPIC, {1, 2})
        assert end(wire, A, is_commit=True) == ErrorCode.NONE
        assert wire.fetch(TOPIC, 0, isolation_level=1).last_stable_offset == 2

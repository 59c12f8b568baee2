"""The transaction coordinator of a real broker, over a socket."""

from typing import cast

import pytest

from broker.transactions.transaction_effects import ProducerIdentity
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkawire.messages.transaction_admin import ListTransactionsRequest, ListTransactionsResponse
from kafkawire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkawire.records import ControlType, iterate_batches, read_control_batch, read_records
from kafkawire.transaction_records import read_transaction_key, read_transaction_value
from tests.conftest import BrokerProcess, StartBroker
from tests.integration.broker.transactional_client import TransactionalClient
from tests.integration.broker.wire import Wire

OK = ErrorCode.NONE
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = "__consumer_offsets"


def begin(wire: Wire, transactional_id: str = "id") -> TransactionalClient:
    client = TransactionalClient(wire, transactional_id)
    client.until_done(client.find)
    client.until_done(client.initialize)
    return client


def records_of(wire: Wire, partition: TopicPartition) -> bytes:
    """Return the batches of a partition."""
    records = wire.fetch(partition.topic, 0, partition=partition.partition).records
    return b"" if records is None else bytes(cast(bytes, records))


def markers(wire: Wire, partition: TopicPartition) -> list[tuple[ControlType, int]]:
    """Return the types and producer epochs of the markers of a partition."""
    found = []
    for header, batch in iterate_batches(records_of(wire, partition)):
        marker = read_control_batch(batch) if header.is_control else None
        if marker is not None:
            found.append((marker.control_type, header.producer_epoch))
    return found


def test_committed_and_aborted_transactions_leave_markers_in_each_partition(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    with Wire(broker.port) as wire:
        assert wire.create_topic("t", 2).error_code == OK
        client = begin(wire)
        assert client.add(T0, T1) == [OK, OK]
        assert client.describe().transaction_state == "Ongoing"
        assert client.end() is OK
        client.until_done(lambda: client.add(T1))
        assert client.end(is_commit=False) is OK
        client.until_done(client.initialize)
        assert client.describe().transaction_state == "Empty"
        assert markers(wire, T0) == [(ControlType.COMMIT, 0)]
        assert markers(wire, T1) == [(ControlType.COMMIT, 0), (ControlType.ABORT, 0)]


def test_topic_that_is_created_again_gets_no_marker_of_an_earlier_transaction(
    broker_process: BrokerProcess,
) -> None:
    with Wire(broker_process.port) as wire:
        assert wire.create_topic("t", 1).error_code == OK
        client = begin(wire)
        assert client.add(T0) == [OK]
        delete = DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000)
        deleted = wire.ask(ApiKey.DELETE_TOPICS, 5, delete, DeleteTopicsResponse)
        assert [each.error_code for each in deleted.responses] == [OK]
        assert client.end() is OK
        assert wire.create_topic("t", 1).error_code == OK
        client.until_done(client.initialize)
        assert markers(wire, T0) == []


def test_state_survives_a_kill(start_broker: StartBroker) -> None:
    broker = start_broker()
    with Wire(broker.port) as wire:
        assert wire.create_topic("t", 2).error_code == OK
        client = begin(wire)
        assert client.add(T0) == [OK]
    broker.kill()
    again = start_broker(broker.data_dir)
    with Wire(again.port) as wire:
        continued = TransactionalClient(wire, "id")
        continued.until_done(continued.find)
        continued.producer = client.producer
        continued.until_done(lambda: continued.add(T0, T1))
        assert continued.end() is OK
        continued.until_done(lambda: continued.initialize(client.producer))
        assert continued.producer == ProducerIdentity(client.producer.producer_id, 1)
        assert markers(wire, T0) == markers(wire, T1) == [(ControlType.COMMIT, 0)]


def test_new_producer_aborts_the_open_transaction_and_fences_the_old_one(
    broker_process: BrokerProcess,
) -> None:
    with Wire(broker_process.port) as wire:
        assert wire.create_topic("t", 2).error_code == OK
        old = begin(wire)
        assert old.add(T0) == [OK]
        new = begin(wire)
        assert new.producer == ProducerIdentity(old.producer.producer_id, 2)
        assert markers(wire, T0) == [(ControlType.ABORT, 1)]
        assert old.end() is ErrorCode.PRODUCER_FENCED
        assert old.end(version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert old.add(T0) == [ErrorCode.PRODUCER_FENCED]
        assert old.add(T0, version=0) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert old.add_offsets("g") is ErrorCode.PRODUCER_FENCED
        assert old.add_offsets("g", version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert old.initialize(old.producer) is ErrorCode.PRODUCER_FENCED
        assert old.initialize(old.producer, version=3) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_timed_out_transaction_is_aborted(start_broker: StartBroker) -> None:
    key = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    broker = start_broker(overrides={key: "50"})
    with Wire(broker.port) as wire:
        assert wire.create_topic("t", 2).error_code == OK
        client = TransactionalClient(wire, "id")
        client.until_done(client.find)
        client.until_done(lambda: client.initialize(timeout_ms=1))
        assert client.add(T0) == [OK]
        broker.wait_for_event("transaction.timed_out")
        assert client.end() is ErrorCode.PRODUCER_FENCED
        client.until_done(client.initialize)
        assert markers(wire, T0) == [(ControlType.ABORT, 1)]


def test_one_bad_partition_adds_nothing(broker_process: BrokerProcess) -> None:
    with Wire(broker_process.port) as wire:
        assert wire.create_topic("t", 2).error_code == OK
        client = begin(wire)
        not_tried = ErrorCode.OPERATION_NOT_ATTEMPTED
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert client.add(T0, TopicPartition("t", 9)) == [not_tried, unknown]
        internal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert client.add(T0, TopicPartition("__transaction_state", 0)) == [not_tried, internal]
        assert client.describe().topics == []
        assert client.end() is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("timeout_ms", [0, 900_001, 2**31 - 1])
def test_transaction_timeout_has_limits(broker_process: BrokerProcess, timeout_ms: int) -> None:
    with Wire(broker_process.port) as wire:
        client = begin(wire)
        code = client.initialize(timeout_ms=timeout_ms)
        assert code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_requests_without_a_producer_are_refused(broker_process: BrokerProcess) -> None:
    with Wire(broker_process.port) as wire:
        assert wire.create_topic("t").error_code == OK
        begin(wire)
        stranger = TransactionalClient(wire, "another")
        assert stranger.add(T0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert stranger.add_offsets("g") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert stranger.end() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert stranger.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        unnamed = TransactionalClient(wire, "")
        assert unnamed.initialize() is ErrorCode.INVALID_REQUEST
        assert unnamed.end() is ErrorCode.INVALID_REQUEST
        assert unnamed.describe().error_code == ErrorCode.INVALID_REQUEST


def test_brokers_verify_and_add_several_transactions_at_once(
    broker_process: BrokerProcess,
) -> None:
    with Wire(broker_process.port) as wire:
        assert wire.create_topic("t", 2).error_code == OK
        one, two = begin(wire, "one"), begin(wire, "two")
        assert one.add(T0) == [OK]

        def transaction(
            client: TransactionalClient, *partitions: int, verify: bool
        ) -> AddPartitionsToTxnTransaction:
            return AddPartitionsToTxnTransaction(
                transactional_id=client.transactional_id,
                producer_id=client.producer.producer_id,
                producer_epoch=client.producer.epoch,
                verify_only=verify,
                topics=[AddPartitionsToTxnTopic(name="t", partitions=partitions)],
            )

        request = AddPartitionsToTxnRequest(
            transactions=[transaction(one, 0, 1, verify=True), transaction(two, 1, verify=False)]
        )
        key = ApiKey.ADD_PARTITIONS_TO_TXN
        response = wire.ask(key, 5, request, AddPartitionsToTxnResponse)
        results = {
            (each.transactional_id, partition.partition_index): partition.partition_error_code
            for each in response.results_by_transaction
            for topic in each.topic_results
            for partition in topic.results_by_partition
        }
        missing = ErrorCode.TRANSACTION_ABORTABLE
        assert results == {("one", 0): OK, ("one", 1): missing, ("two", 1): OK}
        assert two.describe().topics[0].partitions == [1]
        nothing = wire.ask(
            key, 5, AddPartitionsToTxnRequest(transactions=[]), AddPartitionsToTxnResponse
        )
        assert (nothing.error_code, nothing.results_by_transaction) == (OK, [])


def test_transactions_are_listed_by_state_producer_and_duration(
    broker_process: BrokerProcess,
) -> None:
    with Wire(broker_process.port) as wire:
        assert wire.create_topic("t", 2).error_code == OK
        one, two = begin(wire, "one"), begin(wire, "two")
        assert one.add(T0) == [OK]

        def listed(**filters: object) -> list[str]:
            request = ListTransactionsRequest(**filters)  # type: ignore[arg-type]
            response = wire.ask(ApiKey.LIST_TRANSACTIONS, 1, request, ListTransactionsResponse)
            assert response.error_code == OK
            found = sorted(each.transactional_id for each in response.transaction_states)
            return [*response.unknown_state_filters, *found]

        assert listed() == ["one", "two"]
        assert listed(state_filters=["Ongoing", "Nonsense"]) == ["Nonsense", "one"]
        assert listed(producer_id_filters=[two.producer.producer_id]) == ["two"]
        assert listed(duration_filter=3_600_000) == ["two"], "without a start, as in Kafka"


def test_records_of_the_topic_are_those_of_kafka(start_broker: StartBroker) -> None:
    broker = start_broker(overrides={"transaction.state.log.num.partitions": "1"})
    with Wire(broker.port) as wire:
        assert wire.create_topic("t", 2).error_code == OK
        client = begin(wire)
        assert client.add(T1, T0) == [OK, OK]
        assert client.end() is OK
        client.until_done(client.initialize)
        data = records_of(wire, TopicPartition("__transaction_state", 0))
        states = []
        for header, batch in iterate_batches(data):
            assert header.producer_id == -1
            for record in read_records(batch):
                assert record.key is not None
                assert record.value is not None
                assert read_transaction_key(record.key) == "id"
                value = read_transaction_value(record.value)
                states.append((value.status.wire_name, len(value.partitions)))
        assert states == [
            ("Empty", 0),
            ("Ongoing", 2),
            ("PrepareCommit", 2),
            ("CompleteCommit", 0),
            ("Empty", 0),
        ]


def test_offsets_of_a_group_take_part_with_their_partition(
    broker_process: BrokerProcess,
) -> None:
    with Wire(broker_process.port) as wire:
        client = begin(wire)
        assert client.add_offsets("g") is OK
        assert [each.topic for each in client.describe().topics] == [OFFSETS]

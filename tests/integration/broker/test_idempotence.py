"""Idempotent producers over a real socket: duplicates, refusals, remembered state."""

import itertools
import time

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopic,
    ProducerDescription,
)
from kafkawire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkawire.messages.produce import PartitionProduceResponse
from kafkawire.records import iterate_batches
from tests.conftest import StartBroker
from tests.integration.broker.wire import Wire
from tests.unit.storage.produced_batches import produced

names = (f"idempotent-{number}" for number in itertools.count())
PRODUCER = 4321
# Today, because the broker forgets producers whose records are older than a day.
NOW_MS = time.time_ns() // 1_000_000


@pytest.fixture
def topic(wire: Wire) -> str:
    name = next(names)
    assert wire.create_topic(name).error_code == ErrorCode.NONE
    return name


def send(
    wire: Wire, topic: str, sequence: int, count: int = 1, epoch: int = 0, acks: int = -1
) -> PartitionProduceResponse:
    batch = produced(PRODUCER, sequence, count, epoch=epoch, timestamp_ms=NOW_MS)
    return wire.produce(topic, bytes(batch), acks=acks)


def stored_sequences(wire: Wire, topic: str) -> list[int]:
    records = wire.fetch(topic, 0).records
    assert isinstance(records, memoryview)
    return [header.base_sequence for header, _ in iterate_batches(records)]


@pytest.mark.parametrize("acks", [1, -1])
def test_a_repeated_batch_is_answered_like_the_first_time(
    wire: Wire, topic: str, acks: int
) -> None:
    first = [send(wire, topic, sequence, 2, acks=acks) for sequence in range(0, 10, 2)]
    again = [send(wire, topic, sequence, 2, acks=acks) for sequence in range(0, 10, 2)]
    assert [answer.error_code for answer in (*first, *again)] == [ErrorCode.NONE] * 10
    assert [answer.base_offset for answer in again] == [answer.base_offset for answer in first]
    # Like in Kafka, the response to a duplicate has a timestamp even with CreateTime.
    assert {answer.log_append_time_ms for answer in again} == {NOW_MS}
    assert stored_sequences(wire, topic) == [0, 2, 4, 6, 8]


def test_batches_out_of_order_are_refused(wire: Wire, topic: str) -> None:
    send(wire, topic, 0, 2, epoch=1)
    refused = {
        (3, 1): ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        (0, 1): ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        (2, 0): ErrorCode.INVALID_PRODUCER_EPOCH,
        (1, 2): ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
    for (sequence, epoch), code in refused.items():
        answer = send(wire, topic, sequence, epoch=epoch)
        assert (answer.error_code, answer.base_offset) == (code, -1)
        assert answer.error_message is not None
        assert f"producer {PRODUCER}" in answer.error_message
    assert send(wire, topic, 2, epoch=1).base_offset == 2
    assert send(wire, topic, 0, epoch=2).base_offset == 3


def test_an_unknown_producer_may_start_at_any_sequence(wire: Wire, topic: str) -> None:
    """Retention may have removed its earlier records (KIP-360)."""
    assert send(wire, topic, 77).base_offset == 0
    assert send(wire, topic, 78).base_offset == 1


def test_the_producers_of_a_partition_are_described(wire: Wire, topic: str) -> None:
    send(wire, topic, 0, 3, epoch=2)
    asked = [
        DescribeProducersTopic(name=topic, partition_indexes=[0]),
        DescribeProducersTopic(name="no-such-topic", partition_indexes=[0]),
    ]
    request = DescribeProducersRequest(topics=asked)
    known, unknown = wire.ask(
        ApiKey.DESCRIBE_PRODUCERS, 0, request, DescribeProducersResponse
    ).topics
    assert known.partitions[0].active_producers == [
        ProducerDescription(
            producer_id=PRODUCER,
            producer_epoch=2,
            last_sequence=2,
            last_timestamp=NOW_MS,
            coordinator_epoch=-1,
        )
    ]
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_producers_are_remembered_after_a_stop_and_a_crash(start_broker: StartBroker) -> None:
    broker = start_broker(overrides={"log.segment.bytes": "1024"})
    with Wire(broker.port) as wire:
        wire.create_topic("kept")
        for sequence in range(30):
            send(wire, "kept", sequence)
    broker.stop()
    broker = start_broker(broker.data_dir, broker.overrides)
    with Wire(broker.port) as wire:
        assert send(wire, "kept", 29).base_offset == 29
        for sequence in range(30, 34):
            send(wire, "kept", sequence)
    broker.kill()
    broker = start_broker(broker.data_dir, broker.overrides)
    with Wire(broker.port) as wire:
        again = [send(wire, "kept", sequence).base_offset for sequence in range(29, 34)]
        assert again == [29, 30, 31, 32, 33]
        assert send(wire, "kept", 35).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def ask_for_id(wire: Wire, producer_id: int = -1, epoch: int = -1) -> InitProducerIdResponse:
    request = InitProducerIdRequest(
        transactional_id=None,
        transaction_timeout_ms=60_000,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    return wire.ask(ApiKey.INIT_PRODUCER_ID, 4, request, InitProducerIdResponse)


def test_a_producer_that_asks_for_a_new_epoch_gets_a_new_id(wire: Wire) -> None:
    """Like in Kafka, the broker does not track epochs without a transactional id."""
    first = ask_for_id(wire)
    second = ask_for_id(wire, first.producer_id, first.producer_epoch)
    assert (second.error_code, second.producer_epoch) == (ErrorCode.NONE, 0)
    assert second.producer_id != first.producer_id

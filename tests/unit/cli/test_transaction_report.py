"""Transactions and producers as rows and as JSON."""

from kafkawire.ids import BrokerId, Offset, TopicPartition
from ottla.cli.transaction_report import (
    HANGING_COLUMNS,
    PRODUCER_COLUMNS,
    description_json,
    description_rows,
    hanging_json,
    hanging_row,
    producer_json,
    producer_row,
)
from ottla.client.admin_model import HangingTransaction, ProducerState, TransactionDescription

IDLE = ProducerState(
    producer_id=7,
    producer_epoch=2,
    coordinator_epoch=-1,
    last_sequence=41,
    last_timestamp_ms=1_769_860_800_123,
    transaction_start_offset=None,
)
OPEN = ProducerState(
    producer_id=8,
    producer_epoch=0,
    coordinator_epoch=3,
    last_sequence=0,
    last_timestamp_ms=1_769_860_800_123,
    transaction_start_offset=Offset(0),
)
ORDERS = TopicPartition("orders", 1)


def described(*partitions: TopicPartition, start_ms: int | None) -> TransactionDescription:
    return TransactionDescription(
        transactional_id="bookings",
        coordinator_id=BrokerId(1),
        producer_id=7,
        producer_epoch=2,
        state="Ongoing" if partitions else "Empty",
        timeout_ms=60_000,
        start_ms=start_ms,
        partitions=partitions,
    )


def test_a_description_names_every_property() -> None:
    assert dict(description_rows(described(ORDERS, start_ms=1_769_860_800_123))) == {
        "transactional id": "bookings",
        "coordinator": 1,
        "producer": "7 epoch 2",
        "state": "Ongoing",
        "timeout": "60000 ms",
        "start": "2026-01-31T12:00:00.123Z",
        "partitions": "orders-1",
    }
    assert description_json(described(ORDERS, start_ms=5)) == {
        "transactional_id": "bookings",
        "coordinator_id": 1,
        "producer_id": 7,
        "producer_epoch": 2,
        "state": "Ongoing",
        "timeout_ms": 60_000,
        "start_ms": 5,
        "partitions": [{"topic": "orders", "partition": 1}],
    }


def test_a_missing_value_is_a_dash() -> None:
    rows = dict(description_rows(described(start_ms=None)))
    assert (rows["start"], rows["partitions"]) == ("-", "-")
    assert producer_row(IDLE)[-1] == "-"


def test_a_transaction_from_the_first_offset_is_not_missing() -> None:
    assert producer_row(OPEN) == [8, 0, 3, 0, "2026-01-31T12:00:00.123Z", 0]
    assert producer_json(OPEN)["transaction_start_offset"] == 0
    assert len(producer_row(OPEN)) == len(PRODUCER_COLUMNS)


def test_a_hanging_transaction_names_its_place_and_owner() -> None:
    orphan = HangingTransaction(partition=ORDERS, producer=OPEN, transactional_id=None)
    owned = HangingTransaction(partition=ORDERS, producer=OPEN, transactional_id="bookings")
    assert hanging_row(orphan)[:4] == ["orders", 1, "-", 8]
    assert hanging_row(owned)[2] == "bookings"
    assert len(hanging_row(owned)) == len(HANGING_COLUMNS)
    assert hanging_json(orphan) == {
        "topic": "orders",
        "partition": 1,
        "transactional_id": None,
        **producer_json(OPEN),
    }

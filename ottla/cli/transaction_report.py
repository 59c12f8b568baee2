"""Rows and JSON objects of transactions and their producers (decision)."""

from collections.abc import Iterator
from typing import Final

from ottla.cli.terminal import Cell
from ottla.cli.text import JsonValue, time_text
from ottla.client.admin_model import HangingTransaction, ProducerState, TransactionDescription

NOTHING: Final = "-"
PRODUCER_COLUMNS: Final = (
    "producer id",
    "epoch",
    "coordinator epoch",
    "last sequence",
    "last record",
    "transaction start",
)
HANGING_COLUMNS: Final = ("topic", "partition", "transactional id", *PRODUCER_COLUMNS)


def description_rows(found: TransactionDescription) -> Iterator[tuple[str, Cell]]:
    """Yield the name and value of each property."""
    yield "transactional id", found.transactional_id
    yield "coordinator", found.coordinator_id
    yield "producer", f"{found.producer_id} epoch {found.producer_epoch}"
    yield "state", found.state
    yield "timeout", f"{found.timeout_ms} ms"
    yield "start", NOTHING if found.start_ms is None else time_text(found.start_ms)
    yield "partitions", ", ".join(map(str, found.partitions)) or NOTHING


def description_json(found: TransactionDescription) -> JsonValue:
    """Return a description as a JSON object."""
    return {
        "transactional_id": found.transactional_id,
        "coordinator_id": found.coordinator_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.state,
        "timeout_ms": found.timeout_ms,
        "start_ms": found.start_ms,
        "partitions": [
            {"topic": each.topic, "partition": each.partition} for each in found.partitions
        ],
    }


def producer_row(found: ProducerState) -> list[Cell]:
    """Return a producer in the order of `PRODUCER_COLUMNS`."""
    start = found.transaction_start_offset
    return [
        found.producer_id,
        found.producer_epoch,
        found.coordinator_epoch,
        found.last_sequence,
        time_text(found.last_timestamp_ms),
        NOTHING if start is None else start,
    ]


def producer_json(found: ProducerState) -> dict[str, JsonValue]:
    """Return a producer as a JSON object."""
    return {
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "coordinator_epoch": found.coordinator_epoch,
        "last_sequence": found.last_sequence,
        "last_timestamp_ms": found.last_timestamp_ms,
        "transaction_start_offset": found.transaction_start_offset,
    }


def hanging_row(found: HangingTransaction) -> list[Cell]:
    """Return a hanging transaction in the order of `HANGING_COLUMNS`."""
    owner = NOTHING if found.transactional_id is None else found.transactional_id
    return [
        found.partition.topic,
        found.partition.partition,
        owner,
        *producer_row(found.producer),
    ]


def hanging_json(found: HangingTransaction) -> JsonValue:
    """Return a hanging transaction as a JSON object."""
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "transactional_id": found.transactional_id,
        **producer_json(found.producer),
    }

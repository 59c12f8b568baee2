"""The records of `__transaction_state` (decision).

A key or value is its version and a message of that version. The key of version 0 is the
transactional id; a record without a value deletes the id. Values are written in version 0, as by
Kafka brokers without the feature `transaction.version`; versions 0 and 1 are read, and the tagged
fields that Kafka 4 adds to version 1 are skipped.

Source: TransactionLog and the schemas of kafka-transaction-coordinator, Kafka 3.9.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from kafkawire.errors import DecodeError
from kafkawire.ids import TopicPartition
from kafkawire.internal_topic import version_of, with_version, without_version
from kafkawire.messages.transaction_log import (
    TransactionLogKey,
    TransactionLogPartitions,
    TransactionLogValue,
)

_KEY_VERSION: Final = 0
_WRITTEN_VERSION: Final = 0
_LAST_VALUE_VERSION: Final = 1


class TransactionStatus(IntEnum):
    """The state of a transactional id, with Kafka's number for it."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def wire_name(self) -> str:
        """The name in answers to ListTransactions and DescribeTransactions."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class TransactionRecord(NamedTuple):
    """The stored state of one transactional id."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: TransactionStatus
    partitions: frozenset[TopicPartition]
    """The partitions without a marker yet; only Ongoing and Prepare have any."""
    last_update_ms: int
    start_ms: int
    """Time of the first AddPartitions; -1 in Empty."""


def transaction_key(transactional_id: str) -> bytes:
    """Return the key of the records of a transactional id."""
    return with_version(TransactionLogKey(transactional_id=transactional_id), _KEY_VERSION)


def transaction_value(record: TransactionRecord) -> bytes:
    """Return the value of a record; topics and partitions are in order."""
    value = TransactionLogValue(
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=record.status,
        transaction_partitions=_by_topic(record),
        transaction_last_update_timestamp_ms=record.last_update_ms,
        transaction_start_timestamp_ms=record.start_ms,
    )
    return with_version(value, _WRITTEN_VERSION)


def read_transaction_key(data: bytes) -> str | None:
    """Return the transactional id; None for an unknown version, which callers must skip.

    Raises:
        DecodeError: `data` is not a key.
    """
    if version_of(data) != _KEY_VERSION:
        return None
    return without_version(TransactionLogKey, data, _KEY_VERSION).transactional_id


def read_transaction_value(data: bytes) -> TransactionRecord:
    """Return the state in the value of a record.

    Raises:
        DecodeError: the value is damaged, or of a newer version, or of an unknown state.
    """
    value = without_version(TransactionLogValue, data, _LAST_VALUE_VERSION)
    try:
        status = TransactionStatus(value.transaction_status)
    except ValueError:
        raise DecodeError(f"state {value.transaction_status} of a transaction") from None
    return TransactionRecord(
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        status,
        frozenset(
            TopicPartition(each.topic, partition)
            for each in value.transaction_partitions or ()
            for partition in each.partition_ids
        ),
        value.transaction_last_update_timestamp_ms,
        value.transaction_start_timestamp_ms,
    )


def _by_topic(record: TransactionRecord) -> list[TransactionLogPartitions] | None:
    if record.status is TransactionStatus.EMPTY:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(record.partitions):
        topics.setdefault(topic, []).append(partition)
    return [TransactionLogPartitions(topic=name, partition_ids=ids) for name, ids in topics.items()]

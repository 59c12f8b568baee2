"""Declares the keys and values of the records in `__transaction_state` (decision).

In the log each of them is preceded by its version; see `kafkawire.transaction_records`.
"""

from collections.abc import Sequence

from kafkawire.schema import INT8, INT16, INT32, INT64, STRING, array, field, message, struct


@message(versions=(0, 0))
class TransactionLogKey:
    """The transactional id."""

    transactional_id: str = field(STRING)


@struct
class TransactionLogPartitions:
    topic: str = field(STRING)
    partition_ids: Sequence[int] = field(array(INT32))


@message(versions=(0, 1), flexible=1)
class TransactionLogValue:
    """The state of a transactional id; version 1 differs only in its encoding."""

    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    transaction_timeout_ms: int = field(INT32)
    transaction_status: int = field(INT8)
    transaction_partitions: Sequence[TransactionLogPartitions] | None = field(
        array(TransactionLogPartitions), nullable=0
    )
    transaction_last_update_timestamp_ms: int = field(INT64)
    transaction_start_timestamp_ms: int = field(INT64)

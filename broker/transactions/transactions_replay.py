"""Rebuilds transactions from the records of `__transaction_state` (decision).

Records are added in the order of the log. The last record of an id counts, and a tombstone deletes
it. Records with an unknown version are skipped and counted: a newer broker may have written them.
So are records that no coordinator writes: any producer with access to the topic could have written
them.
"""

from __future__ import annotations

from typing import Final

from broker.transactions.transaction import Transaction
from broker.transactions.transaction_state import PREDECESSORS
from kafkawire.errors import CorruptBatchError, DecodeError
from kafkawire.records import BatchHeader, Record, crc_matches, read_records_as
from kafkawire.sentinels import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkawire.transaction_records import (
    TransactionRecord,
    read_transaction_key,
    read_transaction_value,
)

_STORED: Final = PREDECESSORS.keys()


class TransactionsReplay:
    """State of the transactional ids of one partition after the records that were added."""

    def __init__(self) -> None:
        self.record_count = 0
        self.unknown_count = 0
        self._records: dict[str, TransactionRecord] = {}

    def add(self, batch: memoryview, header: BatchHeader) -> None:
        """Add the next batch of the log.

        Raises:
            CorruptBatchError: the batch is damaged; none of it was added.
        """
        if header.is_control:
            return
        try:
            records = list(read_records_as(Record, batch, header=header))
        except CorruptBatchError:
            if not crc_matches(batch, header):
                raise
            # Not damaged: it was written like this, but not by a coordinator.
            self.unknown_count += header.record_count
            return
        for record in records:
            self.record_count += 1
            try:
                self._add(record)
            except DecodeError:
                self.unknown_count += 1

    def transactions(self) -> list[Transaction]:
        """Return every transactional id that has a state."""
        return [Transaction(name, record) for name, record in sorted(self._records.items())]

    def _add(self, record: Record) -> None:
        if record.key is None:
            raise DecodeError("the record has no key")
        transactional_id = read_transaction_key(record.key)
        if transactional_id is None:
            self.unknown_count += 1
        elif record.value is None:
            self._records.pop(transactional_id, None)
        else:
            value = read_transaction_value(record.value)
            if (
                value.status not in _STORED
                or value.producer_id <= NO_PRODUCER_ID
                or value.producer_epoch <= NO_PRODUCER_EPOCH
            ):
                raise DecodeError(f"no coordinator stores {value.status.name} or such a producer")
            self._records[transactional_id] = value

"""Transactions during a cleaning, and the index of aborted transactions."""

import pytest

from kafkawire.ids import Offset
from kafkawire.records import BatchHeader, ControlType, build_control_batch, read_header
from storage.compaction.transactions import CleanedTransactions
from storage.segment.transaction_index import (
    AbortedTransaction,
    overlapping,
    read_aborted,
    write_aborted,
)
from tests.unit.storage.compacting import keyed_batch

ABORTED = AbortedTransaction(7, Offset(2), Offset(9), Offset(10))
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def data(offset: int, producer_id: int = 7, *, is_transactional: bool = True) -> BatchHeader:
    batch = keyed_batch(
        [(b"k", b"v")], producer=(producer_id, 0, 0), is_transactional=is_transactional
    )
    return read_header(batch)._replace(base_offset=offset)


def marker(kind: ControlType, offset: int, producer_id: int = 7) -> tuple[BatchHeader, memoryview]:
    batch = build_control_batch(
        kind,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=offset,
    )
    return read_header(batch), memoryview(batch)


def test_records_of_an_aborted_transaction_are_dropped_before_its_marker() -> None:
    open_ones = CleanedTransactions()
    open_ones.add_aborted([ABORTED])
    assert not open_ones.on_batch(data(1, producer_id=8))
    assert open_ones.on_batch(data(2))
    assert open_ones.on_batch(data(5))
    assert not open_ones.on_control_batch(*marker(ABORT, 9))
    assert open_ones.kept_aborted == [ABORTED]
    assert not open_ones.on_batch(data(11))


def test_marker_without_data_may_be_dropped() -> None:
    open_ones = CleanedTransactions()
    open_ones.add_aborted([ABORTED])
    assert open_ones.on_control_batch(*marker(ABORT, 9))
    assert open_ones.kept_aborted == []
    assert open_ones.on_control_batch(*marker(COMMIT, 12))


def test_a_committed_transaction_keeps_its_marker_while_it_has_data() -> None:
    open_ones = CleanedTransactions()
    assert not open_ones.on_batch(data(1))
    assert not open_ones.on_control_batch(*marker(COMMIT, 3))
    assert open_ones.on_control_batch(*marker(COMMIT, 4))


def test_transaction_in_the_indexes_of_two_segments_counts_once() -> None:
    open_ones = CleanedTransactions()
    open_ones.add_aborted([ABORTED])
    open_ones.on_batch(data(2))
    open_ones.add_aborted([ABORTED])
    assert open_ones.on_batch(data(5))
    assert not open_ones.on_control_batch(*marker(ABORT, 9))
    # The next transaction of the same producer counts separately.
    assert not open_ones.on_batch(data(10))


def test_records_outside_of_transactions_are_kept() -> None:
    open_ones = CleanedTransactions()
    open_ones.add_aborted([ABORTED])
    assert not open_ones.on_batch(data(3, is_transactional=False))


def test_unknown_control_batches_are_kept_and_empty_ones_dropped() -> None:
    open_ones = CleanedTransactions()
    header, batch = marker(COMMIT, 3)
    position = bytes(batch).index(b"\0\0\0\1", 60)
    other = bytearray(batch)
    other[position + 3] = 9
    assert not open_ones.on_control_batch(header, memoryview(other))
    assert open_ones.on_control_batch(header._replace(record_count=0), batch)


def test_transaction_index_round_trips() -> None:
    entries = [ABORTED, AbortedTransaction(8, Offset(3), Offset(12), Offset(3))]
    written = write_aborted(entries)
    assert len(written) == 2 * 34
    assert read_aborted(written) == entries
    assert read_aborted(written[:-1]) == entries[:1]
    with pytest.raises(ValueError, match="version 1"):
        read_aborted(b"\0\1" + written[2:])


def test_entry_overlaps_a_range_that_contains_any_of_its_offsets() -> None:
    assert overlapping([ABORTED], 9, 10) == [ABORTED]
    assert overlapping([ABORTED], 0, 3) == [ABORTED]
    assert overlapping([ABORTED], 10, 20) == []
    assert overlapping([ABORTED], 0, 2) == []

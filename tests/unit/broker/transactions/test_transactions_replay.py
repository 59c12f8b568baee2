"""Transactions from the records of their topic: `broker.transactions.transactions_replay`."""

import pytest

from broker.transactions.transactions_replay import TransactionsReplay
from kafkawire.errors import CorruptBatchError
from kafkawire.ids import TopicPartition
from kafkawire.records import BatchBuilder, ControlType, build_control_batch, read_header
from kafkawire.records_header import BATCH_HEADER_BYTES, write_header
from kafkawire.transaction_records import (
    TransactionRecord,
    TransactionStatus,
    transaction_key,
    transaction_value,
)

ONGOING = TransactionRecord(
    7, 3, 60_000, TransactionStatus.ONGOING, frozenset({TopicPartition("t", 0)}), 20, 10
)
KEY = transaction_key("id")


def batch(*records: tuple[bytes | None, bytes | None]) -> memoryview:
    builder = BatchBuilder()
    for key, value in records:
        builder.append(0, key, value)
    return memoryview(builder.build())


def replayed(*batches: memoryview) -> TransactionsReplay:
    replay = TransactionsReplay()
    for each in batches:
        replay.add(each, read_header(each))
    return replay


def records_of(replay: TransactionsReplay) -> dict[str, TransactionRecord]:
    return {each.transactional_id: each.record for each in replay.transactions()}


def test_last_record_of_each_id_counts() -> None:
    later = ONGOING._replace(status=TransactionStatus.PREPARE_COMMIT)
    other = transaction_key("another")
    replay = replayed(
        batch((KEY, transaction_value(ONGOING)), (other, transaction_value(ONGOING))),
        batch((KEY, transaction_value(later))),
    )
    assert records_of(replay) == {"another": ONGOING, "id": later}
    assert (replay.record_count, replay.unknown_count) == (3, 0)


def test_tombstone_deletes_an_id() -> None:
    gone = transaction_key("never seen")
    replay = replayed(batch((KEY, transaction_value(ONGOING)), (KEY, None), (gone, None)))
    assert records_of(replay) == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(None, b"", id="no key"),
        pytest.param(b"", b"", id="malformed key"),
        pytest.param(b"\0\1" + KEY[2:], b"", id="newer key"),
        pytest.param(KEY, b"\0\0\0", id="malformed value"),
        pytest.param(KEY, b"\0\2" + transaction_value(ONGOING)[2:], id="newer value"),
        pytest.param(
            KEY,
            transaction_value(ONGOING._replace(status=TransactionStatus.DEAD)),
            id="state that is in memory only",
        ),
        pytest.param(KEY, transaction_value(ONGOING._replace(producer_id=-1)), id="no producer"),
        pytest.param(KEY, transaction_value(ONGOING._replace(producer_epoch=-1)), id="no epoch"),
    ],
)
def test_record_that_no_coordinator_writes_is_skipped_and_counted(
    key: bytes | None, value: bytes
) -> None:
    replay = replayed(batch((KEY, transaction_value(ONGOING)), (key, value)))
    assert records_of(replay) == {"id": ONGOING}
    assert replay.unknown_count == 1


def test_control_batches_are_passed_over() -> None:
    marker = build_control_batch(
        ControlType.ABORT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
    )
    replay = replayed(memoryview(marker))
    assert (replay.record_count, replay.unknown_count) == (0, 0)


def test_damaged_batch_fails_the_load_and_one_that_was_written_like_this_is_skipped() -> None:
    noise = bytearray(batch((KEY, transaction_value(ONGOING))))
    noise[BATCH_HEADER_BYTES:] = bytes([0xFF]) * (len(noise) - BATCH_HEADER_BYTES)
    with pytest.raises(CorruptBatchError):
        replayed(memoryview(noise))
    write_header(noise, read_header(noise))
    replay = replayed(memoryview(noise))
    assert (records_of(replay), replay.unknown_count) == ({}, 1)

"""Items of a dump: their text lines and JSON forms."""

import json

import pytest

from kafkawire.compression import Codec
from kafkawire.ids import TopicPartition
from kafkawire.records import (
    BatchBuilder,
    BatchHeader,
    ControlType,
    Record,
    TimestampType,
    build_control_batch,
    read_header,
    read_records,
)
from kafkawire.transaction_records import (
    TransactionRecord,
    TransactionStatus,
    transaction_key,
    transaction_value,
)
from logcheck.finding import Check, Damage, Finding
from ottla.cli.logs.item import (
    BatchItem,
    FileItem,
    FindingItem,
    RecordItem,
    RowItem,
    Summary,
    TransactionItem,
)

FILE = "x.log"
TIMESTAMP_MS = 1_769_860_800_123
DELETE_HORIZON_BIT = 0x40


def header_of(batch: bytearray) -> BatchHeader:
    return read_header(batch)


def idempotent_batch() -> bytearray:
    builder = BatchBuilder(codec=Codec.ZSTD, producer_id=9, producer_epoch=2, base_sequence=40)
    builder.append(TIMESTAMP_MS, b"k", b"v")
    return builder.build(100, 7)


def test_batch_has_one_line() -> None:
    header = header_of(idempotent_batch())
    assert BatchItem(FILE, 812, header, is_intact=True).to_line() == (
        f"  at 812: offsets 100..100, 1 record, {header.size_bytes} B, epoch 7, zstd, "
        "create time up to 2026-01-31T12:00:00.123Z, producer 9 epoch 2 from sequence 40, "
        "checksum right"
    )
    assert BatchItem(FILE, 0, header, is_intact=False).to_line().endswith("checksum WRONG")


def test_batch_in_json_has_every_field_of_its_header() -> None:
    item = BatchItem(FILE, 812, header_of(idempotent_batch()), is_intact=True)
    document = json.loads(json.dumps(item.to_json()))
    assert document["type"] == "batch"
    assert (document["codec"], document["base_offset"], document["producer_id"]) == ("zstd", 100, 9)
    assert (document["is_control"], document["delete_horizon_ms"]) == (False, None)


def test_batch_line_shows_append_time_and_delete_horizon() -> None:
    builder = BatchBuilder(timestamp_type=TimestampType.LOG_APPEND_TIME)
    builder.append(TIMESTAMP_MS, b"k", None)
    header = header_of(builder.build(0, 0))
    assert "append time" in BatchItem(FILE, 0, header, is_intact=True).to_line()
    header = header._replace(attributes=header.attributes | DELETE_HORIZON_BIT)
    line = BatchItem(FILE, 0, header, is_intact=True).to_line()
    assert "tombstones until 2026-01-31T12:00:00.123Z" in line


def test_unknown_codec_is_shown_by_number() -> None:
    header = header_of(idempotent_batch())._replace(attributes=6)
    assert "unknown codec 6" in BatchItem(FILE, 0, header, is_intact=True).to_line()


def test_record_line_shows_key_value_and_headers() -> None:
    item = RecordItem(FILE, Record(5, TIMESTAMP_MS, b"k", b"a\nb", (("h", None),)), False)
    assert item.to_line() == (
        "    offset 5, 2026-01-31T12:00:00.123Z: key k, value a\\nb, header h = null"
    )
    assert item.to_json() == {
        "type": "record",
        "file": FILE,
        "offset": 5,
        "timestamp": TIMESTAMP_MS,
        "key": "k",
        "value": "a\nb",
        "headers": [{"key": "h", "value": None}],
    }


@pytest.mark.parametrize("control_type", list(ControlType))
def test_transaction_marker_is_shown_by_name(control_type: ControlType) -> None:
    batch = build_control_batch(
        control_type, producer_id=1, producer_epoch=0, coordinator_epoch=3, timestamp_ms=0
    )
    [record] = read_records(batch)
    item = RecordItem(FILE, record, is_control=True)
    name = control_type.name.lower()
    assert item.to_line().endswith(f": {name} marker of coordinator epoch 3")
    assert item.to_json()["marker"] == name
    assert "transactional, control" in BatchItem(FILE, 0, header_of(batch), True).to_line()


@pytest.mark.parametrize(
    ("key", "marker"),
    [(None, "unreadable"), (b"\0", "unreadable"), (b"\0\0\0\5", "type 5")],
)
def test_unknown_marker_is_shown_by_type_or_as_unreadable(key: bytes | None, marker: str) -> None:
    item = RecordItem(FILE, Record(0, 0, key, None), is_control=True)
    assert item.to_json()["marker"] == marker
    assert item.to_line().endswith(f"{marker} marker")


STATE = TransactionRecord(
    producer_id=7,
    producer_epoch=2,
    timeout_ms=60_000,
    status=TransactionStatus.PREPARE_COMMIT,
    partitions=frozenset({TopicPartition("orders", 1), TopicPartition("invoices", 0)}),
    last_update_ms=TIMESTAMP_MS,
    start_ms=TIMESTAMP_MS,
)


def state_item(key: bytes | None, value: bytes | None) -> TransactionItem:
    return TransactionItem(FILE, Record(5, TIMESTAMP_MS, key, value))


def test_transaction_state_is_decoded() -> None:
    item = state_item(transaction_key("a\nb"), transaction_value(STATE))
    assert item.to_line() == (
        "    offset 5, 2026-01-31T12:00:00.123Z: transactional id a\\nb, PrepareCommit, producer 7 "
        "epoch 2, timeout 60000 ms, start 2026-01-31T12:00:00.123Z, invoices-0, orders-1"
    )
    printed = item.to_json()
    assert (printed["transactional_id"], printed["state"]) == ("a\nb", "PrepareCommit")
    assert printed["partitions"] == [
        {"topic": "invoices", "partition": 0},
        {"topic": "orders", "partition": 1},
    ]


def test_deleted_transactional_id_is_shown() -> None:
    item = state_item(transaction_key("gone"), None)
    assert item.to_line().endswith("transactional id gone, deleted")
    assert item.to_json()["state"] is None


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (None, b"", "unreadable, a record without a key"),
        (b"\0\0\0\1t", b"\0\0", "unreadable, "),
        (b"\0\5\0\1t", b"", "a key of an unknown version"),
    ],
)
def test_unreadable_transaction_state_is_shown_as_such(
    key: bytes | None, value: bytes, text: str
) -> None:
    item = state_item(key, value)
    assert text in item.to_line()
    is_unreadable = "unreadable" in text
    assert ("unreadable" in item.to_json()) is is_unreadable


def test_finding_line_shows_its_position() -> None:
    finding = Finding(
        check=Check.BATCHES,
        damage=Damage.BAD_CRC,
        file=FILE,
        position=61,
        offset=3,
        expected="this",
        found="that",
    )
    assert (
        FindingItem(finding).to_line()
        == "! x.log: bad_crc at 61, offset 3: expected this, found that"
    )
    assert FindingItem(finding).to_json() == {
        "type": "finding",
        "file": FILE,
        "damage": "bad_crc",
        "severity": "error",
        "position": 61,
        "offset": 3,
        "text": "expected this, found that",
        "more": 0,
    }


def test_files_rows_and_summaries_have_both_forms() -> None:
    assert FileItem(FILE, "segment", 1_500).to_line() == "x.log: segment, 1.5 kB"
    assert FileItem(FILE, "segment", 1_500).to_json()["size_bytes"] == 1_500
    row = RowItem(FILE, "index_entry", {"offset": 1, "position": 2})
    assert row.to_line() == "  offset 1, position 2"
    assert row.to_json() == {"type": "index_entry", "file": FILE, "offset": 1, "position": 2}
    summary = Summary(FILE, finding_count=1, shape="one entry per batch")
    summary.add_batch(header_of(idempotent_batch()))
    assert summary.to_line() == (
        "  = 1 batch, 1 record, offsets 100..100, newest 2026-01-31T12:00:00.123Z, "
        "one entry per batch, 1 inconsistency"
    )
    assert summary.to_json()["counts"] == {"batch": 1, "record": 1}

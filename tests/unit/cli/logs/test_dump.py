"""The dump of each kind of file: an item per entry, and a finding after the item that has it."""

import struct

import pytest

from logcheck.file_name import FileName, parse_file_name
from logcheck.finding import Damage
from logcheck.offset_index_check import PER_BATCH
from logcheck.segment_columns import SegmentColumns
from logcheck.transaction_index import ENTRY
from ottla.cli.logs.dump import (
    dump_index,
    dump_segment,
    dump_snapshot,
    dump_text_file,
    dump_transaction_index,
)
from ottla.cli.logs.item import (
    BatchItem,
    FileItem,
    FindingItem,
    Item,
    RecordItem,
    RowItem,
    Summary,
    TransactionItem,
)
from tests.unit.logcheck.partition_bytes import (
    BASE_OFFSET,
    FILE,
    RECORDS_PER_BATCH,
    BytesSource,
    build_batches,
    join,
    segment_columns,
)
from tests.unit.storage.producers.test_producer_snapshot import EMPTY, GOLDEN

BATCHES = build_batches(2)
SEGMENT = segment_columns(BATCHES)
LAST_OFFSET = BASE_OFFSET + 2 * RECORDS_PER_BATCH - 1
INDEX = FILE.replace(".log", ".index")
TIME_INDEX = FILE.replace(".log", ".timeindex")
SNAPSHOT = FILE.replace(".log", ".snapshot")


def dump(
    file: str,
    data: bytes | bytearray,
    *,
    segment: SegmentColumns | None = SEGMENT,
    with_records: bool = True,
) -> list[Item]:
    name = parse_file_name(file)
    assert isinstance(name, FileName)
    if ".log" in file:
        return list(dump_segment(BytesSource(data), file, name, with_records=with_records))
    if ".txnindex" in file:
        return list(dump_transaction_index(bytes(data), file, name))
    if "index" in file:
        return list(dump_index(bytes(data), file, name, segment, is_active=False))
    if ".snapshot" in file:
        return list(dump_snapshot(bytes(data), file, name))
    return list(dump_text_file(bytes(data), file, name))


def rows(items: list[Item]) -> list[dict[str, object]]:
    """Return the values of all rows, of a dump without findings."""
    assert damages(items) == []
    return [dict(item.values) for item in items if isinstance(item, RowItem)]


def damages(items: list[Item]) -> list[Damage]:
    return [item.finding.damage for item in items if isinstance(item, FindingItem)]


def test_dump_of_a_healthy_segment_is_complete_and_has_no_findings() -> None:
    first, *items, summary = dump(FILE, join(BATCHES))
    assert isinstance(first, FileItem)
    assert isinstance(summary, Summary)
    batch = [BatchItem, *[RecordItem] * RECORDS_PER_BATCH]
    assert [type(item) for item in items] == [*batch, *batch]
    assert (summary.finding_count, summary.counts) == (0, {"batch": 2, "record": 6})
    assert (summary.first_offset, summary.last_offset) == (BASE_OFFSET, LAST_OFFSET)
    offsets = [item.record.offset for item in items if isinstance(item, RecordItem)]
    assert offsets == list(range(BASE_OFFSET, LAST_OFFSET + 1))


def test_records_are_omitted_by_default() -> None:
    items = dump(FILE, join(BATCHES), with_records=False)
    assert [type(item) for item in items] == [FileItem, BatchItem, BatchItem, Summary]


def test_finding_follows_the_batch_that_has_it() -> None:
    data = join(BATCHES)
    data[-1] ^= 1
    _, _, broken, finding, summary = dump(FILE, data, with_records=False)
    assert isinstance(broken, BatchItem)
    assert not broken.is_intact
    assert damages([finding]) == [Damage.BAD_CRC]
    assert isinstance(summary, Summary)
    assert summary.finding_count == 1


def test_dump_of_an_index_has_an_item_per_entry() -> None:
    data = struct.pack(">ii", 2 * RECORDS_PER_BATCH - 1, len(BATCHES[0]))
    items = dump(INDEX, data)
    assert rows(items) == [{"offset": LAST_OFFSET, "position": len(BATCHES[0])}]
    summary = items[-1]
    assert isinstance(summary, Summary)
    assert (summary.shape, summary.counts) == (PER_BATCH, {"entry": 1})
    newest_ms = SEGMENT.newest_timestamp_ms
    items = dump(TIME_INDEX, struct.pack(">qi", newest_ms, 2 * RECORDS_PER_BATCH - 1))
    assert rows(items) == [{"timestamp_ms": newest_ms, "offset": LAST_OFFSET}]


@pytest.mark.parametrize("file", [INDEX, TIME_INDEX])
def test_index_without_its_segment_is_reported(file: str) -> None:
    assert damages(dump(file, bytes(24), segment=None)) == [Damage.SEGMENT_MISSING]


def test_dump_of_a_transaction_index_has_an_item_per_aborted_transaction() -> None:
    entries = (0, 7, 1_003, 1_009, 1_010), (0, 8, 1_000, 1_011, 1_012)
    data = b"".join(ENTRY.pack(*entry) for entry in entries)
    items = dump(FILE.replace(".log", ".txnindex"), data)
    assert [tuple(row.values()) for row in rows(items)] == [entry[1:] for entry in entries]
    assert items[1].to_line() == (
        "  producer_id 7, first_offset 1003, last_offset 1009, last_stable_offset 1010"
    )
    assert damages(dump(FILE.replace(".log", ".txnindex"), data[:-1])) == [Damage.TXNINDEX_CUT]


def test_records_of_the_transaction_log_are_decoded() -> None:
    name = parse_file_name(FILE)
    assert isinstance(name, FileName)
    source = BytesSource(join(BATCHES))
    items = dump_segment(source, FILE, name, with_records=True, is_transaction_log=True)
    kinds = {type(item) for item in items}
    assert TransactionItem in kinds
    assert RecordItem not in kinds


def test_dump_of_a_snapshot_has_an_item_per_producer() -> None:
    items = dump(SNAPSHOT, GOLDEN)
    assert [row["producer_id"] for row in rows(items)] == [1000, 1001, 1002]
    assert items[1].to_line() == (
        "  producer_id 1000, producer_epoch 3, last_sequence 51, last_offset 1051, offset_delta 9, "
        "timestamp_ms 1700000000001, coordinator_epoch -1, transaction_first_offset -1"
    )


@pytest.mark.parametrize(
    ("file", "data", "expected"),
    [
        (
            "recovery-point-offset-checkpoint",
            b"0\n2\norders 0 17\nmy.topic 3 0\n",
            [
                {"topic": "orders", "partition": 0, "offset": 17},
                {"topic": "my.topic", "partition": 3, "offset": 0},
            ],
        ),
        (
            "leader-epoch-checkpoint",
            b"0\n2\n0 0\n4 250\n",
            [{"leader_epoch": 0, "start_offset": 0}, {"leader_epoch": 4, "start_offset": 250}],
        ),
        ("meta.properties", b"broker.id=3\n", [{"key": "broker.id", "value": "3"}]),
        ("partition.metadata", b"version: 0\n", [{"key": "version", "value": "0"}]),
    ],
)
def test_dump_of_a_text_file_has_an_item_per_line(
    file: str, data: bytes, expected: list[dict[str, object]]
) -> None:
    assert rows(dump(file, data)) == expected


@pytest.mark.parametrize(
    ("file", "data"), [("copy.log", b""), ("7.index", b""), ("some.snapshot", EMPTY)]
)
def test_file_with_a_malformed_name_is_reported(file: str, data: bytes) -> None:
    assert damages(dump(file, data, segment=SegmentColumns(0, "log"))) == [Damage.FOREIGN_FILE]

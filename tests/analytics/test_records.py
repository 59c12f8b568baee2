"""Records of logs as a consumer receives them: spans, transactions, damage, and files that move."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from analytics.errors import DataLossError, RecordsUsageError
from analytics.file_store import list_directory, read_bytes
from analytics.records import COLUMNS
from analytics.records.log_reader import LogReader
from analytics.records.offset_choice import Isolation
from analytics.records.partition_log import PartitionLog, find_logs
from analytics.records.record_rows import LogSpan, RecordReader
from kafkawire.compression import Codec
from kafkawire.ids import TopicPartition
from tests.analytics.log_model import Bat, Log, Rec, add_checkpoint, compact, make_log
from tests.analytics.planter import Segment
from tests.analytics.test_producers import ABORT, COMMIT, data, marker

ORDERS = TopicPartition("orders", 0)
COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
HEADERS = ((b"trace", b"\x01"), (b"trace", b""), ("grüße".encode(), None))


def log_in(
    root: Path, isolation: Isolation = UNCOMMITTED, *, to_log_end: bool = False
) -> PartitionLog:
    return find_logs([str(root)], isolation, to_log_end=to_log_end)[ORDERS]


def reader_of(
    root: Path,
    start: int | None = None,
    end: int | None = None,
    *,
    isolation: Isolation = UNCOMMITTED,
    columns: tuple[str, ...] = COLUMNS,
    may_lose_data: bool = False,
) -> RecordReader:
    log = log_in(root, isolation)
    first = log.start if start is None else start
    span = LogSpan.of(log, first, log.end if end is None else end, isolation)
    return RecordReader(span, columns, may_lose_data=may_lose_data)


def rows_of(root: Path, *bounds: int, **options: Any) -> list[dict[str, Any]]:
    reader = reader_of(root, *bounds, **options)
    return [row for batch in reader.batches() for row in batch.to_pylist()]


def offsets_of(root: Path, *bounds: int, **options: Any) -> list[int]:
    return [row["offset"] for row in rows_of(root, *bounds, **options)]


def with_headers(log: Log) -> Log:
    """Return the log with headers at every seventh record."""
    segments = [
        (
            base,
            [
                replace(
                    batch,
                    records=tuple(
                        rec if rec.offset % 7 else replace(rec, headers=HEADERS)
                        for rec in batch.records
                    ),
                )
                for batch in batches
            ],
        )
        for base, batches in log.segments
    ]
    return replace(log, segments=segments)


@pytest.mark.parametrize("codec", list(Codec))
def test_every_record_has_the_columns_of_a_consumer(tmp_path: Path, codec: Codec) -> None:
    log = with_headers(make_log(codec=codec))
    log.write(tmp_path)
    expected = [
        (rec.key, rec.value, "orders", 0, rec.offset, rec.timestamp_ms, 0, headers_of(rec))
        for batch in log.batches
        for rec in batch.records
    ]
    found = [
        (*(row | {"timestamp": milliseconds(row["timestamp"])}).values(),)
        for row in rows_of(tmp_path)
    ]
    assert found == expected


def headers_of(record: Rec) -> list[dict[str, Any]] | None:
    return [{"key": key.decode(), "value": value} for key, value in record.headers] or None


def milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


@pytest.mark.parametrize(
    ("start", "end"), [(0, 400), (3, 4), (3, 8), (98, 203), (100, 200), (399, 400), (7, 7)]
)
def test_spans_have_exactly_their_offsets(tmp_path: Path, start: int, end: int) -> None:
    make_log().write(tmp_path)
    assert offsets_of(tmp_path, start, end) == list(range(start, end))


def test_a_wrong_index_only_costs_time(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    index = directory / "00000000000000000100.index"
    index.write_bytes(struct.pack(">ii", 44, 123) + struct.pack(">ii", 60, 1 << 30))
    assert offsets_of(tmp_path, 150, 190) == list(range(150, 190))
    index.unlink()
    assert offsets_of(tmp_path, 150, 190) == list(range(150, 190))


def test_records_above_the_high_watermark_are_not_visible(tmp_path: Path) -> None:
    replace(make_log(), high_watermark=333).write(tmp_path)
    assert (log_in(tmp_path).end, log_in(tmp_path).log_end) == (333, 400)
    assert offsets_of(tmp_path) == list(range(333))
    assert log_in(tmp_path, to_log_end=True).end == 400


def test_deleted_records_are_not_visible(tmp_path: Path) -> None:
    replace(make_log(), log_start=42).write(tmp_path)
    assert offsets_of(tmp_path) == list(range(42, 400))


def test_the_replica_with_the_most_visible_offsets_is_read(tmp_path: Path) -> None:
    for name, high_watermark in (("a", 100), ("b", 300), ("c", 300), ("d", 900)):
        replace(make_log(300 if name == "d" else 400), high_watermark=high_watermark).write(
            tmp_path / name
        )
    found = find_logs([str(tmp_path / name) for name in "abcd"], UNCOMMITTED)[ORDERS]
    assert (found.directory, found.end) == (str(tmp_path / "b" / "orders-0"), 300)


def test_a_place_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(RecordsUsageError, match="cannot be listed: No such file"):
        find_logs([str(tmp_path / "nothing")], UNCOMMITTED)


def test_an_empty_log_has_no_records(tmp_path: Path) -> None:
    Log(segments=[(7, [])], high_watermark=7).write(tmp_path)
    log = log_in(tmp_path, COMMITTED)
    assert (log.start, log.end, offsets_of(tmp_path)) == (7, 7, [])


# Transactions


def transactions() -> Log:
    """Return a log with a committed, an aborted and two open transactions, and a plain batch."""
    first = [data(0, 5, 0), data(5, 6, 0), marker(10, 5, ABORT), data(11, 7, 0)]
    second = [marker(16, 6, COMMIT), data(17, 5, 5), data(22, 7, 5), data(27, 6, 5)]
    return Log(segments=[(0, first), (16, second)], high_watermark=32)


def abort_entry(producer_id: int, first: int, last: int) -> bytes:
    return struct.pack(">hqqqq", 0, producer_id, first, last, last + 1)


def snapshot(offset: int, open_transactions: dict[int, int]) -> bytes:
    """Return a producer snapshot; damage of it is a wrong checksum."""
    rows = b"".join(
        struct.pack(">qhiqiqiq", producer, 0, 4, offset - 1, 4, 1, 3, first)
        for producer, first in open_transactions.items()
    )
    body = struct.pack(">i", len(open_transactions)) + rows
    return struct.pack(">hI", 1, crc32c(body)) + body


def write_transactions(root: Path) -> Path:
    directory = transactions().write(root)
    (directory / f"{0:020d}.txnindex").write_bytes(abort_entry(5, 0, 10))
    return directory


def test_committed_readers_see_neither_aborted_nor_open_transactions(tmp_path: Path) -> None:
    write_transactions(tmp_path)
    assert log_in(tmp_path, COMMITTED).end == 17
    assert offsets_of(tmp_path, isolation=COMMITTED) == [*range(5, 10), *range(11, 16)]
    records = [*range(10), *range(11, 16), *range(17, 32)]
    assert offsets_of(tmp_path, isolation=UNCOMMITTED) == records


@pytest.mark.parametrize(
    ("open_transactions", "is_sound", "end"),
    [
        pytest.param({6: 5}, True, 17, id="as the log"),
        pytest.param({6: 5, 9: 2}, True, 2, id="one from before the snapshot"),
        pytest.param({6: 5, 9: 2}, False, 17, id="a damaged snapshot"),
    ],
)
def test_open_transactions_are_those_of_the_snapshot_and_the_log(
    tmp_path: Path, open_transactions: dict[int, int], is_sound: bool, end: int
) -> None:
    directory = write_transactions(tmp_path)
    written = snapshot(16, open_transactions)
    name = directory / f"{16:020d}.snapshot"
    name.write_bytes(written if is_sound else written[:-1] + b"\x7f")
    (directory / f"{99:020d}.snapshot").write_bytes(snapshot(99, {}))
    assert log_in(tmp_path, COMMITTED).end == end


def test_a_transaction_is_open_until_its_marker_is_below_the_high_watermark(tmp_path: Path) -> None:
    replace(transactions(), high_watermark=16).write(tmp_path)
    assert log_in(tmp_path, COMMITTED).end == 5


def test_an_aborted_transaction_without_an_index_entry_is_an_error(tmp_path: Path) -> None:
    transactions().write(tmp_path)
    with pytest.raises(DataLossError, match="offset 10 aborts a transaction that is missing"):
        offsets_of(tmp_path, isolation=COMMITTED)


def test_a_damaged_transaction_index_is_an_error(tmp_path: Path) -> None:
    directory = write_transactions(tmp_path)
    (directory / f"{0:020d}.txnindex").write_bytes(abort_entry(5, 10, 0))
    with pytest.raises(DataLossError, match="txnindex_entry"):
        offsets_of(tmp_path, isolation=COMMITTED)


def test_transaction_indexes_that_a_cleaner_joins_meanwhile_are_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [data(0, 5, 0), marker(5, 5, ABORT)]
    second = [data(6, 6, 0), marker(11, 6, ABORT)]
    directory = Log(segments=[(0, first), (6, second), (12, [data(12, 7, 0)])]).write(tmp_path)
    (directory / f"{0:020d}.txnindex").write_bytes(abort_entry(5, 0, 5))
    (directory / f"{6:020d}.txnindex").write_bytes(abort_entry(6, 6, 11))
    reader = reader_of(tmp_path, isolation=COMMITTED)

    def join_and_read(place: str) -> bytes:
        for suffix in (".log", ".txnindex", ".index", ".timeindex"):
            one, two = (directory / f"{base:020d}{suffix}" for base in (0, 6))
            if two.exists():
                joined = directory / "joined.tmp"
                joined.write_bytes(one.read_bytes() + two.read_bytes())
                joined.replace(one)
                two.unlink()
        return read_bytes(place)

    monkeypatch.setattr("analytics.records.partition_log.read_bytes", join_and_read)
    found = [row["offset"] for batch in reader.batches() for row in batch.to_pylist()]
    assert found == [*range(12, 17)]


def test_emptied_batches_open_no_transaction_and_end_one(tmp_path: Path) -> None:
    batches = [
        replace(data(0, 5, 0), records=()),
        data(5, 6, 0),
        replace(marker(10, 6, COMMIT), records=()),
        data(11, 7, 0),
    ]
    Log(segments=[(0, batches)], high_watermark=16).write(tmp_path)
    assert log_in(tmp_path, COMMITTED).end == 16
    assert offsets_of(tmp_path, isolation=COMMITTED) == [*range(5, 10), *range(11, 16)]


# Damage and files that move


@pytest.mark.parametrize(
    ("position", "sentence"),
    [pytest.param(90, "bad_crc", id="a record"), pytest.param(8, "bad_length", id="a header")],
)
def test_damage_is_an_error_or_is_skipped(tmp_path: Path, position: int, sentence: str) -> None:
    segment = Segment(make_log().write(tmp_path) / "00000000000000000100.log")
    segment.flip(3, position)
    with pytest.raises(DataLossError, match=sentence):
        offsets_of(tmp_path)
    reader = reader_of(tmp_path, may_lose_data=True)
    found = [each for batch in reader.batches() for each in batch.column("offset").to_pylist()]
    assert found == [offset for offset in range(400) if offset not in range(115, 120)]
    assert [sentence in each for each in reader.lost] == [True]


@pytest.mark.parametrize("is_visible", [True, False], ids=["committed", "not replicated"])
@pytest.mark.parametrize("count", [1, 2])
def test_damage_at_the_end_of_the_log_is_an_error_below_the_high_watermark(
    tmp_path: Path, count: int, *, is_visible: bool
) -> None:
    end = 400 - 5 * count
    log = replace(make_log(), high_watermark=400 if is_visible else end)
    segment = Segment(log.write(tmp_path) / f"{300:020d}.log")
    for number in range(20 - count, 20):
        segment.flip(number, 90)
    if is_visible:
        with pytest.raises(DataLossError, match="bad_crc"):
            offsets_of(tmp_path)
    reader = reader_of(tmp_path, may_lose_data=is_visible)
    found = [each for batch in reader.batches() for each in batch.column("offset").to_pylist()]
    assert found == list(range(end))
    assert any("bad_crc" in each for each in reader.lost) == is_visible


@pytest.mark.parametrize("end", ["torn", "zeros"])
def test_an_end_that_is_being_written_is_no_damage(tmp_path: Path, end: str) -> None:
    """The high watermark is beyond the log, as after a loss of power."""
    segment = Segment(make_log().write(tmp_path) / f"{300:020d}.log")
    last = segment.batches[-1]
    segment.batches[-1] = last[:-3] if end == "torn" else bytes(1_000)
    segment.save()
    assert offsets_of(tmp_path) == list(range(395))


def test_a_replica_without_damage_at_its_end_is_preferred(tmp_path: Path) -> None:
    for name in "ab":
        make_log().write(tmp_path / name)
    Segment(tmp_path / "a" / "orders-0" / f"{300:020d}.log").flip(19, 90)
    found = find_logs([str(tmp_path / name) for name in "ab"], UNCOMMITTED)[ORDERS]
    assert found.directory == str(tmp_path / "b" / "orders-0")


def test_a_transaction_whose_marker_may_be_damaged_is_an_error_or_counts_as_ended(
    tmp_path: Path,
) -> None:
    log = Log(segments=[(0, [data(0, 5, 0), marker(5, 5, COMMIT), data(6, 6, 0)])])
    segment = Segment(log.write(tmp_path) / f"{0:020d}.log")
    assert log_in(tmp_path, COMMITTED).end == 6
    segment.flip(1, 70)
    with pytest.raises(DataLossError, match="bad_crc"):
        log_in(tmp_path, COMMITTED)
    [skipped] = find_logs([str(tmp_path)], COMMITTED, may_lose_data=True).values()
    assert skipped.end == 6


@pytest.mark.parametrize("damaged", ["a", "b"])
@pytest.mark.parametrize("may_lose_data", [False, True])
def test_a_replica_without_a_damaged_marker_is_preferred(
    tmp_path: Path, damaged: str, *, may_lose_data: bool
) -> None:
    batches = [data(0, 5, 0), marker(5, 5, COMMIT), data(6, 6, 0)]
    for name in "ab":
        directory = Log(segments=[(0, batches)]).write(tmp_path / name)
        if name == damaged:
            Segment(directory / f"{0:020d}.log").flip(1, 70)
    places = [str(tmp_path / name) for name in "ab"]
    found = find_logs(places, COMMITTED, may_lose_data=may_lose_data)[ORDERS]
    sound = "b" if damaged == "a" else "a"
    assert (found.directory, found.end) == (str(tmp_path / sound / "orders-0"), 6)


def test_a_damaged_marker_is_an_error_if_the_sound_replica_ends_before_its_transaction(
    tmp_path: Path,
) -> None:
    batches = [data(0, 5, 0), marker(5, 5, COMMIT), data(6, 6, 0), marker(11, 6, COMMIT)]
    Log(segments=[(0, batches[:1])]).write(tmp_path / "a")
    Segment(Log(segments=[(0, batches)]).write(tmp_path / "b") / f"{0:020d}.log").flip(3, 70)
    with pytest.raises(DataLossError, match="the end of a transaction may be"):
        find_logs([str(tmp_path / name) for name in "ab"], COMMITTED)


def test_records_without_reliable_offsets_are_damage(tmp_path: Path) -> None:
    log = make_log(20)
    base, batches = log.segments[0]
    records = batches[1].records
    wrong = replace(batches[1], records=(*records[:2], records[1], *records[3:]))
    replace(log, segments=[(base, [batches[0], wrong, *batches[2:]])]).write(tmp_path)
    with pytest.raises(DataLossError, match="record_offset"):
        offsets_of(tmp_path)


def test_damage_outside_the_span_is_no_error(tmp_path: Path) -> None:
    segment = Segment(make_log().write(tmp_path) / "00000000000000000100.log")
    segment.flip(3, 90)
    assert offsets_of(tmp_path, 0, 115) == list(range(115))
    assert offsets_of(tmp_path, 200, 400) == list(range(200, 400))


def test_batches_that_overlap_yield_no_offset_twice(tmp_path: Path) -> None:
    segment = Segment(make_log().write(tmp_path) / "00000000000000000100.log")
    segment.patch(7, 0, (133).to_bytes(8, "big"))
    found = offsets_of(tmp_path)
    assert found == sorted(set(found))


def test_retention_meanwhile_is_an_error_or_is_skipped(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    reader = reader_of(tmp_path, 20, 400)
    skipping = reader_of(tmp_path, 20, 400, may_lose_data=True)
    (directory / "00000000000000000000.log").unlink()
    with pytest.raises(DataLossError, match="begins at offset 100, expected 20"):
        list(reader.batches())
    found = [each for batch in skipping.batches() for each in batch.column("offset").to_pylist()]
    assert found == list(range(100, 400))
    assert len(skipping.lost) == 1


def test_retention_meanwhile_may_be_allowed(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    reader = LogReader(str(directory), 20, 400, may_begin_later=True)
    (directory / "00000000000000000000.log").unlink()
    found = [piece.batch.header.base_offset for piece in reader.pieces()]
    assert found == list(range(100, 400, 5))
    assert (reader.deleted, reader.lost) == ([(20, 99)], [])


def test_a_span_before_the_deleted_part_of_a_log_yields_nothing(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    reader = reader_of(tmp_path, 20, 40, may_lose_data=True)
    (directory / "00000000000000000000.log").unlink()
    assert list(reader.batches()) == []


def test_a_log_that_was_truncated_meanwhile_is_an_error(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    reader = reader_of(tmp_path)
    (directory / "00000000000000000300.log").write_bytes(b"")
    with pytest.raises(DataLossError, match="ends at offset 300, expected 400"):
        list(reader.batches())


def pieces_while(root: Path, change_at: int) -> Iterator[int]:
    """Yield the last offsets of the batches; compact the log after the batch at `change_at`."""
    directory = root / "orders-0"
    for piece in LogReader(str(directory), 0, 400).pieces():
        if piece.batch.header.base_offset == change_at:
            for file in directory.glob("0*"):
                file.unlink()
            compact(make_log()).write(root)
        yield piece.batch.header.last_offset


@pytest.mark.parametrize("change_at", [0, 95, 100, 250, 300, 395])
def test_a_log_compacted_meanwhile_is_read_on_at_the_next_offset(
    tmp_path: Path, change_at: int
) -> None:
    make_log().write(tmp_path)
    found = list(pieces_while(tmp_path, change_at))
    assert found == sorted(set(found))
    remaining = {batch.last for batch in compact(make_log()).batches}
    assert set(found) >= {offset for offset in remaining if offset > change_at}


def test_the_directory_is_not_listed_again_for_each_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = make_log(400, per_segment=1).write(tmp_path)
    listings: list[str] = []

    def count(place: str) -> Any:
        listings.append(place)
        return list_directory(place)

    monkeypatch.setattr("analytics.records.log_reader.list_directory", count)
    assert len(list(LogReader(str(directory), 0, 400).pieces())) == 80
    assert len(listings) == 2


def test_a_roll_meanwhile_is_read(tmp_path: Path) -> None:
    directory = make_log(100).write(tmp_path)
    reader = LogReader(str(directory), 0, 400)
    found = []
    for piece in reader.pieces():
        if piece.batch.header.base_offset == 95:
            make_log().write(tmp_path)
        found.append(piece.batch.header.base_offset)
    assert found == list(range(0, 400, 5))


def test_timestamps_outside_the_column_are_null(tmp_path: Path) -> None:
    times = (0, -1, 2**62, 1_700_000_000_123)
    records = tuple(Rec(offset, b"k", b"v", time) for offset, time in enumerate(times))
    Log(segments=[(0, [Bat(0, 3, records)])]).write(tmp_path)
    reader = reader_of(tmp_path, columns=("timestamp",))
    [batch] = reader.batches()
    found = batch.column(0).cast("int64").to_pylist()
    assert found == [0, -1000, None, 1_700_000_000_123_000]


def test_the_time_of_the_broker_has_its_type(tmp_path: Path) -> None:
    segment = Segment(make_log(20).write(tmp_path) / "00000000000000000000.log")
    segment.patch(1, 21, struct.pack(">h", 8), with_crc=True)
    rows = rows_of(tmp_path, columns=("timestampType", "timestamp"))
    assert [row["timestampType"] for row in rows] == [0] * 5 + [1] * 5 + [0] * 10
    assert len({row["timestamp"] for row in rows[5:10]}) == 1


def test_checkpoints_without_the_partition_make_nothing_visible(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    (tmp_path / "replication-offset-checkpoint").unlink()
    assert log_in(tmp_path).end == 400
    add_checkpoint(tmp_path / "replication-offset-checkpoint", "others", 0, 3)
    assert log_in(tmp_path).end == 0
    assert directory.exists()

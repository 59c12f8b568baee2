"""Records as Arrow columns, range by range, without Spark."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analytics.data_source import SegmentReader
from analytics.decode import SCHEMA, arrow_type, decode
from analytics.discovery import find_replicas
from analytics.pushdown import Wanted
from analytics.segment_range import cut_replicas
from kafkawire.compression import Codec
from tests.analytics.log_model import Log, make_log
from tests.analytics.planter import Segment, edit

ALL = [column.split()[0] for column in SCHEMA.split(", ")]
SMALL = 700


def rows_of(root: Path, columns: list[str], range_bytes: int = SMALL) -> list[dict[str, Any]]:
    ranges = cut_replicas(find_replicas(str(root), lambda _: None), range_bytes)
    return [row for each in ranges for batch in decode(each, columns) for row in batch.to_pylist()]


def expected(log: Log) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.timestamp_ms, record.key, record.value)
        for batch in log.batches
        for record in batch.records
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_ranges_of_any_size_yield_every_record_once(tmp_path: Path, codec: Codec) -> None:
    log = make_log(codec=codec)
    log.write(tmp_path)
    ranges = cut_replicas(find_replicas(str(tmp_path), lambda _: None), SMALL)
    assert len(ranges) > len(log.segments), "no segment was cut into ranges"
    columns = ["offset", "timestamp_ms", "key", "value"]
    assert [tuple(row.values()) for row in rows_of(tmp_path, columns)] == expected(log)


def test_tombstones_and_empty_values_differ(tmp_path: Path) -> None:
    log = make_log(40)
    first = log.segments[0][1][0]
    records = (
        replace(first.records[0], value=None),
        replace(first.records[1], value=b""),
        replace(first.records[2], key=None),
        replace(first.records[3], key=b""),
        first.records[4],
    )
    log.segments[0][1][0] = replace(first, records=records)
    log.write(tmp_path)
    rows = rows_of(tmp_path, ["key", "value", "key_bytes", "value_bytes"])
    assert [row["value"] for row in rows[:2]] == [None, b""]
    assert [row["value_bytes"] for row in rows[:2]] == [-1, 0]
    assert [row["key"] for row in rows[2:4]] == [None, b""]
    assert [row["key_bytes"] for row in rows[2:4]] == [-1, 0]


def test_every_column_has_its_type_and_place(tmp_path: Path) -> None:
    make_log(20).write(tmp_path)
    [place] = cut_replicas(find_replicas(str(tmp_path), lambda _: None))
    [batch] = list(decode(place, ALL))
    assert batch.schema.names == ALL
    assert batch.num_rows == 20
    row = batch.to_pylist()[7]
    assert (row["topic"], row["partition"], row["offset"], row["base_offset"]) == (
        "orders",
        0,
        7,
        5,
    )
    with pytest.raises(KeyError):
        arrow_type("no such column")


def test_damage_is_a_row_and_the_other_records_are_read(tmp_path: Path) -> None:
    segment = Segment(make_log().write(tmp_path) / "00000000000000000100.log")
    segment.flip(3, 90)
    rows = rows_of(tmp_path, ["offset", "finding", "position"], 1 << 20)
    [finding] = [row for row in rows if row["finding"]]
    assert (finding["finding"], finding["offset"]) == ("bad_crc", 115)
    assert sorted(row["offset"] for row in rows if not row["finding"]) == [
        offset for offset in range(400) if offset not in range(115, 120)
    ]


def test_a_wrong_index_is_not_used_for_cuts(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    sound = cut_replicas(find_replicas(str(tmp_path), lambda _: None), SMALL)
    edit(directory / "00000000000000000100.index", lambda data: data.__setitem__(7, data[7] ^ 1))
    entry = (directory / "00000000000000000100.index").read_bytes()[4:8]
    cut = cut_replicas(find_replicas(str(tmp_path), lambda _: None), int.from_bytes(entry, "big"))
    assert not [each for each in cut if "0100.log" in each.file and each.start > 0]
    assert [each for each in sound if "0100.log" in each.file and each.start > 0]


def test_missing_file_is_a_row(tmp_path: Path) -> None:
    directory = make_log().write(tmp_path)
    ranges = cut_replicas(find_replicas(str(tmp_path), lambda _: None))
    (directory / "00000000000000000100.log").unlink()
    rows = [row for each in ranges for batch in decode(each, ALL) for row in batch.to_pylist()]
    assert [row["finding"] for row in rows if row["finding"]] == ["file_vanished"]


def test_filters_skip_partitions_and_ranges(tmp_path: Path) -> None:
    for partition in range(2):
        make_log(partition=partition).write(tmp_path)
    options = {"path": str(tmp_path), "range.bytes": str(SMALL)}
    everything = SegmentReader(ALL, options).partitions()
    wanted = Wanted()
    assert wanted.equal("partition", 1)
    assert not wanted.equal("partition", 0), "Spark must apply a contradictory filter"
    assert not wanted.equal("offset", 150)
    assert not wanted.equal("value", b"x")
    ranges = cut_replicas(find_replicas(str(tmp_path), lambda _: None), SMALL)
    mine = [each for each in ranges if wanted.is_wanted(each.topic, each.partition)]
    [only] = list(wanted.choose(mine))
    assert only.first_offset <= 150
    assert len(everything) == len(ranges) > 2 * len(list(wanted.choose(ranges)))
    offsets = [
        offset
        for batch in decode(only, ["offset"], until_offset=wanted.end_offset)
        for offset in batch.column(0).to_pylist()
    ]
    assert 150 in offsets
    assert max(offsets) < 155, "the walk did not stop after the wanted batch"

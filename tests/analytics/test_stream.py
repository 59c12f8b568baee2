"""The stream over a growing log, from offset to offset."""

import errno
import shutil
import struct
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analytics.file_store import OpenFile, list_directory
from analytics.stream_batches import read_batches
from analytics.stream_progress import LogEnd, LogEnds
from logcheck.replica_files import Entry
from tests.analytics.integrity_violations import INTEGRITY
from tests.analytics.log_model import Log, compact, make_log, write_segment
from tests.analytics.planter import Segment, segments

START = LogEnd()


def grown(at: Path, batches: int, log: Log | None = None) -> None:
    """Write the first `batches` batches of a log."""
    left = batches
    directory = at / "orders-0"
    directory.mkdir(parents=True, exist_ok=True)
    for base, all_batches in (log or make_log()).segments:
        is_active = left <= len(all_batches)
        write_segment(directory, base, all_batches[:left], is_active=is_active)
        left -= len(all_batches)
        if is_active:
            break


def end_of(at: Path) -> LogEnd:
    [end] = LogEnds().find(str(at)).values()
    return end


def rows(at: Path, start: LogEnd = START, end: LogEnd | None = None) -> list[tuple[object, ...]]:
    return list(read_batches(str(at), "orders-0", start, end or end_of(at)))


def test_stream_yields_each_batch_once_across_rolls_and_torn_writes(tmp_path: Path) -> None:
    start, seen = START, []
    for batches in (3, 17, 25, 40, 80):
        grown(tmp_path, batches)
        last = segments(tmp_path / "orders-0")[-1]
        last.append(last.batches[0][:40])
        end = end_of(tmp_path)
        seen += rows(tmp_path, start, end)
        start = end
    assert [row[4] for row in seen] == list(range(0, 400, 5))
    assert {row[10] for row in seen} == {None}


def test_unchanged_log_yields_no_row(tmp_path: Path) -> None:
    grown(tmp_path, 10)
    assert rows(tmp_path, end_of(tmp_path)) == []


def test_segments_deleted_by_retention_are_no_finding(tmp_path: Path) -> None:
    make_log().write(tmp_path)
    for path in (tmp_path / "orders-0").glob("00000000000000000000.*"):
        path.unlink()
    assert {row[10] for row in rows(tmp_path)} == {None}


def test_batches_deleted_by_retention_before_they_were_read_are_no_gap(tmp_path: Path) -> None:
    grown(tmp_path, 10)
    start = end_of(tmp_path)
    make_log().write(tmp_path)
    for path in (tmp_path / "orders-0").glob("00000000000000000000.*"):
        path.unlink()
    assert [(row[4], row[10]) for row in rows(tmp_path, start)] == [
        (offset, None) for offset in range(100, 400, 5)
    ]


@pytest.mark.parametrize(
    ("error", "kinds"),
    [(FileNotFoundError(), set()), (OSError(errno.EIO, "broken"), {"unreadable_file"})],
    ids=["deleted", "broken"],
)
def test_a_segment_that_cannot_be_read_is_a_row_unless_it_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, kinds: set[str]
) -> None:
    make_log().write(tmp_path)
    end = end_of(tmp_path)

    def open_file(place: str) -> OpenFile:
        if place.endswith("100.log"):
            raise error
        return OpenFile(place)

    monkeypatch.setattr("analytics.stream_batches.OpenFile", open_file)
    found = rows(tmp_path, end=end)
    offsets = [row[4] for row in found if row[10] is None]
    assert offsets == [*range(0, 100, 5), *range(200, 400, 5)]
    assert {row[10] for row in found} - {None} == kinds


PLANTS: dict[str, tuple[Callable[[Segment], None], tuple[str, int]]] = {
    "crc": (lambda one: one.flip(7, 90), ("bad_crc", 135)),
    "gap": (lambda one: one.reorder([*range(7), *range(8, 20)]), ("offset_gap", 140)),
    "epoch": (lambda one: one.patch(6, 12, b"\0\0\0\1"), ("epoch_back", 135)),
    "records": (lambda one: one.patch(7, 61, b"\xff\xff", with_crc=True), ("bad_records", 135)),
}


@pytest.mark.parametrize("name", PLANTS)
def test_damage_is_a_row(tmp_path: Path, name: str) -> None:
    plant, expected = PLANTS[name]
    make_log().write(tmp_path)
    plant(Segment(tmp_path / "orders-0" / "00000000000000000100.log"))
    found = [(row[10], row[4]) for row in rows(tmp_path) if row[10]]
    assert found[0] == expected


@pytest.mark.parametrize(
    ("policy", "severity"), [(None, "note"), ("compact", "note"), ("delete", "error")]
)
@pytest.mark.parametrize("point", [None, 100, 300])
def test_a_gap_that_a_cleaner_may_have_left_is_at_most_a_note(
    tmp_path: Path, point: int | None, policy: str | None, severity: str
) -> None:
    """A new replica of a compacted log copies cleaned batches, and has no cleaner's point."""
    log = compact(make_log(400, 200))
    base, cleaned = log.segments[0]
    # A batch is missing, too, whose keys have later records.
    kept = [each for each in cleaned if each.first not in (150, 200)]
    replace(log, segments=[(base, kept), log.segments[1]], cleaner_point=point).write(tmp_path)
    batches = read_batches(
        str(tmp_path), "orders-0", START, end_of(tmp_path), cleanup_policy=policy
    )
    gaps = {(row[10], row[13]) for row in batches if row[10]}
    if point is None:
        assert gaps == {("offset_gap", severity)}
    else:
        # An entry of the cleaner contradicts the rule.
        assert gaps <= {("offset_gap", "warning" if policy == "delete" else "note")}
    assert bool(gaps) == (point != 300)


def test_the_rows_of_a_stream_have_the_columns_of_its_schema(tmp_path: Path) -> None:
    from analytics.stream_source import SCHEMA

    grown(tmp_path, 10)
    assert {len(row) for row in rows(tmp_path)} == {len(SCHEMA.split(","))}


def test_truncated_log_is_read_from_its_start(tmp_path: Path) -> None:
    ends = LogEnds()
    grown(tmp_path, 15)
    assert ends.find(str(tmp_path))["orders-0"][:3] == (75, 0, 0)
    segment = segments(tmp_path / "orders-0")[0]
    segment.reorder(range(9))
    assert ends.find(str(tmp_path))["orders-0"][:3] == (45, 0, 0)
    grown(tmp_path, 30)
    assert ends.find(str(tmp_path))["orders-0"][:3] == (150, 0, 100)


INDEXES = [
    "an index entry inside a batch",
    "an index entry off by one batch",
    "an index entry with a wrong offset",
    "two index entries swapped",
    "a hole in the index",
    "a truncated index entry",
    "a missing index",
    "a missing time index",
    "a time index out of order",
    "a time index entry that is not the maximum",
    "a time index entry with a wrong offset",
    "a missing last entry of the time index",
]


@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("read_before", [0, 18, 20, 22])
def test_faulty_index_entry_is_a_row(tmp_path: Path, name: str, read_before: int) -> None:
    start = START
    if read_before:
        grown(tmp_path, read_before)
        start = end_of(tmp_path)
    make_log().write(tmp_path)
    expected = INTEGRITY[name](tmp_path / "orders-0")
    found = [row for row in rows(tmp_path, start) if row[10]]
    assert {(row[10], Path(str(row[2])).name, row[4]) for row in found} == expected
    assert len(found) == len(expected)
    assert rows(tmp_path, end_of(tmp_path)) == [], "a finding was reported twice"


def test_correct_entries_after_a_faulty_one_are_no_finding(tmp_path: Path) -> None:
    grown(tmp_path, 34)
    index, times = (tmp_path / "orders-0" / f"{100:020d}.{kind}" for kind in ("index", "timeindex"))
    for path, layout in ((index, ">ii"), (times, ">qi")):
        size = struct.calcsize(layout)
        first, second = struct.unpack(layout, path.read_bytes()[-size:])
        path.write_bytes(path.read_bytes()[:-size] + struct.pack(layout, first + 1, second + 3))
    kinds = [row[10] for row in rows(tmp_path) if row[10]]
    assert kinds == ["index_position", "time_maximum"]
    start = end_of(tmp_path)
    wrong = {path: path.read_bytes() for path in (index, times)}
    grown(tmp_path, 80)
    for path, data in wrong.items():
        path.write_bytes(data + path.read_bytes()[len(data) :])
    assert [row for row in rows(tmp_path, start) if row[10]] == []


def test_strict_stream_reports_the_sparse_index_shape(tmp_path: Path) -> None:
    grown(tmp_path, 40)
    segment = segments(tmp_path / "orders-0")[1]
    entries = [(49, segment.position(0)), (99, segment.position(10))]
    index = segment.path.with_suffix(".index")
    index.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    end = end_of(tmp_path)
    assert [row for row in rows(tmp_path) if row[10]] == []
    strict = read_batches(str(tmp_path), "orders-0", START, end, is_strict=True)
    assert [row[10] for row in strict if row[10]] == ["index_offset"] * 2


def test_cleaned_log_is_no_finding(tmp_path: Path) -> None:
    log = compact(make_log())
    log.write(tmp_path)
    assert {row[10] for row in rows(tmp_path)} == {None}


cuts = st.lists(st.integers(1, 80), max_size=6)
ages = st.lists(st.integers(0, 200), min_size=80, max_size=80)


@settings(max_examples=40, deadline=None)
@given(cuts, ages)
def test_stream_restarted_anywhere_finds_a_sound_log_sound(
    stops: list[int], ages_ms: list[int]
) -> None:
    log = make_log()
    aged = [
        replace(
            batch,
            records=tuple(
                replace(rec, timestamp_ms=rec.timestamp_ms - age) for rec in batch.records
            ),
        )
        for batch, age in zip(log.batches, ages_ms, strict=True)
    ]
    log = replace(
        log, segments=[(base, aged[base // 5 : base // 5 + 20]) for base, _ in log.segments]
    )
    with tempfile.TemporaryDirectory() as folder:
        start, seen = START, []
        for stop in [*sorted(stops), 80]:
            grown(Path(folder), stop, log)
            end = end_of(Path(folder))
            seen += rows(Path(folder), start, end)
            start = end
    assert [(row[4], row[10]) for row in seen] == [(offset, None) for offset in range(0, 400, 5)]


def test_repeated_offset_is_a_row(tmp_path: Path) -> None:
    segment = Segment(make_log().write(tmp_path) / "00000000000000000100.log")
    segment.patch(7, 0, (133).to_bytes(8, "big"))
    found = [(row[10], row[4]) for row in rows(tmp_path) if row[10]]
    assert found[0] == ("offset_overlap", 133)


def test_a_task_lists_the_directory_of_its_own_log_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition in range(3):
        make_log(partition=partition).write(tmp_path)
    end, listed = LogEnds().find(str(tmp_path))["orders-1"], list[str]()

    def list_one(place: str) -> list[Entry]:
        listed.append(Path(place).name)
        return list_directory(place)

    monkeypatch.setattr("analytics.discovery.list_directory", list_one)
    for place in (tmp_path, tmp_path / "orders-1"):
        assert len(list(read_batches(str(place), "orders-1", START, end))) == 80
    assert set(listed) == {"orders-1", tmp_path.name}


def test_a_log_that_is_deleted_after_the_plan_has_no_rows(tmp_path: Path) -> None:
    make_log().write(tmp_path)
    end = end_of(tmp_path)
    shutil.rmtree(tmp_path / "orders-0")
    assert rows(tmp_path, end=end) == []
    with pytest.raises(FileNotFoundError):
        rows(tmp_path / "gone", end=end)

"""Index files: entries in memory and on disk; full, truncated and reopened files."""

import os
import struct
from pathlib import Path

import pytest

from kafkawire.ids import Offset
from storage.segment.index_file import PENDING_ENTRIES, IndexFile
from storage.segment.offset_index import IndexEntry, OffsetIndex
from storage.segment.time_index import TimeIndex, TimeIndexEntry

BASE = Offset(1_000)


@pytest.fixture
def offsets(tmp_path: Path) -> OffsetIndex:
    index = OffsetIndex(tmp_path / "1.index", BASE, 800)
    index.file.create()
    return index


@pytest.fixture
def times(tmp_path: Path) -> TimeIndex:
    index = TimeIndex(tmp_path / "1.timeindex", BASE, 60)
    index.create()
    return index


def entry(offset: int, position: int) -> IndexEntry:
    return IndexEntry(Offset(offset), position)


@pytest.mark.parametrize("is_closed", [False, True], ids=["in memory", "in the file"])
def test_lookup_gives_the_last_entry_at_or_below(offsets: OffsetIndex, is_closed: bool) -> None:
    for number in range(1, 6):
        offsets.append(Offset(BASE + number * 10), number * 100)
    if is_closed:
        offsets.file.finish()
    assert offsets.lookup(Offset(BASE)) == entry(BASE, 0)
    assert offsets.lookup(Offset(BASE + 9)) == entry(BASE, 0)
    assert offsets.lookup(Offset(BASE + 10)) == entry(BASE + 10, 100)
    assert offsets.lookup(Offset(BASE + 29)) == entry(BASE + 20, 200)
    assert offsets.lookup(Offset(BASE + 99)) == entry(BASE + 50, 500)
    assert offsets.last_entry() == entry(BASE + 50, 500)
    assert len(offsets) == 5


@pytest.mark.parametrize("is_closed", [False, True], ids=["in memory", "in the file"])
def test_the_end_of_a_region_is_found_from_its_start_on(
    offsets: OffsetIndex, is_closed: bool
) -> None:
    for number in range(1, 60):
        offsets.append(Offset(BASE + number), number * 100)
    if is_closed:
        offsets.file.finish()
    for start in range(60):
        offsets.lookup(Offset(BASE + start))
        for end in (start, start + 1, start + 7, 99):
            found = offsets.last_entry_in(start * 100, end * 100 + 50, 99)
            last = min(end, 59)
            assert found == (entry(BASE + last, last * 100) if last > start else None)


def test_end_of_a_region_is_found_after_any_lookup(
    offsets: OffsetIndex,
) -> None:
    for number in range(1, 60):
        offsets.append(Offset(BASE + number), number * 100)
    offsets.lookup(Offset(BASE + 50))
    assert offsets.last_entry_in(0, 250, 99) == entry(BASE + 2, 200)
    offsets.truncate_to(Offset(BASE + 20))
    assert offsets.last_entry_in(0, 250, 99) == entry(BASE + 2, 200)


def test_an_empty_index_starts_everything_at_the_head(offsets: OffsetIndex) -> None:
    assert offsets.lookup(Offset(BASE + 5)) == entry(BASE, 0)
    assert offsets.last_entry_in(0, 10_000, 4_096) is None
    assert offsets.last_entry() is None


def test_a_closed_index_of_many_pages_is_searched(tmp_path: Path) -> None:
    index = TimeIndex(tmp_path / "many.timeindex", BASE, 12 * 3_000)
    index.create()
    for number in range(2_000):
        index.maybe_append(number * 10, Offset(BASE + number))
    index.file.finish()
    for number in (0, 1, 511, 512, 513, 1_023, 1_024, 1_999):
        assert index.lookup(number * 10 + 9) == (number * 10, BASE + number)
        assert index.slot_of(Offset(BASE + number)) == number
    assert index.last_entry() == (19_990, BASE + 1_999)


@pytest.mark.parametrize(
    ("offset", "left"), [(9, 0), (10, 0), (11, 1), (20, 1), (21, 2), (50, 4), (51, 5), (99, 5)]
)
def test_truncation_drops_entries_from_the_offset_on(
    offsets: OffsetIndex, offset: int, left: int
) -> None:
    for number in range(1, 6):
        offsets.append(Offset(BASE + number * 10), number * 100)
    offsets.file.write_pending()
    offsets.truncate_to(Offset(BASE + offset))
    assert len(offsets) == left
    offsets.append(Offset(BASE + 60), 600)
    offsets.file.finish()
    assert offsets.file.path.stat().st_size == (left + 1) * 8
    assert offsets.last_entry() == entry(BASE + 60, 600)


def test_index_file_is_written_in_steps_and_at_every_sync(offsets: OffsetIndex) -> None:
    written = []
    for number in range(1, PENDING_ENTRIES + 7):
        offsets.append(Offset(BASE + number), number)
        entries = list(struct.iter_unpack(">ii", offsets.file.path.read_bytes()))
        written.append(sum(1 for entry in entries if entry != (0, 0)))
        assert entries[: written[-1]] == [(each, each) for each in range(1, written[-1] + 1)]
    assert sorted(set(written)) == [1, 2, 4, 8, 16, 32, 64]
    offsets.file.sync()
    assert struct.unpack_from(">ii", offsets.file.path.read_bytes(), 8 * 69) == (70, 70)


def test_an_index_is_full_when_no_entry_fits(offsets: OffsetIndex, times: TimeIndex) -> None:
    for number in range(1, 101):
        assert not offsets.is_full
        offsets.append(Offset(BASE + number), number)
    assert offsets.is_full
    for number in range(4):
        assert not times.is_full
        times.maybe_append(number, Offset(BASE + number))
    # One slot is reserved for the closing entry.
    assert times.is_full


def test_only_a_larger_timestamp_adds_an_entry(times: TimeIndex) -> None:
    for timestamp_ms, offset in ((-1, 0), (100, 1), (100, 2), (50, 3), (200, 4)):
        times.maybe_append(timestamp_ms, Offset(BASE + offset))
    assert times.file.read_all() == [(100, 1), (200, 4)]
    assert times.lookup(99) == TimeIndexEntry(-1, BASE)
    assert times.lookup(100) == TimeIndexEntry(100, Offset(BASE + 1))
    assert times.lookup(199) == TimeIndexEntry(100, Offset(BASE + 1))
    assert times.lookup(10**15) == TimeIndexEntry(200, Offset(BASE + 4))


def test_truncated_time_entries_can_be_added_again(times: TimeIndex) -> None:
    times.maybe_append(100, Offset(BASE + 1))
    times.maybe_append(200, Offset(BASE + 4))
    times.truncate_after(Offset(BASE + 3))
    assert times.last_entry() == TimeIndexEntry(100, Offset(BASE + 1))
    times.maybe_append(150, Offset(BASE + 4))
    assert times.last_entry() == TimeIndexEntry(150, Offset(BASE + 4))
    times.truncate_after(Offset(BASE - 1))
    assert times.last_entry() is None
    times.maybe_append(1, BASE)
    assert len(times) == 1


def test_a_closed_index_is_opened_and_written_again(offsets: OffsetIndex, tmp_path: Path) -> None:
    offsets.append(Offset(BASE + 1), 100)
    offsets.file.finish()
    offsets.file.finish()
    offsets.file.release()
    offsets.file.release()
    again = OffsetIndex(tmp_path / "1.index", BASE, 80)
    assert again.file.open() == 0
    assert again.lookup(Offset(BASE + 5)) == entry(BASE + 1, 100)
    again.file.make_writable()
    assert again.file.path.stat().st_size == 80
    again.append(Offset(BASE + 2), 200)
    again.file.finish()
    assert again.file.path.read_bytes() == struct.pack(">iiii", 1, 100, 2, 200)


def test_a_lowered_limit_cuts_no_entry(offsets: OffsetIndex, tmp_path: Path) -> None:
    for number in range(1, 6):
        offsets.append(Offset(BASE + number), number)
    offsets.file.finish()
    again = OffsetIndex(tmp_path / "1.index", BASE, 16)
    again.file.open()
    again.file.make_writable()
    assert again.is_full
    again.file.finish()
    assert again.file.path.stat().st_size == 40


def test_incomplete_entry_of_an_index_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "1.timeindex"
    path.write_bytes(bytes(12 * 3 + 5))
    file = IndexFile(path, "qi", 100)
    assert file.open() == 5
    assert len(file.keys) == 3
    assert file.read_all() == [(0, 0)] * 3
    with pytest.raises(IndexError):
        file.keys[3]
    assert file.keys[-1] == 0


def test_sync_of_a_deleted_index_succeeds(tmp_path: Path) -> None:
    file = IndexFile(tmp_path / "0.index", "ii", 800)
    file.create()
    file.append(1, 2)
    file.finish()
    file.release()
    file.sync()
    file.path.unlink()
    file.sync()


def test_creation_replaces_a_link_and_a_pipe(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"untouched")
    link, pipe = IndexFile(tmp_path / "0.index", "ii", 800), IndexFile(tmp_path / "1", "ii", 800)
    link.path.symlink_to(other)
    os.mkfifo(pipe.path)
    for file in (link, pipe):
        file.create()
        assert file.path.lstat().st_size == 800
    assert other.read_bytes() == b"untouched"

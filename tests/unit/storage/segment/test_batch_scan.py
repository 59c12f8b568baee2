"""Reads detect damage within a log, and serve nothing behind it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.ids import Offset
from storage.config.log_config import LogConfig
from storage.errors import CorruptLogError, OffsetOverflowError
from storage.segment.batch_scan import find_batch, last_boundary, walk_headers, walk_produced
from storage.segment.log_file import LogFile
from storage.segment.segment import Segment
from tests.unit.storage.logs import NOW_MS, append, fill, offsets_in, open_log, read, replicated
from tests.unit.storage.produced_batches import produced

Change = Callable[[bytearray, int], None]


def wrong_magic(data: bytearray, position: int) -> None:
    data[position + 16] = 1


def short_length(data: bytearray, position: int) -> None:
    data[position + 8 : position + 12] = bytes(4)


def long_length(data: bytearray, position: int) -> None:
    data[position + 8] = 0x7F


def negative_delta(data: bytearray, position: int) -> None:
    data[position + 23] = 0xFF


def file_of(tmp_path: Path, data: bytes | bytearray) -> LogFile:
    path = tmp_path / "x.log"
    path.write_bytes(data)
    return LogFile(path, len(data))


BATCHES = [replicated(number * 3, 3) for number in range(10)]
SIZE = len(BATCHES[0])
DATA = b"".join(BATCHES)


@pytest.mark.parametrize("change", [wrong_magic, short_length, negative_delta])
def test_scan_stops_at_bytes_that_are_not_a_batch(tmp_path: Path, change: Change) -> None:
    data = bytearray(DATA)
    change(data, 4 * SIZE)
    file = file_of(tmp_path, data)
    assert find_batch(file, 0, len(data), 11) == (3 * SIZE, SIZE, 9, 11)
    for offset in (12, 20, 99):
        with pytest.raises(CorruptLogError, match=f"byte {4 * SIZE}: no batch"):
            find_batch(file, 0, len(data), offset)
    with pytest.raises(CorruptLogError, match=f"byte {4 * SIZE}"):
        list(walk_headers(file, 0, len(data)))


@pytest.mark.parametrize("change", [wrong_magic, short_length])
def test_region_ends_before_damage(tmp_path: Path, change: Change) -> None:
    data = bytearray(DATA)
    change(data, 4 * SIZE)
    file = file_of(tmp_path, data)
    assert last_boundary(file, 0, len(data), 3 * SIZE + 1) == 3 * SIZE
    assert last_boundary(file, 0, len(data), 7 * SIZE) == 4 * SIZE
    with pytest.raises(CorruptLogError, match="no batch"):
        last_boundary(file, 4 * SIZE, len(data), 7 * SIZE)
    with pytest.raises(CorruptLogError, match="no batch"):
        last_boundary(file, 6 * SIZE, len(data), 8 * SIZE, first_last_offset=19)


def test_batch_beyond_the_end_of_the_file_is_corrupt(tmp_path: Path) -> None:
    data = bytearray(DATA)
    long_length(data, 9 * SIZE)
    file = file_of(tmp_path, data)
    with pytest.raises(CorruptLogError, match="the end is at"):
        find_batch(file, 0, len(data), 28)
    with pytest.raises(CorruptLogError, match="batch ends at"):
        list(walk_headers(file, 0, len(data)))


@pytest.mark.parametrize("size_bytes", [100, 40_000, 70_000])
def test_walk_yields_only_batches_with_a_producer_id(tmp_path: Path, size_bytes: int) -> None:
    """This holds for batches within one read, across reads, and larger than a read."""
    batches = [replicated(0, value_bytes=size_bytes), produced(7, 0), produced(8, 0, 3)]
    data = b"".join(batches * 50)
    file = file_of(tmp_path, data)
    expected = [each for each in walk_headers(file, 0, len(data)) if each[1].producer_id >= 0]
    assert list(walk_produced(file, 0, len(data))) == expected
    assert len(expected) == 100


@pytest.mark.parametrize("change", [wrong_magic, short_length, negative_delta])
def test_walk_of_producers_stops_at_bytes_that_are_not_a_batch(
    tmp_path: Path, change: Change
) -> None:
    data = bytearray(produced(7, 0) * 5)
    change(data, 4 * len(produced(7, 0)))
    file = file_of(tmp_path, data)
    found = walk_produced(file, 0, len(data))
    assert [next(found)[1].producer_id for _ in range(4)] == [7] * 4
    with pytest.raises(CorruptLogError):
        next(found)


@pytest.mark.parametrize("rest", [1, 11, 60])
def test_half_a_header_is_damage(tmp_path: Path, rest: int) -> None:
    data = DATA + BATCHES[0][:rest]
    file = file_of(tmp_path, data)
    with pytest.raises(CorruptLogError, match="no whole header"):
        find_batch(file, 0, len(data), 99)
    assert last_boundary(file, 0, len(data), len(data) + 100) == len(DATA)
    with pytest.raises(CorruptLogError, match="no whole header"):
        list(walk_produced(file, 0, len(data)))


def test_a_boundary_is_found_across_reads(tmp_path: Path) -> None:
    data = b"".join(replicated(number, value_bytes=50) for number in range(200))
    size = len(data) // 200
    file = file_of(tmp_path, data)
    for limit in (0, 1, size, 57 * size, 57 * size + size - 1, len(data), len(data) + 1):
        assert last_boundary(file, 0, len(data), limit) == min(limit // size * size, len(data))
    for number in range(200):
        place = find_batch(file, 0, len(data), number)
        assert place is not None
        assert (place.position, place.base_offset) == (number * size, number)
    assert find_batch(file, 0, len(data), 200) is None


def test_damage_is_reported_and_the_rest_of_the_log_served(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    log = open_log(directory, LogConfig(index_interval_bytes=300))
    fill(log, 30)
    log.upkeep.close()
    path = directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    size = len(data) // 30
    wrong_magic(data, 9 * size)
    path.write_bytes(data)
    log = open_log(directory, LogConfig(index_interval_bytes=300))
    assert offsets_in(read(log, 0, max_bytes=5 * size)) == [0, 1, 2, 3, 4]
    assert offsets_in(read(log, 25)) == [25, 26, 27, 28, 29]
    with pytest.raises(CorruptLogError, match=r"0\.log at byte"):
        read(log, 9)
    append(log)
    assert offsets_in(read(log, 29)) == [29, 30]


def test_segment_refuses_an_offset_out_of_its_index_range(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path, Offset(0), LogConfig(), NOW_MS)
    batch = replicated(2**31)
    with pytest.raises(OffsetOverflowError, match=r"2147483648 in segment 0"):
        segment.append(memoryview(batch), Offset(2**31), Offset(2**31), NOW_MS)
    assert segment.size_bytes == 0

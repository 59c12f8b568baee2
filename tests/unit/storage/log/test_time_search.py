"""Search by timestamp is exact for any index content and any order of timestamps."""

from pathlib import Path

import pytest

from kafkawire.compression import Codec
from kafkawire.ids import Offset
from storage.errors import CorruptLogError
from storage.log.log import Log
from tests.unit.kafkawire.batches import with_header
from tests.unit.storage.logs import NOW_MS, append, open_files, open_log, replicated, split


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "orders-0")


def found(
    log: Log, timestamp_ms: int, end_offset: int | None = None
) -> tuple[int, int, int] | None:
    end = log.log_end_offset if end_offset is None else Offset(end_offset)
    return log.offset_for_timestamp(timestamp_ms, end)


def test_the_first_record_that_is_not_older_is_found(log: Log) -> None:
    append(log, [100, 50, 200], epoch=3)
    append(log, [150, 300], epoch=4)
    assert found(log, 0) == (100, 0, 3)
    assert found(log, 101) == (200, 2, 3)
    assert found(log, 200) == (200, 2, 3)
    assert found(log, 201) == (300, 4, 4)
    assert found(log, 301) is None


def test_records_beyond_the_end_offset_are_not_seen(log: Log) -> None:
    append(log, [100])
    append(log, [200, 300])
    append(log, [400])
    assert found(log, 150, end_offset=1) is None
    assert found(log, 150, end_offset=2) == (200, 1, 0)
    assert found(log, 250, end_offset=2) is None
    assert found(log, 350, end_offset=2) is None


def test_records_below_the_log_start_are_not_seen(log: Log) -> None:
    append(log, [500, 100, 200])
    append(log, [300])
    log.advance_log_start(Offset(1))
    assert found(log, 50) == (100, 1, 0)
    assert found(log, 250) == (300, 3, 0)
    assert found(log, 400) is None


def test_decreasing_timestamps_across_segments_are_found(log: Log) -> None:
    for time_ms in (900, 500, 700, 100):
        append(log, [time_ms])
        log.upkeep.roll(NOW_MS)
    assert found(log, 600) == (900, 0, 0)
    log.advance_log_start(Offset(1))
    assert found(log, 600) == (700, 2, 0)
    assert found(log, 800) is None
    assert log.max_timestamp() == (700, 2, 0)


def test_records_without_a_timestamp_are_never_found(log: Log) -> None:
    append(log, [-1, -1])
    assert found(log, 0) is None
    assert log.max_timestamp() is None
    append(log, [-1, 7])
    assert found(log, 0) == (7, 3, 0)


def test_an_empty_log_has_no_times(log: Log) -> None:
    assert found(log, 0) is None
    assert log.max_timestamp() is None


@pytest.mark.parametrize("codec", list(Codec))
def test_search_reads_compressed_batches(log: Log, codec: Codec) -> None:
    append(log, [100, 300, 200], codec=codec)
    assert found(log, 150) == (300, 1, 0)
    assert log.max_timestamp() == (300, 1, 0)


def test_the_first_of_the_latest_records_is_the_maximum(log: Log) -> None:
    append(log, [100, 300])
    append(log, [300, 300])
    append(log, [200])
    assert log.max_timestamp() == (300, 1, 0)
    log.upkeep.close()
    assert open_log(log.directory).max_timestamp() == (300, 1, 0)


def test_maximum_in_a_header_above_its_records_is_not_trusted(
    log: Log,
) -> None:
    append(log, [100])
    batch = with_header(replicated(1), max_timestamp_ms=NOW_MS + 1_000)
    log.append_as_follower(memoryview(batch), NOW_MS)
    append(log, [NOW_MS + 500])
    assert found(log, NOW_MS + 1) == (NOW_MS + 500, 2, 0)
    assert log.max_timestamp() is None


def test_records_that_cannot_be_read_are_damage(log: Log) -> None:
    append(log, [100, 200], codec=Codec.LZ4)
    path = log.directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[70:] = bytes(len(data) - 70)
    path.write_bytes(data)
    with pytest.raises(CorruptLogError, match=r"\.log at byte 0"):
        found(log, 50)


def test_search_closes_unneeded_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0")
    for number in range(20):
        append(log, [NOW_MS + number])
        log.upkeep.roll(NOW_MS)
    log.upkeep.close()
    log = open_log(tmp_path / "orders-0")
    before = open_files()
    assert found(log, NOW_MS + 10) == (NOW_MS + 10, 10, 0)
    assert open_files() <= before + 3
    assert [batch.base_offset for batch in split(log.segments[10].file.read(0, 1_000))] == [10]

"""One partition's log: appends, reads, rolls, truncation."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.compression import Codec
from kafkawire.errors import CorruptBatchError
from kafkawire.ids import LeaderEpoch, Offset, TopicId
from kafkawire.records import TimestampType, crc_matches, read_header, read_records
from storage.config.log_config import LogConfig
from storage.disk.layout import LEADER_EPOCH_CHECKPOINT, DirectoryState
from storage.errors import (
    BatchTooLargeError,
    InconsistentTopicIdError,
    OffsetOutOfRangeError,
    StorageError,
    TruncatedRegionError,
    UnexpectedOffsetError,
)
from storage.log import epoch_checkpoint
from storage.log.leader_epochs import EpochEntry
from storage.log.log import Log
from storage.log.segment_list import SegmentList
from storage.segment.segment_files import SegmentFiles
from tests.unit.storage.logs import (
    NOW_MS,
    SMALL,
    append,
    batch_of,
    check_files,
    fill,
    offsets_in,
    open_files,
    open_log,
    read,
    read_all,
    replicated,
    split,
)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "orders-0")


def epoch_entries(log: Log) -> list[tuple[int, int]]:
    return [(int(entry.epoch), int(entry.start_offset)) for entry in log.leader_epochs.entries]


def file_names(log: Log, suffix: str) -> list[str]:
    return sorted(path.name for path in log.directory.glob(f"*{suffix}"))


def test_a_new_log_is_empty_and_has_kafkas_files(log: Log) -> None:
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 0, 0)
    assert sorted(path.name for path in log.directory.iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
    ]


def test_batches_get_the_next_offsets_and_the_leaders_epoch(log: Log) -> None:
    first = append(log, [NOW_MS] * 3, epoch=7)
    second = append(log, [NOW_MS] * 2, epoch=7)
    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset, second.log_append_time_ms) == (3, 4, -1)
    assert offsets_in(read(log, 0)) == [0, 1, 2, 3, 4]
    assert {batch.epoch for batch in split(read(log, 0))} == {7}


def test_a_batch_is_stored_as_it_was_sent_except_offset_and_epoch(log: Log) -> None:
    batch = batch_of([NOW_MS] * 3, codec=Codec.ZSTD)
    sent = bytes(batch)
    log.append_as_leader(memoryview(batch), read_header(batch), LeaderEpoch(4), NOW_MS)
    stored = read(log, 0)
    assert stored[8:12] + stored[16:] == sent[8:12] + sent[16:]


def test_log_append_time_replaces_the_producers_time(tmp_path: Path) -> None:
    config = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    log = open_log(tmp_path / "orders-0", config)
    info = append(log, [5, 6], now_ms=NOW_MS + 1)
    stored = memoryview(read(log, 0))
    assert info.log_append_time_ms == NOW_MS + 1
    assert crc_matches(stored, read_header(stored))
    assert {record.timestamp_ms for record in read_records(stored)} == {NOW_MS + 1}
    assert log.max_timestamp() == (NOW_MS + 1, 0, 0)


def test_a_batch_larger_than_a_segment_is_refused(log: Log) -> None:
    with pytest.raises(BatchTooLargeError, match="2000"):
        append(log, value_bytes=3_000)
    assert log.log_end_offset == 0


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        pytest.param(0, [0, 1, 2, 3, 4, 5], id="the start"),
        pytest.param(3, [3, 4, 5], id="the first of a batch"),
        pytest.param(4, [3, 4, 5], id="within a batch: the complete batch"),
        pytest.param(6, [], id="the end"),
    ],
)
def test_a_read_starts_with_the_batch_that_holds_the_offset(
    log: Log, offset: int, expected: list[int]
) -> None:
    append(log, [NOW_MS] * 3)
    append(log, [NOW_MS] * 3)
    assert offsets_in(read(log, offset)) == expected


@pytest.mark.parametrize("offset", [-1, 4, 11])
def test_a_read_outside_the_log_is_refused(log: Log, offset: int) -> None:
    fill(log, 10)
    log.advance_log_start(Offset(5))
    with pytest.raises(OffsetOutOfRangeError, match=r"5\.\.10") as caught:
        read(log, offset)
    assert (caught.value.log_start_offset, caught.value.log_end_offset) == (5, 10)


def test_a_read_ends_below_the_end_offset(log: Log) -> None:
    for _ in range(4):
        append(log, [NOW_MS] * 3)
    assert offsets_in(read(log, 0, end_offset=6)) == [0, 1, 2, 3, 4, 5]
    assert read(log, 6, end_offset=6) == b""
    assert read(log, 8, end_offset=6) == b""
    # An end offset within a batch excludes the batch.
    assert offsets_in(read(log, 0, end_offset=5)) == [0, 1, 2]
    assert read(log, 4, end_offset=5) == b""


def test_a_read_takes_whole_batches_up_to_the_limit(log: Log) -> None:
    fill(log, 10)
    size = len(read(log, 9))
    assert offsets_in(read(log, 0, max_bytes=3 * size)) == [0, 1, 2]
    assert offsets_in(read(log, 0, max_bytes=4 * size - 1)) == [0, 1, 2]
    assert offsets_in(read(log, 2, max_bytes=1)) == [2]


def test_read_without_min_one_batch_omits_a_larger_batch(log: Log) -> None:
    append(log)
    region = log.read(Offset(0), 10, end_offset=Offset(1), min_one_batch=False)
    assert region.size_bytes == 0
    assert region.read() == b""


def test_a_read_ends_with_its_segment(log: Log) -> None:
    fill(log, 3)
    log.upkeep.roll(NOW_MS)
    fill(log, 3)
    assert offsets_in(read(log, 1)) == [1, 2]
    assert offsets_in(read(log, 3)) == [3, 4, 5]
    assert offsets_in(read(log, 0, end_offset=2)) == [0, 1]
    assert offsets_in(read(log, 0, end_offset=3)) == [0, 1, 2]


def test_read_from_a_gap_continues_in_the_next_segment(log: Log) -> None:
    log.append_as_follower(memoryview(replicated(0, 3)), NOW_MS)
    log.upkeep.roll(NOW_MS)
    # Compaction may have removed 3..9 from the leader.
    log.append_as_follower(memoryview(replicated(10, 2)), NOW_MS)
    assert offsets_in(read(log, 5)) == [10, 11]
    assert offsets_in(read(log, 3, end_offset=11)) == []


def test_a_segment_rolls_before_it_would_exceed_its_size(log: Log) -> None:
    fill(log, 60)
    sizes = [path.stat().st_size for path in sorted(log.directory.glob("*.log"))]
    assert len(sizes) > 2
    assert all(SMALL.segment_bytes - 100 < size <= SMALL.segment_bytes for size in sizes[:-1])
    assert offsets_in(read_all(log)) == list(range(60))


def test_segment_rolls_by_the_time_span_of_its_records(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0", LogConfig(segment_ms=1_000))
    append(log, [NOW_MS])
    append(log, [NOW_MS + 1_000])
    # Only the timestamps of records count, not the clock.
    append(log, [NOW_MS], now_ms=NOW_MS + 10_000)
    assert len(log.segments) == 1
    append(log, [NOW_MS + 1_001])
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_without_timestamps_the_clock_rolls_a_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0", LogConfig(segment_ms=1_000))
    append(log, [-1])
    append(log, [-1], now_ms=NOW_MS + 1_000)
    assert len(log.segments) == 1
    append(log, [-1], now_ms=NOW_MS + 1_001)
    assert len(log.segments) == 2


def test_time_of_the_first_batch_counts_after_a_restart(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=1_000)
    log = open_log(tmp_path / "orders-0", config)
    append(log, [NOW_MS])
    append(log, [NOW_MS + 900])
    log.upkeep.close()
    log = open_log(tmp_path / "orders-0", config)
    append(log, [NOW_MS + 1_001])
    assert len(log.segments) == 2


def test_jitter_spreads_rolls_and_is_the_same_after_a_restart(tmp_path: Path) -> None:
    def segments_of(name: str) -> int:
        log = open_log(tmp_path / name, LogConfig(segment_ms=1_000, segment_jitter_ms=500))
        append(log, [NOW_MS])
        append(log, [NOW_MS + 750])
        return len(log.segments)

    rolled = [segments_of(f"orders-{number}") for number in range(20)]
    assert set(rolled) == {1, 2}
    assert rolled == [segments_of(f"other/orders-{number}") for number in range(20)]


def test_compaction_lag_shortens_the_time_of_a_segment() -> None:
    policy = frozenset({"compact"})
    assert LogConfig(max_compaction_lag_ms=5, cleanup_policy=policy).max_segment_ms == 5
    assert LogConfig(max_compaction_lag_ms=5, segment_ms=9).max_segment_ms == 9


@pytest.mark.parametrize("index_bytes", [32, 36])
def test_a_segment_rolls_when_an_index_is_full(tmp_path: Path, index_bytes: int) -> None:
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=index_bytes)
    log = open_log(tmp_path / "orders-0", config)
    for number in range(20):
        append(log, [NOW_MS + number])
    log.upkeep.close()
    # 32 bytes hold 4 offsets but only 2 times, and the second is reserved for closing.
    assert len(file_names(log, ".log")) > 5
    check_files(log.directory, interval=0)


def test_indexes_too_small_for_any_entry_are_tolerated(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0", LogConfig(index_interval_bytes=0, segment_index_bytes=4))
    fill(log, 6)
    assert offsets_in(read_all(log)) == list(range(6))


def test_a_segment_rolls_before_a_relative_offset_overflows(log: Log) -> None:
    log.append_as_follower(memoryview(replicated(5, 2)), NOW_MS)
    log.append_as_follower(memoryview(replicated(2**31 - 2, 2)), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0]
    log.append_as_follower(memoryview(replicated(2**31, 2)), NOW_MS)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]
    assert offsets_in(read_all(log)) == [5, 6, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1]


def test_an_entry_needs_more_bytes_than_the_interval(tmp_path: Path) -> None:
    size = len(batch_of())
    log = open_log(tmp_path / "orders-0", LogConfig(index_interval_bytes=2 * size))
    fill(log, 9)
    entries = log.segments[0].index.offsets.file.read_all()
    assert entries == [(3, 3 * size), (6, 6 * size)]


def test_rolling_an_empty_segment_does_nothing(log: Log) -> None:
    log.upkeep.roll(NOW_MS)
    assert len(log.segments) == 1


def test_follower_appends_batches_unchanged(log: Log) -> None:
    data = replicated(0, 3, epoch=1) + replicated(3, 2, epoch=4) + replicated(9, 1, epoch=4)
    info = log.append_as_follower(memoryview(data), NOW_MS)
    assert info is not None
    assert (info.base_offset, info.last_offset, log.log_end_offset) == (0, 9, 10)
    assert read_all(log) == bytes(data)
    assert epoch_entries(log) == [(1, 0), (4, 3)]


def test_follower_appends_several_batches_with_one_write(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log)
    writes: list[int] = []
    real = os.pwrite

    def pwrite(descriptor: int, data: memoryview, position: int) -> int:
        if Path(f"/proc/self/fd/{descriptor}").readlink().suffix == ".log":
            writes.append(position)
        return real(descriptor, data, position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    data = b"".join(replicated(1 + number) for number in range(10))
    log.append_as_follower(memoryview(bytearray(data)), NOW_MS)
    assert len(writes) == 1
    monkeypatch.undo()
    log.upkeep.close()
    check_files(log.directory)


def test_append_of_a_follower_is_split_at_a_segment_end(log: Log) -> None:
    data = b"".join(replicated(number) for number in range(60))
    log.append_as_follower(memoryview(data), NOW_MS)
    log.append_as_follower(memoryview(b"".join(map(replicated, range(60, 120)))), NOW_MS)
    assert len(log.segments) > 4
    assert offsets_in(read_all(log)) == list(range(120))


def test_a_follower_ignores_a_half_batch_at_the_end(log: Log) -> None:
    whole, half = replicated(0, 3), replicated(3, 2)[:-1]
    log.append_as_follower(memoryview(whole + half), NOW_MS)
    assert log.log_end_offset == 3
    assert log.append_as_follower(memoryview(half), NOW_MS) is None


def test_follower_accepts_a_batch_larger_than_its_segments(log: Log) -> None:
    append(log)
    log.append_as_follower(memoryview(replicated(1, value_bytes=5_000)), NOW_MS)
    append(log)
    assert offsets_in(read_all(log)) == [0, 1, 2]
    assert len(log.segments) == 3


@pytest.mark.parametrize("base_offset", [0, 2])
def test_follower_refuses_a_batch_that_overlaps_its_log(log: Log, base_offset: int) -> None:
    fill(log, 3)
    with pytest.raises(UnexpectedOffsetError, match=f"at {base_offset}, expected 3") as raised:
        log.append_as_follower(memoryview(replicated(base_offset, 5)), NOW_MS)
    assert raised.value.diverging_offset == base_offset
    assert log.log_end_offset == 3


def test_follower_refuses_a_batch_below_its_log_end(log: Log) -> None:
    fill(log, 3)
    with pytest.raises(UnexpectedOffsetError) as raised:
        log.append_as_follower(memoryview(replicated(1, 2)), NOW_MS)
    assert raised.value.diverging_offset is None


def test_follower_appends_no_batch_of_a_set_with_a_bad_one(log: Log) -> None:
    bad = replicated(1)
    bad[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="batch at 1"):
        log.append_as_follower(memoryview(replicated(0) + bad), NOW_MS)
    with pytest.raises(UnexpectedOffsetError):
        log.append_as_follower(memoryview(replicated(4) + replicated(4)), NOW_MS)
    assert log.log_end_offset == 0


def test_empty_follower_accepts_the_batch_that_contains_its_log_start(log: Log) -> None:
    log.truncate_fully_and_start_at(Offset(15))
    log.append_as_follower(memoryview(replicated(10, 10, epoch=3)), NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (15, 20)
    assert epoch_entries(log) == [(3, 10)]
    assert offsets_in(read(log, 15)) == list(range(10, 20))
    with pytest.raises(OffsetOutOfRangeError):
        read(log, 14)


@pytest.mark.parametrize("target", [0, 1, 13, 25, 59])
def test_truncation_drops_everything_from_the_offset_on(log: Log, target: int) -> None:
    fill(log, 60)
    assert log.truncate_to(Offset(target))
    assert log.log_end_offset == target
    assert offsets_in(read_all(log)) == list(range(target))
    fill(log, 60 - target)
    assert offsets_in(read_all(log)) == list(range(60))
    log.upkeep.close()
    check_files(log.directory)


def test_truncation_drops_the_time_entry_together_with_its_offset_entry(log: Log) -> None:
    """Otherwise the time index would differ from a rebuilt one."""
    for time_ms in (900, 1, 2, 3, 4, 5):
        append(log, [time_ms])
    assert log.segments[0].index.times.file.read_all() == [(900, 0)]
    log.truncate_to(Offset(2))
    append(log, [1_000])
    append(log, [1_100])
    log.upkeep.close()
    check_files(log.directory)


def test_truncation_never_leaves_half_a_batch(log: Log) -> None:
    append(log, [NOW_MS] * 5)
    append(log, [NOW_MS] * 5)
    log.truncate_to(Offset(7))
    assert log.log_end_offset == 5
    assert offsets_in(read_all(log)) == [0, 1, 2, 3, 4]


def test_truncation_into_a_gap_ends_the_log_there(log: Log) -> None:
    log.append_as_follower(memoryview(replicated(0) + replicated(10)), NOW_MS)
    log.truncate_to(Offset(6))
    assert log.log_end_offset == 6
    log.truncate_to(Offset(4))
    assert log.log_end_offset == 4
    assert offsets_in(read_all(log)) == [0]


def test_truncation_at_or_above_the_end_only_drops_an_empty_epoch(log: Log) -> None:
    fill(log, 3)
    log.leader_epochs.assign(LeaderEpoch(5), Offset(3))
    assert epoch_entries(log) == [(0, 0), (5, 3)]
    assert not log.truncate_to(Offset(3))
    assert not log.truncate_to(Offset(9))
    assert log.log_end_offset == 3
    assert epoch_entries(log) == [(0, 0)]


def test_truncation_lowers_recovery_point_log_start_and_epochs(log: Log) -> None:
    fill(log, 30, epoch=1)
    fill(log, 30, epoch=2)
    log.upkeep.flush()
    assert log.recovery_point == 60
    log.advance_log_start(Offset(50))
    log.truncate_to(Offset(45))
    assert (log.recovery_point, log.log_start_offset, log.log_end_offset) == (45, 45, 45)
    assert epoch_entries(log) == []


def test_truncation_below_the_first_segment_empties_the_log(log: Log) -> None:
    log.truncate_fully_and_start_at(Offset(100))
    append(log)
    assert log.truncate_to(Offset(40))
    assert (log.log_start_offset, log.log_end_offset) == (40, 40)


def test_full_truncation_drops_everything(log: Log) -> None:
    fill(log, 40)
    log.truncate_fully_and_start_at(Offset(1_000))
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (1_000, 1_000, 0)
    assert epoch_entries(log) == []
    assert file_names(log, ".log") == ["00000000000000001000.log"]
    append(log)
    assert offsets_in(read_all(log)) == [1_000]


def test_advancing_the_log_start_deletes_whole_segments(log: Log) -> None:
    fill(log, 30, epoch=1)
    fill(log, 30, epoch=2)
    bases = [segment.base_offset for segment in log.segments]
    assert log.advance_log_start(Offset(bases[2] + 1))
    assert [segment.base_offset for segment in log.segments] == bases[2:]
    assert not log.advance_log_start(Offset(3))
    assert log.log_start_offset == bases[2] + 1
    assert log.advance_log_start(Offset(50))
    assert epoch_entries(log) == [(2, 50)]
    with pytest.raises(OffsetOutOfRangeError):
        log.advance_log_start(Offset(61))


MANY = 16


@pytest.fixture
def long_log(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "orders-1", LogConfig(segment_bytes=100))
    fill(log, 3 * MANY)
    assert len(log.segments) == 3 * MANY
    return log


@pytest.mark.parametrize(
    ("change", "left"),
    [
        pytest.param(lambda log: log.truncate_fully_and_start_at(Offset(7)), [7], id="restart"),
        pytest.param(lambda log: log.truncate_to(Offset(1)), [0, 1], id="truncation"),
        pytest.param(
            lambda log: log.advance_log_start(Offset(MANY)),
            [*range(MANY, 3 * MANY)],
            id="log start",
        ),
    ],
)
def test_the_list_of_segments_is_cut_once_for_all_that_are_deleted(
    long_log: Log, monkeypatch: pytest.MonkeyPatch, change: Callable[[Log], None], left: list[int]
) -> None:
    """A list is as long as a log has segments: one cut for each would take quadratic time."""
    cuts: list[int] = []
    for name in ("drop_oldest", "drop_newest"):
        cut = getattr(SegmentList, name)

        def counted(
            segments: SegmentList, count: int, cut: Callable[[SegmentList, int], None] = cut
        ) -> None:
            cuts.append(count)
            cut(segments, count)

        monkeypatch.setattr(SegmentList, name, counted)
    change(long_log)
    assert len(cuts) == 1
    assert cuts[0] >= MANY
    assert [each.base_offset for each in long_log.segments] == left


def test_deletion_that_fails_on_the_way_leaves_the_list_of_the_files_that_exist(
    long_log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SegmentFiles.mark_deleted

    def lack(files: SegmentFiles) -> list[Path]:
        if files.base_offset in (3, 40):
            raise OSError(errno.EIO, "broken")
        return real(files)

    monkeypatch.setattr(SegmentFiles, "mark_deleted", lack)
    local = long_log._local
    end = long_log.log_end_offset
    with pytest.raises(OSError, match="broken"):
        local.delete_below(end)
    assert [each.base_offset for each in local.segments] == [*range(3, end)]
    with pytest.raises(OSError, match="broken"):
        local.truncate_to(Offset(20))
    assert [each.base_offset for each in local.segments] == [*range(3, 41)]
    assert local.log_end_offset == 41
    local.delete_below(Offset(0))
    assert len(local.segments) == 38


def test_the_active_segment_stays_even_if_everything_is_deleted(log: Log) -> None:
    fill(log, 30)
    log.advance_log_start(Offset(30))
    assert len(log.segments) == 1
    assert read(log, 30) == b""


def test_deleted_files_wait_so_that_readers_can_finish(log: Log) -> None:
    fill(log, 60)
    expected = read(log, 0)
    region = log.read(Offset(0), 10_000, end_offset=Offset(60), min_one_batch=True)
    log.advance_log_start(Offset(60))
    assert len(file_names(log, ".log.deleted")) == 2
    assert region.read() == expected
    log.upkeep.remove_deleted_files(NOW_MS)
    log.upkeep.remove_deleted_files(NOW_MS + 59_999)
    assert len(file_names(log, ".deleted")) == 7, "two of three files, and a snapshot"
    log.upkeep.remove_deleted_files(NOW_MS + 60_000)
    assert file_names(log, ".deleted") == []
    assert region.read() == expected


def test_truncated_region_is_not_served(log: Log) -> None:
    fill(log, 3)
    region = log.read(Offset(0), 10_000, end_offset=Offset(3), min_one_batch=True)
    log.truncate_to(Offset(1))
    with pytest.raises(TruncatedRegionError, match="before the end"):
        region.read()


def test_a_flush_raises_the_recovery_point(log: Log) -> None:
    fill(log, 30)
    assert log.recovery_point == 0
    log.upkeep.flush()
    assert log.recovery_point == 30


def test_flush_messages_of_one_flushes_every_append(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0", LogConfig(flush_messages=3))
    append(log, [NOW_MS] * 2)
    assert log.recovery_point == 0
    append(log)
    assert log.recovery_point == 3
    log.append_as_follower(memoryview(replicated(3, 3)), NOW_MS)
    assert log.recovery_point == 6


def test_closed_segments_can_be_flushed_alone(log: Log) -> None:
    fill(log, 5)
    log.upkeep.flush_closed()
    log.upkeep.flush_if_due(NOW_MS)
    assert log.recovery_point == 0
    log.upkeep.roll(NOW_MS)
    fill(log, 5)
    log.upkeep.flush_if_due(NOW_MS)
    assert log.recovery_point == 0
    log.upkeep.flush_closed()
    assert log.recovery_point == 5


def test_log_is_flushed_after_flush_ms(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0", LogConfig(flush_ms=1_000))
    log.upkeep.flush_if_due(NOW_MS)
    append(log)
    log.upkeep.flush_if_due(NOW_MS + 999)
    assert log.recovery_point == 0
    log.upkeep.flush_if_due(NOW_MS + 1_000)
    assert log.recovery_point == 1
    append(log)
    log.upkeep.flush_if_due(NOW_MS + 1_999)
    assert log.recovery_point == 1


def test_a_flush_that_began_before_a_truncation_does_not_raise_the_recovery_point(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 10)
    real = os.fdatasync

    def truncate_meanwhile(descriptor: int) -> None:
        monkeypatch.undo()
        log.truncate_to(Offset(4))
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", truncate_meanwhile)
    log.upkeep.flush()
    assert log.recovery_point == 0
    fill(log, 10)
    log.upkeep.flush()
    assert log.recovery_point == 14


def test_epochs_are_on_disk_when_their_batches_are(log: Log) -> None:
    append(log, epoch=0)
    append(log, epoch=3)
    path = log.directory / "leader-epoch-checkpoint"
    log.upkeep.flush()
    assert path.read_text() == "0\n2\n0 0\n3 1\n"
    log.truncate_to(Offset(1))
    assert path.read_text() == "0\n1\n0 0\n"
    assert log.leader_epochs.entries == (EpochEntry(LeaderEpoch(0), Offset(0)),)


def test_latest_epoch_ends_at_the_log_end(log: Log) -> None:
    fill(log, 3, epoch=1)
    fill(log, 3, epoch=4)
    assert log.end_offset_for(1) == (1, 3)
    assert log.end_offset_for(4) == (4, 6)
    assert log.end_offset_for(9) == (-1, -1)


def test_the_topic_id_is_written_before_anything_else_and_kept(tmp_path: Path) -> None:
    ours, other = TopicId(int=7), TopicId(int=8)
    log = open_log(tmp_path / "orders-0")
    assert log.topic_id is None
    log.assign_topic_id(ours)
    log.assign_topic_id(ours)
    with pytest.raises(InconsistentTopicIdError, match="not of"):
        log.assign_topic_id(other)
    text = (log.directory / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw"
    log.upkeep.close()
    assert open_log(tmp_path / "orders-0").topic_id == ours


def test_new_config_takes_effect_at_once(log: Log) -> None:
    fill(log, 3)
    log.update_config(LogConfig(segment_bytes=300))
    fill(log, 3)
    assert log.config.segment_bytes == 300
    assert [segment.base_offset for segment in log.segments] == [0, 3]


def test_preallocation_reserves_space_and_gives_back_the_rest(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=100_000, preallocate=True)
    log = open_log(tmp_path / "orders-0", config)
    append(log)
    size = log.size_bytes
    path = log.directory / "00000000000000000000.log"
    assert path.stat().st_size == 100_000
    assert offsets_in(read_all(log)) == [0]
    log.upkeep.roll(NOW_MS)
    assert path.stat().st_size == size
    log.upkeep.close()
    assert (log.directory / "00000000000000000001.log").stat().st_size == 0


def test_index_files_are_extended_while_active_and_cut_when_closed(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=200, segment_index_bytes=1_001)
    log = open_log(tmp_path / "orders-0", config)
    for number in range(50):
        append(log, [NOW_MS + number])
    offsets, times = (log.directory / f"{0:020d}{suffix}" for suffix in (".index", ".timeindex"))
    assert (offsets.stat().st_size, times.stat().st_size) == (1_000, 996)
    log.upkeep.roll(NOW_MS)
    assert 0 < offsets.stat().st_size < 200
    assert times.stat().st_size == (offsets.stat().st_size // 8 + 1) * 12
    log.upkeep.close()
    check_files(log.directory)


def test_close_is_idempotent(log: Log) -> None:
    fill(log, 3)
    log.upkeep.close()
    log.upkeep.close()
    assert log.is_closed


def test_set_aside_log_has_a_unique_name(log: Log) -> None:
    fill(log, 3)
    region = log.read(Offset(0), 10_000, end_offset=Offset(3), min_one_batch=True)
    path = log.upkeep.set_aside(DirectoryState.DELETED)
    assert path.name.startswith("orders-0.")
    assert path.name.endswith("-delete")
    assert path.is_dir()
    assert offsets_in(region.read()) == [0, 1, 2]


def test_late_reader_of_a_log_that_was_set_aside_leaves_the_log_dir_online(log: Log) -> None:
    fill(log, 60)
    log.upkeep.release_closed()
    log.upkeep.set_aside(DirectoryState.DELETED)
    with pytest.raises(StorageError, match="no longer served here"):
        log.read(Offset(0), 10_000, end_offset=Offset(60), min_one_batch=True)
    assert log.health.failure is None


def test_a_stray_log_names_its_epochs(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a descriptor for the file, an epoch is stored later."""

    def lack(*_: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    append(log)
    with monkeypatch.context() as patch:
        patch.setattr(epoch_checkpoint, "overwrite_entries", lack)
        patch.setattr(epoch_checkpoint, "write_entries", lack)
        append(log, epoch=1)
        assert log.upkeep.set_aside(DirectoryState.DELETED).is_dir()
    path = log.upkeep.set_aside(DirectoryState.STRAY)
    stored = epoch_checkpoint.read_epochs(path / LEADER_EPOCH_CHECKPOINT)
    assert stored.entries == log.leader_epochs.entries
    assert len(stored.entries) == 2


def test_flush_of_a_log_under_deletion_is_not_a_disk_failure(log: Log) -> None:
    fill(log, 3)
    log.upkeep.roll(NOW_MS)
    fill(log, 3)
    home = log.directory
    log.upkeep.set_aside(DirectoryState.DELETED)
    # A flush in another thread may still have the old path.
    log._local.directory = home
    log.upkeep.flush()
    assert log.health.failure is None


def test_old_segments_do_not_keep_their_files_open(log: Log) -> None:
    before = open_files()
    fill(log, 600)
    assert len(log.segments) > 20
    # Three files of the active segment, three of the one before it.
    assert open_files() <= before + 3
    assert offsets_in(read_all(log)) == list(range(600))
    assert open_files() > before + 20
    log.upkeep.release_closed()
    assert open_files() <= before + 3
    append(log)

"""The producer state of a log across rolls, restarts, crashes and truncations."""

import errno
import itertools
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import Offset
from kafkawire.records import TimestampType, read_header, write_header
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.disk.layout import CLEAN_SHUTDOWN
from storage.errors import OutOfFilesError, OutOfOrderSequenceError, StorageError
from storage.log.log import Log
from storage.producers import producer_replay
from storage.producers.producer_snapshots import read_newest, snapshot_offsets, write_snapshot
from tests.faults import Fault, Injection, injected
from tests.unit.storage.compacting import COMPACTED, clean
from tests.unit.storage.faults import failing, path_of
from tests.unit.storage.logs import (
    NOW_MS,
    PARTITION,
    create,
    fill,
    log_of,
    open_log,
    open_logs,
)
from tests.unit.storage.produced_batches import follow, marker, produced, write

CONFIG = LogConfig(segment_bytes=1_000)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


def written(directory: Path, count: int = 30) -> Log:
    """Return a log with several segments of one producer, with one record per batch."""
    log = open_log(directory, CONFIG)
    for number in range(count):
        write(log, produced(7, number))
    assert len(log.segments) > 2
    return log


def repeat(log: Log, sequence: int) -> int | None:
    """Return the offset of the batch that `sequence` duplicates, or None if it is unknown."""
    end = log.log_end_offset
    try:
        info = write(log, produced(7, sequence))
    except OutOfOrderSequenceError:
        return None
    finally:
        assert log.log_end_offset == end, "nothing was written again"
    return info.base_offset


def test_duplicate_batch_is_acknowledged_but_not_appended(directory: Path) -> None:
    log = written(directory)
    assert [repeat(log, sequence) for sequence in range(24, 30)] == [None, 25, 26, 27, 28, 29]


def test_duplicate_batch_has_the_time_of_the_first_append(directory: Path) -> None:
    config = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    log = open_log(directory, config)
    for time_ms in (5, 6):
        batch = produced(7, 0, timestamp_ms=time_ms)
        assert write(log, batch).log_append_time_ms == NOW_MS


def test_roll_keeps_producer_state(directory: Path) -> None:
    log = written(directory)
    log.upkeep.roll(NOW_MS)
    assert [repeat(log, sequence) for sequence in range(25, 30)] == [25, 26, 27, 28, 29]


@pytest.mark.parametrize(
    ("recall_bytes", "known"), [(10_000, [26, 27, 28, 29]), (200, [27, 28, 29]), (0, [29])]
)
def test_recent_batches_are_known_after_a_clean_restart(
    directory: Path, monkeypatch: pytest.MonkeyPatch, recall_bytes: int, known: list[int]
) -> None:
    """A snapshot has only the last batch; the others are read from the last segment."""
    config = replace(CONFIG, index_interval_bytes=50)
    log = open_log(directory, config)
    for number in range(30):
        write(log, produced(7, number))
    assert log.segments[-1].base_offset == 26
    log.upkeep.close()
    monkeypatch.setattr(producer_replay, "RECALL_BYTES", recall_bytes)
    log = open_log(directory, config)
    assert [each for each in range(20, 30) if repeat(log, each) is not None] == known
    assert write(log, produced(7, 30)).base_offset == 30


def test_recalled_batches_belong_to_their_producer_and_epoch(directory: Path) -> None:
    """Recalled batches lead up to the last one without a gap, in the same epoch."""
    log = open_log(directory)
    write(log, produced(1, 0, epoch=0))
    write(log, produced(1, 0, epoch=1))
    write(log, produced(2, 0))
    follow(log, produced(2, 7))
    write(log, produced(2, 8))
    follow(log, produced(3, 0, is_transactional=True))
    follow(log, marker(3, 0))
    log.upkeep.close()
    known = {
        entry.producer_id: [batch.base_sequence for batch in entry.batches]
        for entry in open_log(directory).producers
    }
    assert known == {1: [0], 2: [7, 8], 3: [0]}


def test_damage_before_a_snapshot_hides_only_older_batches(directory: Path) -> None:
    config = replace(CONFIG, index_interval_bytes=50)
    log = open_log(directory, config)
    for number in range(10):
        write(log, produced(7, number))
    log.upkeep.close()
    path = directory / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[7 * len(produced(7, 0)) + 16] = 1
    path.write_bytes(content)
    with capture_logs() as captured:
        log = open_log(directory, config)
    assert "producers.not_recalled" in {each["event"] for each in captured}
    assert repeat(log, 9) == 9


@pytest.mark.parametrize("flushed", [0, 30])
def test_after_a_crash_the_last_batches_are_known(directory: Path, flushed: int) -> None:
    written(directory)
    log = open_log(directory, CONFIG, was_clean=False, recovery_point=flushed)
    assert repeat(log, 29) == 29
    assert write(log, produced(7, 30)).base_offset == 30


def test_truncated_batches_can_be_written_again(directory: Path) -> None:
    log = written(directory)
    log.truncate_to(Offset(20))
    assert repeat(log, 19) == 19
    assert write(log, produced(7, 20)).base_offset == 20


def test_a_short_truncation_reads_nothing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = written(directory)
    monkeypatch.setattr(producer_replay, "rebuild", None)
    log.truncate_to(Offset(27))
    assert [repeat(log, sequence) for sequence in range(24, 27)] == [None, 25, 26]
    assert write(log, produced(7, 27)).base_offset == 27


def test_a_truncation_starts_from_a_snapshot_within_a_segment(directory: Path) -> None:
    written(directory).upkeep.close()
    log = open_log(directory, CONFIG)
    for number in range(30, 35):
        write(log, produced(7, number))
    assert 30 not in [segment.base_offset for segment in log.segments]
    log.truncate_to(Offset(30))
    assert [repeat(log, sequence) for sequence in range(24, 30)] == [None, None, 26, 27, 28, 29]


def test_restarted_log_has_no_producers(directory: Path) -> None:
    log = written(directory)
    log.truncate_fully_and_start_at(Offset(50))
    assert (len(log.producers), snapshot_offsets(directory)) == (0, [])
    assert write(log, produced(7, 3)).base_offset == 50


def test_follower_has_the_same_producer_state_as_its_leader(directory: Path) -> None:
    """This holds if a roll splits the batches of one fetch, or the batches of a transaction."""
    log = open_log(directory, CONFIG)
    data = bytearray()
    for number in range(30):
        batch = produced(7, number, is_transactional=True)
        batch[:8] = number.to_bytes(8, "big")
        data += batch
    log.append_as_follower(memoryview(data), NOW_MS)
    assert len(log.segments) > 2
    assert log.producers.last_stable_offset(Offset(30)) == 0
    follow(log, marker(7, 30))
    assert log.producers.last_stable_offset(Offset(31)) == 31
    entry = log.producers.get(7)
    assert entry is not None
    assert entry.next_sequence == 30


def test_snapshots_come_with_segments_and_go_with_them(directory: Path) -> None:
    log = written(directory)
    bases = [segment.base_offset for segment in log.segments]
    assert snapshot_offsets(directory) == bases[1:]
    log.advance_log_start(Offset(bases[2]))
    assert snapshot_offsets(directory) == bases[2:]
    log.upkeep.close()
    assert snapshot_offsets(directory) == [*bases[2:], 30]


def test_snapshots_without_a_segment_are_removed(directory: Path) -> None:
    log = written(directory)
    bases = [segment.base_offset for segment in log.segments]
    log.upkeep.close()
    newest = (directory / f"{30:020d}.snapshot").read_bytes()
    for stray in (bases[1] + 1, bases[-1] + 1, 999):
        (directory / f"{stray:020d}.snapshot").write_bytes(newest)
    log = open_log(directory, CONFIG)
    assert snapshot_offsets(directory) == [*bases[1:], 30]
    assert repeat(log, 29) == 29


def test_recovery_ignores_snapshots_above_the_recovery_point(directory: Path) -> None:
    """The snapshot may describe batches that a truncation removed before the crash."""
    log = written(directory)
    log.upkeep.close()
    path = directory / f"{30:020d}.snapshot"
    other = open_log(directory.with_name("orders-1"), CONFIG)
    write(other, produced(7, 99))
    other.upkeep.close()
    path.write_bytes((other.directory / f"{1:020d}.snapshot").read_bytes())
    log = open_log(directory, CONFIG, was_clean=False, recovery_point=10)
    assert repeat(log, 29) == 29


@pytest.mark.parametrize("was_clean", [True, False], ids=["clean", "after a crash"])
def test_damaged_snapshot_is_rebuilt_from_the_log(directory: Path, was_clean: bool) -> None:
    written(directory).upkeep.close()
    for offset in snapshot_offsets(directory)[1:]:
        (directory / f"{offset:020d}.snapshot").write_bytes(b"")
    with capture_logs() as captured:
        log = open_log(directory, CONFIG, was_clean=was_clean, recovery_point=30)
    assert "snapshot.ignored" in {each["event"] for each in captured}
    assert [repeat(log, sequence) for sequence in range(25, 30)] == [25, 26, 27, 28, 29]


def test_a_damaged_snapshot_that_was_removed_is_passed_over(directory: Path) -> None:
    written(directory).upkeep.close()
    offsets = snapshot_offsets(directory)
    (directory / f"{offsets[-1]:020d}.snapshot").write_bytes(b"")
    assert read_newest(directory, offsets[-1:]) == (0, [])
    assert read_newest(directory, offsets)[0] == offsets[-2]


def test_snapshots_are_synced_with_their_segments(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[Path] = set()
    real = os.fdatasync

    def fdatasync(descriptor: int) -> None:
        synced.add(path_of(descriptor))
        real(descriptor)

    log = written(directory)
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    log.upkeep.flush_closed()
    *closed, active = [segment.base_offset for segment in log.segments]
    snapshots = {directory / f"{offset:020d}.snapshot" for offset in closed[1:]}
    assert snapshots <= synced
    log.upkeep.close()
    assert directory / f"{active:020d}.snapshot" in synced


def test_recovery_removes_all_damaged_snapshots(directory: Path) -> None:
    log = written(directory)
    bases = [segment.base_offset for segment in log.segments]
    log.upkeep.close()
    (directory / f"{bases[1]:020d}.snapshot").write_bytes(b"")
    log = open_log(directory, CONFIG, was_clean=False, recovery_point=30)
    assert snapshot_offsets(directory) == bases[2:]
    assert [repeat(log, sequence) for sequence in range(25, 30)] == [25, 26, 27, 28, 29]


def test_a_damaged_batch_hides_no_producer_before_it(directory: Path) -> None:
    """Damage in the middle of a log is not repaired; earlier producers are still known."""
    log = written(directory)
    first, second = log.segments[0], log.segments[1]
    log.upkeep.close()
    for offset in snapshot_offsets(directory):
        (directory / f"{offset:020d}.snapshot").unlink()
    path = directory / f"{first.base_offset:020d}.log"
    content = bytearray(path.read_bytes())
    last_batch = len(content) - len(produced(7, 0))
    content[last_batch + 16] = 1
    path.write_bytes(content)
    with capture_logs() as captured:
        log = open_log(directory, CONFIG, was_clean=False, recovery_point=second.base_offset + 1)
    assert "log.damaged" in {each["event"] for each in captured}
    assert repeat(log, 29) == 29


def test_unreadable_control_batch_is_skipped(directory: Path) -> None:
    log = open_log(directory, CONFIG)
    follow(log, produced(7, 0, is_transactional=True))
    with capture_logs() as captured:
        damaged = marker(7, 1)
        header = read_header(damaged)._replace(record_count=9)
        write_header(damaged, header)
        follow(log, damaged)
    assert "marker.ignored" in {each["event"] for each in captured}
    assert log.producers.last_stable_offset(Offset(2)) == 0


def test_compaction_preserves_producer_state(directory: Path) -> None:
    """This holds even after a full replay: the last batch of each producer is kept, maybe empty."""
    config = replace(COMPACTED, segment_bytes=1_000)
    log = open_log(directory, config)
    for number in range(30):
        write(log, produced(7, number))
    write(log, produced(8, 0))
    for number in range(30):
        write(log, produced(9, number))
    log.upkeep.roll(NOW_MS)
    log.advance_log_start(log.segments[1].base_offset)
    before = log.segments
    clean(log)
    # Segments are grouped by their sizes after the first cleaning.
    clean(log, dirty_from=0)
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) < len(before), "segments were merged"
    assert snapshot_offsets(directory) == bases
    known = {each.producer_id: each.last_batch for each in log.producers}
    again = open_log(directory, config, was_clean=False)
    assert {each.producer_id: each.last_batch for each in again.producers} == known
    assert repeat(again, 29) == 29


def test_logs_without_producers_have_snapshots_too(directory: Path) -> None:
    """Otherwise a start after a crash would read these logs from their beginning."""
    log = open_log(directory, CONFIG)
    fill(log, 40)
    assert snapshot_offsets(directory) == [segment.base_offset for segment in log.segments][1:]


def test_producers_without_batches_are_known_after_a_crash_with_an_old_high_watermark(
    directory: Path,
) -> None:
    """Only the snapshot at the first segment has them."""
    log = written(directory)
    follow(log, produced(8, 0, is_transactional=True))
    for number in range(30):
        follow(log, produced(9, number))
    follow(log, marker(8, int(log.log_end_offset)))
    start = next(each.base_offset for each in log.segments if each.base_offset > 30)
    log.advance_log_start(start)
    assert log.segments[0].base_offset == start
    first = directory / f"{start:020d}.snapshot"
    before = first.read_bytes()
    again = Log.open(
        directory,
        CONFIG,
        topic_partition=PARTITION,
        recovery_point=log.log_end_offset,
        log_start_offset=start,
        high_watermark=Offset(0),
        was_clean=False,
        now_ms=NOW_MS,
    )
    assert repeat(again, 29) == 29
    assert first.read_bytes() == before


def test_a_failed_snapshot_leaves_no_file(tmp_path: Path) -> None:
    write_snapshot(tmp_path, Offset(5), [])
    with failing("fsync", errno.ENOSPC), pytest.raises(OSError, match="No space"):
        write_snapshot(tmp_path, Offset(7), [], is_durable=True)
    assert snapshot_offsets(tmp_path) == [5]


def test_snapshot_is_not_written_into_the_file_of_a_linked_copy(directory: Path) -> None:
    written(directory)
    newest = directory / f"{snapshot_offsets(directory)[-1]:020d}.snapshot"
    copy = directory.parent / newest.name
    copy.hardlink_to(newest)
    before = copy.read_bytes()
    write_snapshot(directory, snapshot_offsets(directory)[-1], [])
    assert newest.read_bytes() != before
    assert copy.read_bytes() == before


@pytest.mark.parametrize("ending", ["append", "copy", "close"])
def test_failed_truncation_forgets_dropped_batches(tmp_path: Path, ending: str) -> None:
    """Without a descriptor the truncation drops batches, and the state of producers follows."""
    hits: set[str] = set()
    for at in itertools.count():
        log = written(tmp_path / f"orders-{at}")
        with injected(Fault.NO_DESCRIPTOR, at, tmp_path) as injection:
            if injection_ends(log, injection):
                break
        hits.add(injection.hit or "")
        end = log.log_end_offset
        assert end < 30
        log.truncate_to(Offset(15))
        if ending == "copy":
            end = log.log_end_offset
            follow(log, produced(7, int(end)))
            assert [repeat(log, each) for each in (end, 29)] == [end, None]
            continue
        if ending == "close":
            log.upkeep.close()
            log = open_log(log.directory, CONFIG)
        assert repeat(log, 29) is None
        assert repeat(log, 14) == 14
    assert "listdir" in hits


def test_damaged_snapshot_is_replaced_by_the_next_stop(directory: Path) -> None:
    log = open_log(directory)
    for number in range(5):
        write(log, produced(7, number))
    log.upkeep.close()
    [snapshot] = directory.glob("*.snapshot")
    stored = snapshot.read_bytes()
    snapshot.write_bytes(bytes(len(stored)))
    open_log(directory).upkeep.close()
    assert snapshot.read_bytes() == stored
    assert repeat(open_log(directory), 4) == 4


def failed_to_truncate(logs: Logs) -> Log:
    """Return a log whose truncation has dropped a batch, but not reloaded the producers."""
    log = create(logs)
    for number in range(5):
        write(log, produced(7, number))
    write(log, produced(8, 0, is_transactional=True))
    write(log, produced(7, 5))
    with failing("listdir", errno.EMFILE), pytest.raises(OutOfFilesError):
        log.truncate_to(Offset(6))
    return log


@pytest.mark.parametrize("is_clean", [True, False])
def test_producers_are_known_after_a_failed_truncation_and_a_stop(
    one: Path, is_clean: bool
) -> None:
    """Without a snapshot, a clean start would take the log for one without producers."""
    logs = open_logs(one)
    log = failed_to_truncate(logs)
    with nullcontext() if is_clean else failing("listdir", errno.EMFILE):
        logs.close()
    assert snapshot_offsets(log.directory) == ([6] if is_clean else [])
    assert (one / CLEAN_SHUTDOWN).exists() is is_clean
    logs = open_logs(one)
    log = log_of(logs)
    assert repeat(log, 4) == 4
    assert log.last_stable_offset(log.log_end_offset) == 5
    logs.close()


def injection_ends(log: Log, injection: Injection) -> bool:
    """Truncate; return whether no call was left to fail."""
    try:
        log.truncate_to(Offset(15))
    except StorageError:
        return False
    return injection.hit is None

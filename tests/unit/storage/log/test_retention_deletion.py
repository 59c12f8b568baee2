"""Retention on real files: `storage.log.retention_deletion`."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import Offset
from storage.config.log_config import LogConfig
from storage.log.log import Log
from storage.log.retention_deletion import delete_expired
from tests.unit.storage.logs import (
    NOW_MS,
    SMALL,
    append,
    check_files,
    fill,
    offsets_in,
    open_log,
    read_all,
)

ALL = 1_000


def with_retention(
    directory: Path,
    retention_ms: int | None = None,
    retention_bytes: int | None = None,
    file_delete_delay_ms: int = 60_000,
) -> Log:
    config = replace(
        SMALL,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        file_delete_delay_ms=file_delete_delay_ms,
    )
    return open_log(directory, config)


def expire(log: Log, *, later_ms: int = 0, max_segments: int = ALL) -> int:
    return delete_expired(log, log.log_end_offset, NOW_MS + later_ms, max_segments)


def bases(log: Log) -> list[int]:
    return [int(segment.base_offset) for segment in log.segments]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


def test_a_log_with_a_single_old_record_becomes_empty_and_keeps_its_end(directory: Path) -> None:
    log = with_retention(directory, retention_ms=1_000)
    append(log, epoch=3)
    assert expire(log, later_ms=1_000) == 0
    with capture_logs() as captured:
        assert expire(log, later_ms=1_001) == 1
    assert (log.log_start_offset, log.log_end_offset) == (1, 1)
    assert bases(log) == [1]
    [event] = [each for each in captured if each["event"] == "log.expired"]
    assert event["reasons"] == ["retention.ms"]
    assert expire(log, later_ms=10_000) == 0, "an empty log stays as it is"
    assert append(log, epoch=3).base_offset == 1
    log.upkeep.close()
    check_files(directory)


def test_size_leaves_an_exact_number_of_segments(directory: Path) -> None:
    log = with_retention(directory, retention_bytes=4_000)
    fill(log, 100)
    sizes = [segment.size_bytes for segment in log.segments]
    kept = next(count for count in range(len(sizes)) if sum(sizes[count:]) - sizes[count] < 4_000)
    assert expire(log) == kept > 1
    assert log.size_bytes >= 4_000
    assert offsets_in(read_all(log)) == list(range(log.log_start_offset, 100))


def test_record_from_the_future_protects_later_segments(directory: Path) -> None:
    log = with_retention(directory, retention_ms=1_000)
    append(log, [NOW_MS + 10 * 365 * 86_400_000])
    fill(log, 60)
    assert expire(log, later_ms=86_400_000) == 0


def test_records_without_a_timestamp_age_from_their_write(directory: Path) -> None:
    log = with_retention(directory, retention_ms=1_000)
    append(log, [-1])
    path = log.segments[0].file.path
    os.utime(path, (NOW_MS / 1000, NOW_MS / 1000))
    assert expire(log, later_ms=1_000) == 0
    assert expire(log, later_ms=1_001) == 1


def test_retention_in_steps_matches_a_single_run(tmp_path: Path) -> None:
    whole = with_retention(tmp_path / "orders-0", retention_bytes=3_000)
    steps = with_retention(tmp_path / "orders-1", retention_bytes=3_000)
    for log in (whole, steps):
        fill(log, 120)
    count = expire(whole)
    taken = 0
    while part := expire(steps, max_segments=2):
        assert part <= 2
        taken += part
    assert taken == count > 2
    assert bases(steps) == bases(whole)


def test_reader_of_a_deleted_segment_can_finish(directory: Path) -> None:
    log = with_retention(directory, retention_ms=1_000, file_delete_delay_ms=0)
    fill(log, 5)
    region = log.read(Offset(0), 10_000, end_offset=Offset(5), min_one_batch=True)
    assert expire(log, later_ms=5_000) == 1
    log.upkeep.remove_deleted_files(NOW_MS)
    assert not list(directory.glob("*.deleted"))
    assert offsets_in(region.read()) == list(range(5))


def test_deleted_files_wait_for_their_delay_and_a_start_ignores_them(directory: Path) -> None:
    log = with_retention(directory, retention_ms=1_000, file_delete_delay_ms=60_000)
    fill(log, 5)
    expire(log, later_ms=5_000)
    waiting = {path.name for path in directory.glob("*.deleted")}
    assert waiting == {f"{0:020d}{suffix}.deleted" for suffix in (".log", ".index", ".timeindex")}
    log.upkeep.remove_deleted_files(NOW_MS)
    log.upkeep.remove_deleted_files(NOW_MS + 59_999)
    assert {path.name for path in directory.glob("*.deleted")} == waiting
    log.upkeep.close()
    log = open_log(directory, log_start_offset=5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert not list(directory.glob("*.deleted"))


def test_uncommitted_segments_are_kept(directory: Path) -> None:
    log = with_retention(directory, retention_ms=1_000)
    fill(log, 60)
    second = log.segments[1].base_offset
    assert delete_expired(log, second, NOW_MS + 5_000, ALL) == 1
    assert log.log_start_offset == second


def test_leader_epochs_begin_at_the_log_start(directory: Path) -> None:
    log = open_log(directory, SMALL)
    for epoch in range(4):
        fill(log, 30, epoch=epoch)
    log.update_config(LogConfig(segment_bytes=2_000, retention_bytes=2_000))
    assert expire(log) > 2
    first = log.leader_epochs.entries[0]
    assert first.start_offset == log.log_start_offset
    assert first.epoch == log.leader_epochs.epoch_for(log.log_start_offset)

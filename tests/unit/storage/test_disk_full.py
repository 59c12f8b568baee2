"""Full disks: appends are refused until there is space again; everything else works."""

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from storage.disk import space_reserve
from storage.disk.space_reserve import FILE_NAME, LEAST_FREE_BYTES, SpaceReserve
from storage.errors import LogDirFullError, LogDirOfflineError, OutOfFilesError
from storage.log.log import Log
from tests.unit.storage.faults import failing
from tests.unit.storage.logs import (
    NOW_MS,
    PARTITION,
    append,
    check_files,
    crash,
    create,
    fill,
    log_of,
    offsets_in,
    open_log,
    open_logs,
    read_all,
    replicated,
)

RESERVE_BYTES = 3 * LEAST_FREE_BYTES
OTHER = TopicPartition("orders", 1)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "orders-0")
    fill(log, 5)
    return log


def test_full_disk_refuses_only_appends(log: Log) -> None:
    with capture_logs() as captured, failing("pwrite", errno.ENOSPC):
        for _ in range(3):
            with pytest.raises(LogDirFullError, match="No space left"):
                append(log)
        with pytest.raises(LogDirFullError):
            log.append_as_follower(memoryview(replicated(5)), NOW_MS)
        assert offsets_in(read_all(log)) == list(range(5))
        log.truncate_to(Offset(4))
    assert [each["event"] for each in captured] == ["log_dir.full", "log.truncated"]
    assert log.health.failure is None
    log.health.note_space()
    append(log)
    assert offsets_in(read_all(log)) == list(range(5))
    log.upkeep.close()
    check_files(log.directory)


@pytest.mark.parametrize("call", ["pwrite", "open", "fsync", "ftruncate"])
def test_log_continues_once_a_full_disk_has_space_again(tmp_path: Path, call: str) -> None:
    """Each call of a load of appends, rolls and new epochs fails once, in turn."""
    for number in range(1_000):
        log = open_log(tmp_path / f"{call}-{number}")
        with failing(call, errno.ENOSPC, turn=number.__eq__) as numbers:
            count, refusals = _append_with_patience(log)
        assert refusals <= 1
        assert offsets_in(read_all(log)) == list(range(count))
        log.upkeep.close()
        check_files(log.directory)
        again = open_log(log.directory, was_clean=False)
        assert offsets_in(read_all(again)) == list(range(count))
        if len(numbers) <= number:
            break
    assert number > 3, "hardly any call was refused"


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_roll_that_finds_no_space_leaves_no_segment(
    log: Log, suffix: str, *, was_clean: bool
) -> None:
    """After it, larger segments are configured, so that the next batches need no roll."""
    log.update_config(replace(log.config, segment_bytes=log.size_bytes + 1))
    with (
        failing("open", errno.ENOSPC, at=lambda path: path.name == f"{5:020d}.{suffix}"),
        pytest.raises(LogDirFullError),
    ):
        append(log)
    log.health.note_space()
    log.update_config(replace(log.config, segment_bytes=100_000))
    fill(log, 5)
    log.upkeep.close()
    check_files(log.directory)
    again = open_log(log.directory, was_clean=was_clean)
    assert len(again.segments) == 1
    assert offsets_in(read_all(again)) == list(range(10))


def _append_with_patience(log: Log) -> tuple[int, int]:
    """Append with retries; return the numbers of appends and of refusals."""
    count = refusals = 0
    while count < 60:
        try:
            append(log, epoch=count // 20)
            count += 1
            if count % 10 == 0:
                log.upkeep.flush()
        except LogDirFullError:
            refusals += 1
            assert log.log_end_offset == count
            log.health.note_space()
    return count, refusals


def test_index_entry_without_space_is_written_later(log: Log) -> None:
    with failing("pwrite", errno.ENOSPC, at=lambda path: path.suffix.endswith("index")):
        fill(log, 10)
    assert not log.health.is_full
    log.upkeep.close()
    check_files(log.directory)


def test_failed_sync_takes_the_log_dir_offline(log: Log) -> None:
    with (
        failing("fdatasync", errno.ENOSPC),
        pytest.raises(LogDirOfflineError, match="not known to be on disk"),
    ):
        log.upkeep.flush()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_do_not_take_the_log_dir_offline(log: Log, number: int) -> None:
    fill(log, 60)
    log.upkeep.release_closed()
    with failing("open", number):
        with pytest.raises(OutOfFilesError, match="LimitNOFILE"):
            read_all(log)
        with pytest.raises(OutOfFilesError):
            fill(log, 60)
    assert log.health.refusal is None
    end = log.log_end_offset
    append(log)
    assert offsets_in(read_all(log)) == list(range(end + 1))


class Space(NamedTuple):
    """Fields of the result of `os.statvfs`."""

    f_bavail: int
    f_frsize: int = 1


def free(patch: pytest.MonkeyPatch, size_bytes: int) -> None:
    patch.setattr(space_reserve, "free_bytes", lambda _path: size_bytes)


def test_a_reserve_is_held_if_as_much_again_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = SpaceReserve(tmp_path, RESERVE_BYTES)
    free(monkeypatch, 2 * RESERVE_BYTES - 1)
    assert [reserve.hold(), reserve.is_held] == [False, False]
    free(monkeypatch, 2 * RESERVE_BYTES)
    assert reserve.hold()
    assert (tmp_path / FILE_NAME).stat().st_blocks * 512 >= RESERVE_BYTES
    free(monkeypatch, RESERVE_BYTES - 1)
    assert [reserve.hold(), reserve.is_held] == [False, True]
    reserve.release()
    reserve.release()
    assert list(tmp_path.iterdir()) == []


def test_without_a_reserve_appends_need_a_minimum_of_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = SpaceReserve(tmp_path, 0)
    free(monkeypatch, LEAST_FREE_BYTES - 1)
    assert not reserve.hold()
    free(monkeypatch, LEAST_FREE_BYTES)
    assert reserve.hold()
    assert not (tmp_path / FILE_NAME).exists()


def test_reserve_without_space_is_not_held(tmp_path: Path) -> None:
    reserve = SpaceReserve(tmp_path, RESERVE_BYTES)
    with failing("posix_fallocate", errno.ENOSPC):
        assert not reserve.hold()
    assert not reserve.is_held


def test_free_space_counts_only_blocks_available_to_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _path: Space(7, 4096))
    assert space_reserve.free_bytes(tmp_path) == 7 * 4096


def test_full_log_dir_releases_its_reserve_and_restores_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = open_logs(tmp_path, reserve_bytes=RESERVE_BYTES)
    reserve = tmp_path / FILE_NAME
    log = create(logs)
    assert reserve.exists()
    with failing("pwrite", errno.ENOSPC), pytest.raises(LogDirFullError):
        append(log)
    assert not reserve.exists()
    assert list(logs.table.full_paths) == [tmp_path]
    with pytest.raises(LogDirFullError):
        create(logs, OTHER)
    free(monkeypatch, 2 * RESERVE_BYTES - 1)
    logs.check_space()
    assert list(logs.table.full_paths) == [tmp_path]
    free(monkeypatch, 2 * RESERVE_BYTES)
    logs.check_space()
    assert list(logs.table.full_paths) == []
    assert reserve.exists()
    append(log)
    create(logs, OTHER)
    logs.close()


def test_new_partition_goes_to_a_log_dir_with_space(one: Path, two: Path) -> None:
    logs = open_logs(one, two, reserve_bytes=RESERVE_BYTES)
    full = create(logs)
    with failing("pwrite", errno.ENOSPC), pytest.raises(LogDirFullError):
        append(full)
    other = two if full.directory.parent == one else one
    partitions = [TopicPartition("orders", number) for number in (1, 2, 3)]
    assert {create(logs, each).directory.parent for each in partitions} == {other}
    logs.close()


def test_log_dir_that_is_full_at_the_start_serves_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = open_logs(tmp_path, reserve_bytes=RESERVE_BYTES)
    fill(create(logs), 30)
    crash(logs)
    free(monkeypatch, 0)
    logs = open_logs(tmp_path, reserve_bytes=RESERVE_BYTES)
    # The reserve has been released for the recovery.
    assert not (tmp_path / FILE_NAME).exists()
    logs.check_space()
    log = log_of(logs)
    assert offsets_in(read_all(log)) == list(range(30))
    with pytest.raises(LogDirFullError, match="free space is smaller than the reserve"):
        append(log)
    logs.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_log_dir_without_space_for_loading_does_not_stop_others(one: Path, two: Path) -> None:
    logs = open_logs(one, two, reserve_bytes=RESERVE_BYTES)
    for partition in (PARTITION, OTHER):
        fill(create(logs, partition), 3)
    crash(logs)
    with failing("ftruncate", errno.ENOSPC, at=lambda path: one in path.parents):
        logs = open_logs(one, two, reserve_bytes=RESERVE_BYTES)
    assert logs.table.offline_paths == (one,)
    assert [each.directory.parent for each in logs] == [two]
    logs.close()
    assert not (one / ".kafka_cleanshutdown").exists()


def test_deleted_files_are_removed_at_once_from_a_full_disk(tmp_path: Path) -> None:
    logs = open_logs(tmp_path, reserve_bytes=RESERVE_BYTES)
    log, other = create(logs), create(logs, OTHER)
    fill(log, 60)
    log.advance_log_start(Offset(50))
    logs.delete(other.topic_partition)
    logs.remove_deleted(NOW_MS, delay_ms=60_000)
    assert list(log.directory.glob("*.deleted"))
    log.health.note_full("no space")
    logs.remove_deleted(NOW_MS, delay_ms=60_000)
    assert not list(tmp_path.glob("**/*.deleted"))
    assert not list(tmp_path.glob("*-delete"))
    logs.close()


def test_epoch_that_could_not_be_stored_is_stored_later(log: Log) -> None:
    append(log, epoch=1)
    with failing("fsync", errno.ENOSPC, turn=(0).__eq__), pytest.raises(LogDirFullError):
        log.upkeep.flush()
    log.health.note_space()
    log.upkeep.flush()
    assert (log.directory / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n1 5\n"
    assert log.leader_epochs.latest == LeaderEpoch(1)

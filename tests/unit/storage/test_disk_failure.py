"""Disks that are full, fail, or write less than requested."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import read_header
from storage.disk.checkpoint import read_offsets, write_atomically, write_offsets
from storage.errors import LogDirOfflineError
from storage.log.log import Log
from tests.unit.storage.faults import dies_within, failing, path_of
from tests.unit.storage.logs import (
    NOW_MS,
    PARTITION,
    append,
    batch_of,
    check_files,
    fill,
    offsets_in,
    open_files,
    open_log,
    read_all,
)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "orders-0")
    fill(log, 5)
    return log


@contextmanager
def short_writes(limit: int, then: OSError | None) -> Iterator[list[int]]:
    """Limit each `pwrite` to `limit` bytes; after the first one, fail with `then`."""
    real = os.pwrite
    counts: list[int] = []

    def pwrite(descriptor: int, data: memoryview, position: int) -> int:
        if counts and then is not None:
            raise then
        counts.append(real(descriptor, data[:limit], position))
        return counts[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        yield counts


def test_short_write_is_continued(log: Log) -> None:
    with short_writes(7, None) as counts:
        append(log)
    assert len(counts) > 5
    assert offsets_in(read_all(log)) == list(range(6))
    log.upkeep.close()
    check_files(log.directory)


@pytest.mark.parametrize("limit", [0, 1, 60, 61, 90])
def test_write_that_fails_halfway_appends_nothing(log: Log, limit: int) -> None:
    path = log.directory / f"{0:020d}.log"
    size, stored = path.stat().st_size, read_all(log)
    broken = OSError(errno.EIO, "Input/output error")
    with short_writes(limit, broken), pytest.raises(LogDirOfflineError, match="Input/output"):
        append(log)
    assert log.log_end_offset == 5
    assert path.stat().st_size == size
    # The next start, with space again, finds exactly the acknowledged records.
    again = open_log(log.directory, was_clean=False)
    assert read_all(again) == stored
    append(again)
    assert offsets_in(read_all(again)) == list(range(6))


def test_device_that_accepts_no_byte_is_a_failure(log: Log) -> None:
    with short_writes(0, None), pytest.raises(LogDirOfflineError, match="no byte written"):
        append(log)


def test_a_failing_index_write_takes_the_log_dir_offline(log: Log) -> None:
    fill(log, 6)
    in_index = failing("pwrite", at=lambda path: path.suffix.endswith("index"))
    with in_index, pytest.raises(LogDirOfflineError, match="Input/output"):
        log.upkeep.roll(NOW_MS)
    assert log.health.failure is not None


def use(log: Log) -> None:
    log.read(Offset(1), 100, end_offset=Offset(5), min_one_batch=True)
    log.upkeep.flush()
    log.truncate_to(Offset(1))


@pytest.mark.parametrize("call", ["pread", "fdatasync", "ftruncate"])
def test_a_disk_that_fails_takes_the_log_dir_offline_once(log: Log, call: str) -> None:
    with failing(call), capture_logs() as captured:
        for _ in range(2):
            with pytest.raises(LogDirOfflineError):
                use(log)
    assert [each["event"] for each in captured] == ["log_dir.offline"]


def test_a_failing_epoch_checkpoint_fails_the_flush(log: Log) -> None:
    with failing("fsync"):
        append(log, epoch=1)
        recovery_point = log.recovery_point
        with pytest.raises(LogDirOfflineError):
            log.upkeep.flush()
    assert log.recovery_point == recovery_point < log.log_end_offset


OFFSETS = {PARTITION: Offset(1)}
NEWER = {PARTITION: Offset(2)}


def test_a_crash_while_a_checkpoint_is_written_leaves_the_old_one(tmp_path: Path) -> None:
    path, found = tmp_path / "checkpoint", []
    for number in range(3):
        write_offsets(path, OFFSETS)
        assert dies_within(number, lambda: write_offsets(path, NEWER))
        found.append(read_offsets(path))
    # The last change makes the rename durable: the new content is there already.
    assert found == [OFFSETS, OFFSETS, NEWER]
    assert not dies_within(3, lambda: write_offsets(path, NEWER))


def test_a_checkpoint_is_synced_before_and_after_its_rename(tmp_path: Path) -> None:
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        steps.append("sync " + path_of(descriptor).name)
        real_fsync(descriptor)

    def replace(path: Path, target: Path) -> Path:
        steps.append(f"rename {path.name} {target.name}")
        return real_replace(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        patch.setattr(Path, "replace", replace)
        write_atomically(tmp_path / "checkpoint", "content")
    assert steps == [
        "sync checkpoint.tmp",
        "rename checkpoint.tmp checkpoint",
        f"sync {tmp_path.name}",
    ]


def test_a_flush_syncs_files_then_the_directory(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0")
    fill(log, 5)
    synced: list[str] = []
    real_sync, real_fdatasync = os.fsync, os.fdatasync

    def noted(descriptor: int) -> int:
        synced.append(path_of(descriptor).name)
        return descriptor

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", lambda fd: real_fdatasync(noted(fd)))
        patch.setattr(os, "fsync", lambda fd: real_sync(noted(fd)))
        log.upkeep.flush()
        log.upkeep.flush()
    base = f"{0:020d}"
    epochs = ["leader-epoch-checkpoint.tmp", "orders-0"]
    assert synced == [*epochs, f"{base}.log", f"{base}.index", f"{base}.timeindex", "orders-0"]


def test_sync_of_a_closed_segment_leaves_it_closed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0")
    fill(log, 30)
    log = open_log(tmp_path / "orders-0", was_clean=False)
    before = open_files()
    log.upkeep.flush()
    assert log.recovery_point == 30
    assert open_files() == before


def test_a_directory_that_vanishes_is_a_failure(log: Log) -> None:
    for path in log.directory.iterdir():
        path.unlink()
    log.directory.rmdir()
    with pytest.raises(LogDirOfflineError, match="No such file"):
        log.upkeep.flush()


def test_batches_are_written_without_a_copy(log: Log) -> None:
    batch = memoryview(batch_of())
    seen: list[object] = []
    real = os.pwrite

    def pwrite(descriptor: int, data: memoryview, position: int) -> int:
        seen.append(data)
        return real(descriptor, data, position)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        log.append_as_leader(batch, read_header(batch), LeaderEpoch(0), NOW_MS)
    assert seen[0] is batch

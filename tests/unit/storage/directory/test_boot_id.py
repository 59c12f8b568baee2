"""Log dirs that may have lost records: `storage.directory.boot_id`.

They lost them when the machine was restarted, or their disk failed. `crash` is the death of the
process; another boot id afterwards is a restart of the machine.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import TopicPartition
from storage.directory import boot_id
from storage.directory.boot_id import current_boot_id, may_lack_records
from storage.directory.logs import Logs
from storage.errors import LogDirFullError, LogDirOfflineError, OutOfFilesError, StorageError
from storage.log.log import Log
from tests.unit.storage.faults import failing, path_of
from tests.unit.storage.logs import (
    PARTITION,
    append,
    crash,
    create,
    fill,
    log_of,
    offsets_in,
    open_logs,
    read_all,
)

STORED = ".ottla-boot-id"


def run(*paths: Path, boot: str) -> Logs:
    """Open log dirs, accept them, and write one log."""
    logs = open_logs(*paths, boot_id=boot)
    logs.accept()
    create(logs)
    return logs


def is_doubtful(*paths: Path, boot: str) -> bool:
    logs = open_logs(*paths, boot_id=boot)
    crash(logs)
    return bool(logs.doubtful_paths)


@pytest.mark.parametrize(
    ("stored", "current", "was_clean", "expected"),
    [
        pytest.param("a", "a", False, False, id="the process died"),
        pytest.param("a", "b", False, True, id="the machine was restarted"),
        pytest.param("a", "b", True, False, id="clean shutdown"),
        pytest.param(None, "a", True, False, id="clean shutdown of an older version"),
        pytest.param(None, "a", False, True, id="new, wiped, or of an older version"),
        pytest.param("unknown", "unknown", False, False, id="a system without boot ids"),
        pytest.param("a", "unknown", False, True, id="the id cannot be read any more"),
        pytest.param("\ufffd", "a", False, True, id="damaged file"),
    ],
)
def test_evidence(stored: str | None, current: str, was_clean: bool, expected: bool) -> None:
    assert may_lack_records(stored, current, was_clean=was_clean) is expected


def test_boot_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "boot_id"
    monkeypatch.setattr(boot_id, "KERNEL_BOOT_ID", file)
    assert current_boot_id() == "unknown"
    file.write_text("")
    assert current_boot_id() == "unknown"
    file.write_bytes(b"\xff")
    assert current_boot_id() == "unknown"
    file.write_text("3f2c\n")
    assert current_boot_id() == "3f2c"


def test_killed_process_loses_nothing(one: Path) -> None:
    crash(run(one, boot="a"))
    logs = open_logs(one, boot_id="a")
    assert logs.doubtful_paths == []
    assert logs.is_complete(PARTITION)
    assert not logs.is_complete(TopicPartition("orders", 1)), "there is no such log"


def test_restarted_machine_may_have_lost_records(one: Path) -> None:
    crash(run(one, boot="a"))
    logs = open_logs(one, boot_id="b")
    assert logs.doubtful_paths == [one]
    assert not logs.is_complete(PARTITION)
    logs.accept()
    assert logs.is_complete(PARTITION)
    crash(logs)
    assert not is_doubtful(one, boot="b")
    assert is_doubtful(one, boot="c")


@pytest.mark.parametrize("next_boot", ["a", "b"])
def test_clean_shutdown_leaves_no_doubt(one: Path, next_boot: str) -> None:
    run(one, boot="a").close()
    assert not is_doubtful(one, boot=next_boot)
    # The process died before it was in service: the marker is gone, but the records are there.
    assert not is_doubtful(one, boot=next_boot)
    assert is_doubtful(one, boot="c")


def test_doubt_outlives_a_clean_shutdown(one: Path) -> None:
    crash(run(one, boot="a"))
    for _ in range(2):
        open_logs(one, boot_id="b").close()
        assert not (one / ".kafka_cleanshutdown").exists()
        assert (one / STORED).read_text() == "a\n"
    assert is_doubtful(one, boot="b")


def test_wiped_log_dir_is_doubtful_and_the_others_are_not(one: Path, two: Path) -> None:
    logs = run(one, boot="a")
    crash(logs)
    logs = open_logs(one, two, boot_id="a")
    assert logs.doubtful_paths == [two]
    assert logs.is_complete(PARTITION)


def test_without_a_boot_id_nothing_is_judged_or_stored(one: Path) -> None:
    logs = open_logs(one)
    assert logs.doubtful_paths == []
    logs.accept()
    assert not (one / STORED).exists()
    logs.close()


def test_full_disk_keeps_the_doubt_for_the_next_start(one: Path) -> None:
    crash(run(one, boot="a"))
    logs = open_logs(one, boot_id="b")
    with failing("fsync", errno.ENOSPC), capture_logs() as events:
        logs.accept()
    assert [each["event"] for each in events] == ["boot_id.not_stored"]
    assert logs.doubtful_paths == []
    assert logs.table.offline_paths == ()
    crash(logs)
    assert is_doubtful(one, boot="b")


def test_broken_disk_goes_offline_alone(one: Path, two: Path) -> None:
    logs = open_logs(one, two, boot_id="a")
    with failing("fsync", at=lambda path: one in path.parents):
        logs.accept()
    assert logs.table.offline_paths == (one,)
    assert logs.doubtful_paths == []


def fail_to_flush(log: Log) -> None:
    """Append a record that a failing disk does not take."""
    append(log)
    with failing("fdatasync"), pytest.raises(LogDirOfflineError):
        log.upkeep.flush()


@pytest.mark.parametrize("is_orderly", [True, False])
def test_failed_sync_leaves_a_doubt_for_the_next_start(one: Path, is_orderly: bool) -> None:
    logs = run(one, boot="a")
    fail_to_flush(log_of(logs))
    if is_orderly:
        logs.close()
    crash(logs)
    assert is_doubtful(one, boot="a")
    assert is_doubtful(one, boot="a"), "until the logs are accepted"
    crash(run(one, boot="a"))
    assert not is_doubtful(one, boot="a")


@pytest.mark.parametrize(
    ("call", "number", "work", "error"),
    [
        ("pwrite", errno.ENOSPC, append, LogDirFullError),
        ("open", errno.EMFILE, lambda log: log.upkeep.flush(), OutOfFilesError),
    ],
)
def test_lack_of_space_or_descriptors_leaves_no_doubt(
    one: Path, call: str, number: int, work: Callable[[Log], object], error: type[StorageError]
) -> None:
    logs = run(one, boot="a")
    append(log_of(logs))
    with failing(call, number), pytest.raises(error):
        work(log_of(logs))
    crash(logs)
    assert not is_doubtful(one, boot="a")


def test_boot_id_that_a_broken_disk_keeps_is_reported(one: Path) -> None:
    logs = run(one, boot="a")
    with failing("unlink", errno.EROFS), capture_logs() as events:
        fail_to_flush(log_of(logs))
    assert "boot_id.not_removed" in [each["event"] for each in events]
    crash(logs)


def test_recovery_after_a_failed_sync_reads_the_disk(
    one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = run(one, boot="a")
    log = log_of(logs)
    fill(log, 3)
    log.upkeep.flush()
    [on_disk] = {each.size_bytes for each in log.segments}
    fail_to_flush(log)
    crash(logs)

    def drop(descriptor: int, offset: int, length: int, advice: int) -> None:
        assert (offset, length, advice) == (0, 0, os.POSIX_FADV_DONTNEED)
        if (path := path_of(descriptor)).suffix == ".log":
            os.truncate(path, on_disk)

    monkeypatch.setattr(os, "posix_fadvise", drop)
    logs = open_logs(one, boot_id="a")
    assert offsets_in(read_all(log_of(logs))) == [0, 1, 2]
    logs.close()


@pytest.mark.parametrize("next_boot", ["a", "b"])
def test_cache_is_kept_without_a_failed_sync(
    one: Path, monkeypatch: pytest.MonkeyPatch, next_boot: str
) -> None:
    logs = run(one, boot="a")
    fill(log_of(logs), 3)
    crash(logs)

    def drop(descriptor: int, *_: int) -> None:
        raise AssertionError(path_of(descriptor))

    monkeypatch.setattr(os, "posix_fadvise", drop)
    crash(open_logs(one, boot_id=next_boot))

"""A failure of one log dir, or of one log in it, affects no other and can be repaired later."""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kafkawire.ids import Offset, TopicId, TopicPartition
from storage.directory.logs import Logs
from storage.disk.checkpoint import read_offsets
from storage.disk.deleted_files import DeletedFiles
from storage.disk.layout import META_PROPERTIES
from storage.errors import (
    InconsistentMetadataError,
    LogDirFullError,
    LogDirOfflineError,
    OutOfFilesError,
    StorageError,
)
from tests.unit.storage.faults import failing
from tests.unit.storage.logs import (
    NOW_MS,
    PARTITION,
    SMALL,
    append,
    crash,
    create,
    fill,
    log_of,
    offsets_in,
    open_logs,
    read_all,
)

NEW = TopicId(int=2)
A, B = PARTITION, TopicPartition("other", 0)
FLUSHED_SOON = replace(SMALL, flush_ms=0)
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"


def names(path: Path, pattern: str) -> list[str]:
    return sorted(each.name for each in path.glob(pattern))


def test_failed_deletion_can_be_retried(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    fill(create(logs), 7)
    fill(create(logs, B), 3)
    with failing("rename", errno.ENOSPC), pytest.raises(StorageError):
        logs.delete(A)
    logs.check_space()
    logs.table.directories[0].health.note_space()
    kept = log_of(logs)
    assert not kept.is_closed
    assert offsets_in(read_all(kept)) == list(range(7))
    assert read_offsets(tmp_path / RECOVERY_POINTS).keys() <= {A, B}
    logs.delete(A)
    assert names(tmp_path, "orders-0*")[0].endswith("-delete")
    new = create(logs, topic_id=NEW)
    assert (new.topic_id, new.log_end_offset) == (NEW, 0)
    logs.close()


@pytest.mark.parametrize(
    ("call", "number"),
    [("open", errno.EMFILE), ("fsync", errno.ENOSPC), ("replace", errno.ENOSPC)],
)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_deletion_needs_no_space_and_no_descriptor(
    tmp_path: Path, call: str, number: int, *, is_restarted: bool
) -> None:
    """The checkpoints forget the log later, but before a new log may have its name."""
    logs = open_logs(tmp_path)
    fill(create(logs), 7)
    log_of(logs).upkeep.flush()
    logs.checkpoints.write_bounds()
    with failing(call, number):
        logs.delete(A)
    assert logs.get(A) is None
    assert names(tmp_path, "orders-0*")[0].endswith("-delete")
    assert read_offsets(tmp_path / RECOVERY_POINTS).items() <= {A: 7}.items()
    if is_restarted:
        crash(logs)
        logs = open_logs(tmp_path)
    logs.table.directories[0].health.note_space()
    with failing(call, number), pytest.raises(StorageError):
        create(logs, topic_id=NEW)
    logs.table.directories[0].health.note_space()
    create(logs, topic_id=NEW)
    assert read_offsets(tmp_path / RECOVERY_POINTS) == {}
    logs.close()


def test_deletion_of_a_log_that_is_elsewhere_needs_no_descriptor(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    with failing("open", errno.EMFILE):
        logs.delete(A)
    logs.close()


def test_deletion_that_fails_in_one_log_dir_succeeds_in_the_others(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    create(logs)
    create(logs, B)
    in_one = failing("rename", errno.ENOSPC, at=lambda path: one in path.parents)
    with in_one, pytest.raises(LogDirFullError):
        logs.delete(A, B)
    assert [each.topic_partition for each in logs] == [A]
    assert names(two, "other-0") == []
    logs.close()


def test_unopened_log_can_be_deleted(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    fill(create(logs), 7)
    logs.close()
    metadata = tmp_path / "orders-0" / "partition.metadata"
    stored = metadata.read_text()
    metadata.write_text("nonsense")
    logs = open_logs(tmp_path)
    assert logs.get(A) is None
    metadata.write_text(stored)
    logs.delete(A)
    assert names(tmp_path, "orders-0") == []
    logs.remove_deleted(0, delay_ms=0)
    assert names(tmp_path, "orders-0*") == []
    logs.close()


def test_records_of_another_topic_do_not_get_into_a_new_log(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    fill(create(logs), 7)
    logs.close()
    (tmp_path / "orders-0").rename(tmp_path / "hidden")
    logs = open_logs(tmp_path)
    (tmp_path / "hidden").rename(tmp_path / "orders-0")
    new = create(logs, topic_id=NEW)
    assert (new.topic_id, new.log_end_offset) == (NEW, 0)
    [stray] = tmp_path.glob("orders-0.*-stray")
    assert (stray / f"{0:020d}.log").stat().st_size > 0
    logs.close()


def test_log_that_could_not_be_opened_is_not_recreated(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    fill(create(logs), 7)
    create(logs, B)
    logs.close()
    metadata = one / "orders-0" / "partition.metadata"
    metadata.write_text("nonsense")
    logs = open_logs(one, two)
    with pytest.raises(StorageError, match="no topic id"):
        create(logs)
    metadata.unlink()
    with pytest.raises(StorageError, match="could not be opened"):
        create(logs)
    # The other log dir must not get it either, or the partition would lie in two log dirs.
    assert names(two, "orders-0") == []
    crash(logs)
    logs = open_logs(one, two)
    kept = log_of(logs)
    assert offsets_in(read_all(kept)) == list(range(7))
    logs.close()


@pytest.mark.parametrize("is_left", [False, True])
def test_creation_that_failed_halfway_is_resumed(tmp_path: Path, is_left: bool) -> None:
    logs = open_logs(tmp_path)
    log_file = tmp_path / "orders-0" / f"{0:020d}.log"

    def is_index(path: Path) -> bool:
        return path.suffix == ".index"

    with failing("open", errno.EMFILE, at=is_index), pytest.raises(OutOfFilesError):
        create(logs)
    assert log_file.parent.is_dir()
    assert not log_file.exists()
    if is_left:
        log_file.touch()
    append(create(logs))
    logs.close()


def test_high_watermark_survives_a_start_without_controller_requests(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    fill(create(logs), 10)
    logs.checkpoints.write_high_watermarks({A: Offset(10)})
    logs.close()
    for _ in range(2):
        logs = open_logs(tmp_path)
        # No controller has assigned a role yet.
        logs.checkpoints.write_high_watermarks({})
        assert logs.checkpoints.high_watermark(A) == 10
        crash(logs)
    logs = open_logs(tmp_path)
    logs.checkpoints.write_high_watermarks({A: Offset(8)})
    assert read_offsets(tmp_path / HIGH_WATERMARKS) == {A: 8}
    logs.delete(A)
    logs.checkpoints.write_high_watermarks({})
    assert read_offsets(tmp_path / HIGH_WATERMARKS) == {}
    logs.close()


UPKEEP: dict[str, Callable[[Logs], None]] = {
    "flush": lambda logs: logs.flush_due(NOW_MS + 10_000),
    "recovery points": lambda logs: logs.checkpoints.write_recovery_points(),
    "high watermarks": lambda logs: logs.checkpoints.write_high_watermarks(
        {A: Offset(40), B: Offset(40)}
    ),
    "log starts": lambda logs: logs.checkpoints.write_log_starts(),
}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
@pytest.mark.parametrize("work", UPKEEP.values(), ids=UPKEEP.keys())
def test_a_full_log_dir_does_not_stop_the_upkeep_of_others(
    one: Path, two: Path, number: int, work: Callable[[Logs], None]
) -> None:
    logs = open_logs(one, two, config=FLUSHED_SOON)
    for partition in (A, B):
        fill(create(logs, partition, config=FLUSHED_SOON), 40)
    b = log_of(logs, B)
    b.advance_log_start(Offset(3))
    call = "open" if number == errno.EMFILE else "fsync"
    in_one = failing(call, number, at=lambda path: one in (path, *path.parents))
    with in_one, pytest.raises((LogDirFullError, OutOfFilesError)):
        work(logs)
    written = {path.name for path in two.glob("*-checkpoint")}
    assert written or b.recovery_point == 40
    crash(logs)


@pytest.mark.parametrize(
    "write", [lambda logs: logs.checkpoints.write_bounds(), Logs.close], ids=["periodic", "stop"]
)
def test_cleaner_offset_of_a_deleted_log_leaves_its_checkpoint_later(
    one: Path, write: Callable[[Logs], None]
) -> None:
    logs = open_logs(one)
    for partition in (A, B):
        create(logs, partition)
        logs.checkpoints.note_cleaner_offset(partition, Offset(1))
    logs.checkpoints.write_cleaner_offsets()
    with failing("open", errno.EMFILE):
        logs.delete(A)
    assert A in read_offsets(one / "cleaner-offset-checkpoint")
    write(logs)
    assert read_offsets(one / "cleaner-offset-checkpoint") == {B: 1}
    logs.close()


def test_log_that_cannot_be_closed_does_not_keep_others_open(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    partitions = [TopicPartition("orders", number) for number in range(4)]
    for partition in partitions:
        fill(create(logs, partition), 5)
    with failing("ftruncate", errno.ENOSPC, at=lambda path: one / "orders-0" in path.parents):
        logs.close()
    assert names(one, ".kafka_cleanshutdown") == []
    assert names(two, ".kafka_cleanshutdown") == [".kafka_cleanshutdown"]
    assert read_offsets(one / "recovery-point-offset-checkpoint")[partitions[2]] == 5
    logs = open_logs(one, two)
    assert {each.log_end_offset for each in logs} == {5}
    logs.close()


def test_file_that_vanishes_during_the_removal_of_a_log_does_not_matter(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    fill(create(logs), 7)
    logs.delete(A)

    def vanish(path: Path) -> bool:
        if path.suffix == ".index":
            [file] = tmp_path.glob(f"orders-0*/{path.name}")
            file.rename(tmp_path / "elsewhere")
        return False

    with failing("unlink", at=vanish):
        logs.remove_deleted(0, delay_ms=0)
    assert logs.table.offline_paths == ()
    logs.remove_deleted(1, delay_ms=0)
    assert names(tmp_path, "orders-0*") == []
    logs.close()


def test_file_that_appears_during_the_removal_of_a_log_is_removed_later(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    fill(create(logs), 7)
    fill(create(logs, B), 3)
    logs.delete(A)
    logs.delete(B)

    def appear(path: Path) -> bool:
        if path.name.startswith("orders-0"):
            (tmp_path / path.name / "late").touch()
        return False

    with failing("rmdir", at=appear):
        logs.remove_deleted(0, delay_ms=0)
    assert logs.table.offline_paths == ()
    [left] = names(tmp_path, "*-delete")
    assert names(tmp_path / left, "*") == ["late"]
    logs.remove_deleted(1, delay_ms=0)
    assert names(tmp_path, "*-delete") == []
    logs.close()


def test_failed_removal_is_retried_and_delays_no_other(tmp_path: Path) -> None:
    stubborn, other = tmp_path / "a", tmp_path / "b"
    for path in (stubborn, other):
        path.touch()
    files = DeletedFiles([stubborn, other])
    with (
        failing("unlink", errno.EIO, at=stubborn.__eq__),
        pytest.raises(OSError, match="Input/output"),
    ):
        files.remove_due(0, delay_ms=0)
    assert names(tmp_path, "*") == ["a"]
    files.remove_due(1, delay_ms=0)
    assert names(tmp_path, "*") == []


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EMFILE])
def test_a_log_dir_that_cannot_be_marked_as_owned_goes_offline(
    one: Path, two: Path, number: int
) -> None:
    logs = open_logs(one, two)
    with failing("replace", number, at=lambda path: path.parent == one):
        logs.claim(3, "cluster")
    assert logs.table.offline_paths == (one,)
    assert not (one / META_PROPERTIES).exists()
    assert "broker.id=3" in (two / META_PROPERTIES).read_text()
    append(create(logs))
    logs.close()
    logs = open_logs(one, two)
    with (
        failing("replace", number, at=lambda path: path.parent == one),
        pytest.raises(InconsistentMetadataError),
    ):
        logs.claim(4, "cluster")
    logs.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_start_ends_if_no_log_dir_can_be_marked_as_owned(
    one: Path, two: Path, number: int
) -> None:
    logs = open_logs(one, two)
    with (
        failing("replace", number),
        pytest.raises(LogDirOfflineError, match="no log dir of this broker can be used"),
    ):
        logs.claim(3, "cluster")
    logs.close()

"""All logs of a broker over several log dirs: locks, markers, checkpoints, failures, deletion."""

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import Offset, TopicId, TopicPartition
from storage.config.log_config import LogConfig
from storage.directory import load_progress
from storage.directory.directory_checkpoints import DirectoryCheckpoints
from storage.directory.logs import Logs
from storage.disk.checkpoint import read_offsets, write_offsets
from storage.disk.layout import MAX_NAME_LENGTH
from storage.errors import (
    InconsistentMetadataError,
    InconsistentTopicIdError,
    LogDirLockedError,
    LogDirOfflineError,
    OutOfFilesError,
    StorageError,
)
from storage.log.log import Log
from tests.unit.storage.faults import failing
from tests.unit.storage.logs import (
    NOW_MS,
    PARTITION,
    SMALL,
    TOPIC_ID,
    append,
    crash,
    create,
    fill,
    log_of,
    offsets_in,
    open_logs,
    read_all,
)

OTHER = TopicId(int=6)


def names(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()}


def test_log_dirs_are_made_and_locked(one: Path, two: Path) -> None:
    logs = open_logs(one / "deep", two)
    assert names(one / "deep") == names(two) == {".lock"}
    assert len(logs) == 0
    with pytest.raises(LogDirLockedError, match="stop it, or use another"):
        open_logs(two)
    logs.close()
    open_logs(two).close()


def test_lock_of_a_log_dir_excludes_other_processes(one: Path) -> None:
    logs = open_logs(one)
    program = (
        "import sys; from pathlib import Path\n"
        "from storage.directory.log_directory import LogDirectory\n"
        "from storage.errors import LogDirLockedError\n"
        "try: LogDirectory(Path(sys.argv[1]))\n"
        "except LogDirLockedError: sys.exit(7)"
    )
    command = [sys.executable, "-c", program, str(one)]
    assert subprocess.run(command, check=False).returncode == 7
    logs.close()
    assert subprocess.run(command, check=False).returncode == 0


def test_locked_log_dir_releases_the_locks_of_all_others(one: Path, two: Path) -> None:
    holder = open_logs(two)
    with pytest.raises(LogDirLockedError):
        open_logs(one, two)
    open_logs(one).close()
    holder.close()


def test_a_log_dir_named_twice_is_refused(one: Path) -> None:
    with pytest.raises(StorageError, match="named twice"):
        open_logs(one, one.parent / "." / "one")


def test_new_partition_goes_to_the_log_dir_with_the_fewest(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    logs = open_logs(*paths)
    for number in range(30):
        create(logs, TopicPartition("orders", number))
    assert [len(logs.table.in_directory(path)) for path in paths] == [10, 10, 10]
    logs.close()
    logs = open_logs(*paths)
    assert [len(logs.table.in_directory(path)) for path in paths] == [10, 10, 10]
    logs.close()


def test_a_partition_exists_once(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    create(logs)
    create(logs)
    assert len(logs) == 1
    assert logs.get(PARTITION) in list(logs)
    home = logs.table.directory_of(PARTITION)
    assert home is not None
    assert home.path == one
    with pytest.raises(InconsistentTopicIdError):
        create(logs, topic_id=OTHER)
    logs.close()


def test_the_same_partition_in_two_log_dirs_is_refused(one: Path, two: Path) -> None:
    for path in (one, two):
        logs = open_logs(path)
        create(logs)
        logs.close()
    with pytest.raises(StorageError, match="lies in"):
        open_logs(one, two)
    # No lock is left behind.
    open_logs(one).close()


def test_clean_shutdown_marker_is_used_once(one: Path) -> None:
    logs = open_logs(one)
    create(logs)
    logs.close(broker_epoch=42)
    assert (one / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":42}'
    logs = open_logs(one)
    assert logs.table.directories[0].last_shutdown == (True, 42)
    assert not (one / ".kafka_cleanshutdown").exists()
    crash(logs)
    logs = open_logs(one)
    assert logs.table.directories[0].last_shutdown == (False, -1)
    logs.close()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version":0}', '{"brokerEpoch":"7"}'])
def test_marker_without_epoch_still_means_a_clean_shutdown(one: Path, content: str) -> None:
    one.mkdir()
    (one / ".kafka_cleanshutdown").write_text(content)
    logs = open_logs(one)
    assert logs.table.directories[0].last_shutdown == (True, -1)
    logs.close()


def test_log_dir_that_was_not_fully_loaded_gets_no_marker(one: Path) -> None:
    logs = open_logs(one)
    create(logs)
    logs.close()
    (one / "orders-0" / "partition.metadata").write_text("nonsense")
    with capture_logs() as captured:
        logs = open_logs(one)
    assert "log.not_loaded" in [each["event"] for each in captured]
    assert logs.get(PARTITION) is None
    logs.close()
    assert not (one / ".kafka_cleanshutdown").exists()


def test_logs_are_unchanged_after_a_clean_shutdown(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    for number in range(4):
        create(logs, TopicPartition("orders", number))
    for each in logs:
        fill(each, 40 + each.topic_partition.partition)
    first = log_of(logs)
    first.advance_log_start(Offset(30))
    logs.close()
    logs = open_logs(one, two)
    assert sorted(each.log_end_offset for each in logs) == [40, 41, 42, 43]
    first = log_of(logs)
    assert (first.log_start_offset, first.topic_id) == (30, TOPIC_ID)
    assert first.recovery_point == 40
    logs.close()


def test_checkpoints_have_kafkas_format(one: Path) -> None:
    logs = open_logs(one)
    for name in ("b.c-d", "a"):
        create(logs, TopicPartition(name, 1))
    log = log_of(logs, TopicPartition("a", 1))
    fill(log, 9)
    log.upkeep.flush()
    log.advance_log_start(Offset(4))
    logs.checkpoints.write_bounds()
    logs.checkpoints.write_high_watermarks({TopicPartition("a", 1): Offset(7)})
    assert (one / "recovery-point-offset-checkpoint").read_text() == "0\n2\na 1 9\nb.c-d 1 0\n"
    assert (one / "log-start-offset-checkpoint").read_text() == "0\n1\na 1 4\n"
    assert (one / "replication-offset-checkpoint").read_text() == "0\n1\na 1 7\n"
    logs.close()


@pytest.mark.parametrize(("dir_count", "thread_count"), [(1, 3), (2, 2), (3, 1)])
def test_each_log_dir_is_loaded_by_its_number_of_threads(
    tmp_path: Path, dir_count: int, thread_count: int
) -> None:
    paths = [tmp_path / str(number) for number in range(dir_count)]
    logs = open_logs(*paths)
    for number in range(dir_count * thread_count):
        create(logs, TopicPartition("orders", number))
    crash(logs)
    together = threading.Barrier(dir_count * thread_count)

    def config_of(_topic: str) -> LogConfig:
        # The barrier breaks, and fails the test, unless all threads arrive before any continues.
        together.wait(timeout=10)
        return SMALL

    logs = Logs.open(paths, config_of=config_of, now_ms=NOW_MS, recovery_threads=thread_count)
    assert len(logs) == dir_count * thread_count
    logs.close()


def test_loading_logs_its_progress(one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = open_logs(one)
    for number in range(3):
        create(logs, TopicPartition("orders", number))
    crash(logs)
    monkeypatch.setattr(load_progress, "REPORT_INTERVAL_S", 0.0)
    with capture_logs() as captured:
        open_logs(one).close()
    events = [each for each in captured if each["event"].startswith("log_dir.load")]
    assert [(each["event"], each.get("loaded_count")) for each in events] == [
        ("log_dir.loading", None),
        *(("log_dir.load_advanced", count) for count in (1, 2, 3)),
        ("log_dir.loaded", 3),
    ]
    assert events[0]["needs_recovery"]


def test_high_watermarks_lie_within_the_log(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    partitions = [TopicPartition("orders", number) for number in range(4)]
    for partition in partitions:
        create(logs, partition)
    for each in logs:
        fill(each, 10)
    log = log_of(logs, partitions[3])
    log.advance_log_start(Offset(8))
    stored = dict(zip(partitions, map(Offset, (5, 99, 0, 3)), strict=True))
    logs.checkpoints.write_high_watermarks(stored)
    logs.close()
    logs = open_logs(one, two)
    assert [logs.checkpoints.high_watermark(partition) for partition in partitions] == [5, 10, 0, 8]
    logs.close()


@pytest.mark.parametrize(
    "content", ["", "1\n0\n", "0\nmany\n", "0\n1\n", "0\n1\norders 0\n", "\xff"]
)
@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
    ],
)
def test_an_unreadable_checkpoint_counts_as_absent(one: Path, name: str, content: str) -> None:
    logs = open_logs(one)
    log = create(logs)
    fill(log, 40)
    log.upkeep.flush()
    logs.checkpoints.write_bounds()
    crash(logs)
    (one / name).write_bytes(content.encode("latin-1"))
    with capture_logs() as captured:
        logs = open_logs(one)
    ignored = [each for each in captured if each["event"] == "checkpoint.ignored"]
    assert len(ignored) == bool(content)
    log = log_of(logs)
    assert (log.log_start_offset, log.log_end_offset) == (0, 40)
    assert log.recovery_point == (0 if name.startswith("recovery") else 40)
    assert logs.checkpoints.high_watermark(PARTITION) == 0
    logs.close()


def test_a_crashed_log_is_recovered_and_then_flushed(one: Path) -> None:
    logs = open_logs(one)
    fill(create(logs), 50)
    crash(logs)
    with (one / "orders-0" / f"{42:020d}.log").open("ab") as file:
        file.write(b"torn")
    logs = open_logs(one)
    log = log_of(logs)
    assert offsets_in(read_all(log)) == list(range(50))
    logs.close()


def clean_up_to(logs: Logs, offset: int) -> None:
    logs.checkpoints.note_cleaner_offset(PARTITION, Offset(offset))
    logs.checkpoints.write_cleaner_offsets()


def cleaner_offset_on_disk(path: Path) -> Offset | None:
    return read_offsets(path / "cleaner-offset-checkpoint").get(PARTITION)


def test_truncation_lowers_the_cleaner_offset(one: Path) -> None:
    logs = open_logs(one)
    local = create(logs)
    for _ in range(3):
        fill(local, 4)
        local.upkeep.roll(NOW_MS)
    fill(local, 4)
    clean_up_to(logs, 12)
    logs.truncate_to({PARTITION: Offset(14)})
    assert cleaner_offset_on_disk(one) == 12
    logs.truncate_to({PARTITION: Offset(6)})
    assert cleaner_offset_on_disk(one) == logs.checkpoints.cleaner_offset(PARTITION) == 6
    logs.truncate_fully_and_start_at({PARTITION: Offset(50)})
    assert cleaner_offset_on_disk(one) == 0
    logs.delete(PARTITION)
    assert cleaner_offset_on_disk(one) is None
    logs.close()


def test_a_truncation_that_fails_halfway_has_lowered_the_cleaner_offset(one: Path) -> None:
    """Otherwise later records below it would count as clean, and duplicates of keys would stay."""
    logs = open_logs(one)
    local = create(logs)
    for _ in range(4):
        fill(local, 4)
        local.upkeep.roll(NOW_MS)
    clean_up_to(logs, 12)
    full = failing("ftruncate", errno.ENOSPC, at=lambda path: path.name == f"{4:020d}.index")
    with full, pytest.raises(StorageError):
        logs.truncate_to({PARTITION: Offset(6)})
    assert local.log_end_offset < 12
    assert cleaner_offset_on_disk(one) == 6
    crash(logs)


def test_a_log_that_cannot_be_truncated_stops_no_other(
    one: Path, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recovery points on disk of truncated logs must not lie above their ends."""
    logs, partitions = open_logs(one, two), [TopicPartition("orders", n) for n in range(3)]
    for each in partitions:
        fill(create(logs, each), 60)
        log_of(logs, each).upkeep.flush()
    logs.checkpoints.write_bounds()
    truncate = Log.truncate_to

    def lack(log: Log, offset: Offset) -> bool:
        if log.topic_partition == partitions[1]:
            raise OutOfFilesError(one, "too many open files")
        return truncate(log, offset)

    monkeypatch.setattr(Log, "truncate_to", lack)
    with pytest.raises(OutOfFilesError):
        logs.truncate_to(dict.fromkeys(partitions, Offset(20)))
    assert [log_of(logs, each).log_end_offset for each in partitions] == [20, 60, 20]
    stored = {
        partition: offset
        for path in (one, two)
        for partition, offset in read_offsets(path / "recovery-point-offset-checkpoint").items()
    }
    assert [stored[each] for each in partitions] == [20, 60, 20]
    logs.close()


def test_many_logs_are_emptied_with_one_write_of_their_checkpoints(
    one: Path, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a follower with a new disk would sync files for each of its partitions."""
    logs, partitions = open_logs(one, two), [TopicPartition("orders", n) for n in range(6)]
    for each in partitions:
        fill(create(logs, each), 4)
    write, written = DirectoryCheckpoints.write_recovery_points, list[DirectoryCheckpoints]()

    def count(checkpoints: DirectoryCheckpoints, held: Iterable[Log]) -> None:
        written.append(checkpoints)
        write(checkpoints, held)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryCheckpoints, "write_recovery_points", count)
        logs.truncate_fully_and_start_at(dict.fromkeys(partitions, Offset(9)))
    assert len(written) == 2, "one write in each log dir"
    assert [log_of(logs, each).log_end_offset for each in partitions] == [9] * 6
    logs.close()


def test_a_log_that_cannot_be_emptied_stops_no_other(
    one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, partitions = open_logs(one), [TopicPartition("orders", n) for n in range(3)]
    for each in partitions:
        fill(create(logs, each), 4)
    restart = Log.truncate_fully_and_start_at

    def lack(log: Log, offset: Offset) -> None:
        if log.topic_partition == partitions[1]:
            raise OutOfFilesError(one, "too many open files")
        restart(log, offset)

    monkeypatch.setattr(Log, "truncate_fully_and_start_at", lack)
    with pytest.raises(OutOfFilesError):
        logs.truncate_fully_and_start_at(dict.fromkeys(partitions, Offset(9)))
    assert [log_of(logs, each).log_end_offset for each in partitions] == [9, 4, 9]
    logs.close()


def high_watermarks_on_disk(path: Path) -> dict[TopicPartition, Offset]:
    return read_offsets(path / "replication-offset-checkpoint")


def test_high_watermark_of_a_deleted_log_leaves_the_disk(one: Path) -> None:
    """A new log of the same name is empty, and an audit would miss the records below it."""
    logs, other = open_logs(one), TopicPartition("orders", 1)
    for partition in (PARTITION, other):
        fill(create(logs, partition), 4)
    logs.checkpoints.write_high_watermarks({PARTITION: Offset(4), other: Offset(3)})
    logs.delete(PARTITION)
    assert high_watermarks_on_disk(one) == {other: 3}
    assert logs.checkpoints.high_watermark(other) == 3
    logs.close()


def test_no_high_watermark_on_disk_is_beyond_its_log(one: Path) -> None:
    """The log may be a new one, and the offset that of its namesake."""
    logs = open_logs(one)
    fill(create(logs), 4)
    logs.checkpoints.write_high_watermarks({PARTITION: Offset(9)})
    assert high_watermarks_on_disk(one) == {PARTITION: 4}
    logs.close()


def test_log_created_after_a_crash_has_no_high_watermark_of_a_namesake(one: Path) -> None:
    logs = open_logs(one)
    fill(create(logs), 4)
    logs.checkpoints.write_high_watermarks({PARTITION: Offset(4)})
    crash(logs)
    shutil.rmtree(one / "orders-0")
    logs = open_logs(one)
    create(logs)
    assert high_watermarks_on_disk(one) == {}
    crash(logs)


def test_cleaner_offset_survives_a_restart(one: Path) -> None:
    logs = open_logs(one)
    fill(create(logs), 9)
    clean_up_to(logs, 7)
    logs.close()
    logs = open_logs(one)
    assert logs.checkpoints.cleaner_offset(PARTITION) == 7
    logs.close()


def test_truncation_lowers_the_recovery_point_on_disk(one: Path) -> None:
    logs = open_logs(one)
    log = create(logs)
    fill(log, 50)
    log.upkeep.flush()
    logs.checkpoints.write_bounds()
    logs.truncate_to({PARTITION: Offset(20), TopicPartition("unknown", 0): Offset(3)})
    path = one / "recovery-point-offset-checkpoint"
    assert path.read_text() == "0\n1\norders 0 20\n"
    log.upkeep.flush()
    logs.truncate_fully_and_start_at({PARTITION: Offset(7)})
    assert path.read_text() == "0\n1\norders 0 7\n"
    logs.close()


def test_records_appended_after_a_truncation_survive_a_crash(one: Path) -> None:
    logs = open_logs(one)
    log = create(logs)
    fill(log, 5)
    log.advance_log_start(Offset(3))
    logs.checkpoints.write_bounds()
    logs.truncate_to({PARTITION: Offset(0)})
    fill(log, 5)
    kept = read_all(log)
    crash(logs)
    logs = open_logs(one)
    again = log_of(logs)
    assert (again.log_start_offset, read_all(again)) == (0, kept)
    logs.close()


def test_a_deleted_partition_leaves_checkpoints_first_and_its_files_later(one: Path) -> None:
    logs = open_logs(one)
    create(logs)
    create(logs, TopicPartition("orders", 1))
    log = log_of(logs)
    fill(log, 5)
    logs.delete(PARTITION)
    logs.delete(PARTITION)
    assert logs.get(PARTITION) is None
    text = (one / "recovery-point-offset-checkpoint").read_text()
    assert text == "0\n1\norders 1 0\n"
    [directory] = [name for name in names(one) if name.endswith("-delete")]
    logs.remove_deleted(NOW_MS, delay_ms=1_000)
    logs.remove_deleted(NOW_MS + 999, delay_ms=1_000)
    assert directory in names(one)
    logs.remove_deleted(NOW_MS + 1_000, delay_ms=1_000)
    assert directory not in names(one)
    create(logs)
    assert len(logs) == 2
    logs.close()


def test_partitions_in_several_log_dirs_are_deleted_together(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    partitions = [TopicPartition("orders", number) for number in range(4)]
    for partition in partitions:
        create(logs, partition)
    assert {logs.table.homes[each].path for each in partitions} == {one, two}
    logs.delete(*partitions)
    assert len(logs) == 0
    logs.close()


def test_start_completes_an_interrupted_deletion(one: Path) -> None:
    logs = open_logs(one)
    create(logs)
    logs.delete(PARTITION)
    logs.close()
    logs = open_logs(one)
    assert len(logs) == 0
    logs.remove_deleted(NOW_MS, delay_ms=0)
    assert not [name for name in names(one) if name.startswith("orders")]
    logs.close()


def test_the_longest_topic_name_can_be_deleted(one: Path) -> None:
    partition = TopicPartition("t" * 249, 12_345)
    logs = open_logs(one)
    create(logs, partition)
    logs.delete(partition)
    [name] = [name for name in names(one) if name.endswith("-delete")]
    assert len(name) == MAX_NAME_LENGTH
    logs.close()
    open_logs(one).close()


def test_a_stray_partition_is_kept_aside(one: Path) -> None:
    logs = open_logs(one)
    create(logs)
    path = logs.set_aside_as_stray(PARTITION)
    assert path is not None
    assert logs.set_aside_as_stray(PARTITION) is None
    logs.remove_deleted(NOW_MS, delay_ms=0)
    logs.close()
    logs = open_logs(one)
    logs.remove_deleted(NOW_MS, delay_ms=0)
    assert path.is_dir()
    assert len(logs) == 0
    logs.close()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_creating_a_log_takes_back_the_stray_of_the_same_topic(
    one: Path, two: Path, is_restarted: bool
) -> None:
    logs = open_logs(one, two)
    fill(create(logs), 2)
    path = logs.set_aside_as_stray(PARTITION)
    assert path is not None
    if is_restarted:
        logs.close()
        logs = open_logs(one, two)
    for number in range(2):
        create(logs, TopicPartition("other", number), topic_id=OTHER)
    assert create(logs).log_end_offset == 2
    assert [each.topic_partition for each in logs.table.in_directory(path.parent)][-1] == PARTITION
    assert not path.exists()
    logs.close()


def test_stray_of_another_or_unknown_topic_is_not_taken_back(one: Path) -> None:
    logs = open_logs(one)
    for number, damage in enumerate((b"", b"nonsense")):
        partition = TopicPartition("orders", number)
        fill(create(logs, partition), 2)
        path = logs.set_aside_as_stray(partition)
        assert path is not None
        if damage:
            (path / "partition.metadata").write_bytes(damage)
        assert create(logs, partition, topic_id=OTHER).log_end_offset == 0
    assert len(list(one.glob("*-stray"))) == 2
    logs.close()


def test_directories_that_are_not_partitions_are_ignored(one: Path) -> None:
    (one / "lost+found").mkdir(parents=True)
    with capture_logs() as captured:
        logs = open_logs(one)
    assert captured[0]["event"] == "directory.ignored"
    logs.close()
    assert (one / "lost+found").is_dir()


def test_failing_log_dir_takes_down_only_its_own_logs(one: Path, two: Path) -> None:
    offline: list[Path] = []
    logs = open_logs(one, two, on_offline=offline.append)
    for number in range(4):
        create(logs, TopicPartition("orders", number))
    bad, good = (logs.table.in_directory(path)[0] for path in (one, two))
    is_offline = pytest.raises(LogDirOfflineError, match="Input/output error")
    with capture_logs() as captured, failing("pwrite"), is_offline:
        append(bad)
    assert [each["event"] for each in captured] == ["log_dir.offline"]
    assert offline == [one]
    assert logs.table.offline_paths == (one,)
    append(good)
    for call in (lambda: append(bad), lambda: read_all(bad), bad.upkeep.flush, bad.upkeep.close):
        with pytest.raises(LogDirOfflineError):
            call()
    with pytest.raises(LogDirOfflineError):
        create(logs, bad.topic_partition)
    # A log that may lie in the failed log dir is not recreated; a new one goes elsewhere.
    with pytest.raises(LogDirOfflineError, match="may hold"):
        create(logs, TopicPartition("orders", 9), is_new=False)
    create(logs, TopicPartition("orders", 9))
    assert len(logs.table.in_directory(two)) == 3
    logs.checkpoints.write_bounds()
    logs.checkpoints.write_high_watermarks({PARTITION: Offset(0)})
    logs.flush_due(NOW_MS)
    logs.remove_deleted(NOW_MS, delay_ms=0)
    logs.close()
    assert not (one / ".kafka_cleanshutdown").exists()
    assert (two / ".kafka_cleanshutdown").exists()


def test_a_log_dir_that_cannot_be_opened_does_not_stop_the_others(one: Path, two: Path) -> None:
    one.write_text("a file where a directory should be")
    offline: list[Path] = []
    logs = open_logs(one, two, on_offline=offline.append)
    assert offline == [one]
    assert logs.table.offline_paths == (one,)
    create(logs)
    logs.close()


def test_a_log_dir_that_fails_while_loading_gets_no_marker(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    for number in range(4):
        create(logs, TopicPartition("orders", number))
    logs.close()
    with failing("open", at=(one / "orders-2" / f"{0:020d}.log").__eq__):
        logs = open_logs(one, two)
    assert logs.table.offline_paths == (one,)
    assert len(logs.table.in_directory(two)) == 2
    logs.close()
    assert not (one / ".kafka_cleanshutdown").exists()


def test_a_log_made_while_a_log_dir_was_offline_is_newer_than_the_one_in_it(
    one: Path, two: Path
) -> None:
    logs = open_logs(one, two)
    for number in range(4):
        create(logs, TopicPartition("orders", number))
    partition = logs.table.in_directory(one)[0].topic_partition
    logs.close()
    name = f"orders-{partition.partition}"
    is_stale = (one / name / f"{0:020d}.log").__eq__
    # The partition has left this broker meanwhile, and returns.
    with failing("open", at=is_stale):
        logs = open_logs(one, two)
    append(create(logs, partition))
    logs.close()
    with failing("open", at=is_stale):
        open_logs(one, two).close()
    logs = open_logs(one, two)
    assert logs.table.homes[partition].path == two
    assert read_all(logs.table.logs[partition])
    logs.remove_deleted(NOW_MS, delay_ms=0)
    logs.remove_deleted(NOW_MS + 1, delay_ms=0)
    logs.close()
    assert not any(each.startswith(name) for each in names(one))
    assert not (two / name / "moved-here").exists()


def test_start_fails_without_a_usable_log_dir(one: Path) -> None:
    one.write_text("a file where a directory should be")
    with pytest.raises(LogDirOfflineError, match="no log dir"):
        open_logs(one)


def test_no_log_can_be_created_when_all_log_dirs_have_failed(one: Path) -> None:
    logs = open_logs(one)
    with failing("mkdir"), pytest.raises(LogDirOfflineError, match="Input/output error"):
        create(logs)
    with pytest.raises(LogDirOfflineError, match="no log dir"):
        create(logs)
    logs.close()


def test_a_log_dir_belongs_to_one_broker_of_one_cluster(one: Path) -> None:
    logs = open_logs(one)
    logs.claim(3, "cluster")
    logs.claim(3, "cluster")
    text = (one / "meta.properties").read_text()
    assert text == "#\nbroker.id=3\ncluster.id=cluster\nversion=0\n"
    for broker_id, cluster_id in ((4, "cluster"), (3, "other")):
        with pytest.raises(InconsistentMetadataError, match="belongs to"):
            logs.claim(broker_id, cluster_id)
    logs.close()


@pytest.mark.parametrize(
    "text",
    [
        "#\n#Thu Nov 21 02:03:00 UTC 2026\nbroker.id=3\ncluster.id=clu\\:ster\nversion=0\n",
        "cluster.id = clu:ster\nnode.id=3\nversion=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAABQ\n",
    ],
)
def test_meta_properties_written_by_kafka_is_read(one: Path, text: str) -> None:
    one.mkdir()
    (one / "meta.properties").write_text(text)
    logs = open_logs(one)
    meta = logs.table.directories[0].meta
    assert (meta.broker_id, meta.cluster_id) == (3, "clu:ster")
    logs.claim(3, "clu:ster")
    assert (one / "meta.properties").read_text() == text
    logs.close()


def test_a_directory_id_is_kept(one: Path) -> None:
    one.mkdir()
    (one / "meta.properties").write_text("directory.id=AAAAAAAAAAAAAAAAAAAABQ\nversion=0\n")
    logs = open_logs(one)
    logs.claim(3, "cluster")
    assert "directory.id=AAAAAAAAAAAAAAAAAAAABQ\n" in (one / "meta.properties").read_text()
    logs.close()


@pytest.mark.parametrize(
    "text",
    [
        "version=2\n",
        "version=0\nbroker.id=three\n",
        "version=0\nbroker.id=-1\n",
        "version=0\nbroker.id=2147483648\n",
    ],
)
def test_malformed_meta_properties_is_refused(one: Path, text: str) -> None:
    one.mkdir()
    (one / "meta.properties").write_text(text)
    with pytest.raises(InconsistentMetadataError, match=r"meta\.properties"):
        open_logs(one)


def test_due_flushes_cover_every_log(one: Path) -> None:
    logs = open_logs(one)
    for number in range(2):
        partition = TopicPartition("orders", number)
        fill(create(logs, partition, config=LogConfig(flush_ms=1_000)), 5)
    logs.flush_due(NOW_MS)
    assert [each.recovery_point for each in logs] == [0, 0]
    logs.flush_due(NOW_MS + 1_000)
    assert [each.recovery_point for each in logs] == [5, 5]
    logs.close()


def test_topic_id_can_be_assigned_later(one: Path) -> None:
    logs = open_logs(one)
    create(logs, topic_id=None)
    assert create(logs).topic_id == TOPIC_ID
    logs.close()


def test_damage_right_below_the_recovery_point_is_counted_at_the_start(one: Path) -> None:
    logs = open_logs(one)
    log = create(logs)
    fill(log, 60)
    log.upkeep.flush_closed()
    logs.checkpoints.write_bounds()
    crash(logs)
    flushed = sorted((one / "orders-0").glob("*.log"))[-2]
    data = bytearray(flushed.read_bytes())
    # The length of the first batch.
    data[8] = 0x7F
    flushed.write_bytes(data)
    with capture_logs() as captured:
        logs = open_logs(one)
    assert logs.table.damage_count == 1
    assert str(flushed) in [each.get("path") for each in captured if each["event"] == "log.damaged"]
    log = log_of(logs)
    assert log.log_end_offset == 60
    logs.close()


COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}))


@pytest.mark.parametrize(
    ("config", "checkpoints", "end_offset"),
    [
        pytest.param(SMALL, {"recovery-point": 0}, 0, id="hole"),
        pytest.param(COMPACTED, {"recovery-point": 0}, 40, id="compacted"),
        pytest.param(SMALL, {"recovery-point": 0, "cleaner": 40}, 40, id="once compacted"),
        pytest.param(SMALL, {}, 40, id="the checkpoints are lost"),
    ],
)
def test_a_log_ends_at_a_hole_unless_it_may_have_been_cleaned(
    one: Path, config: LogConfig, checkpoints: dict[str, int], end_offset: int
) -> None:
    logs = open_logs(one)
    fill(create(logs), 40)
    crash(logs)
    os.truncate(one / "orders-0" / f"{0:020d}.log", 0)
    for name, offset in checkpoints.items():
        write_offsets(one / f"{name}-offset-checkpoint", {PARTITION: offset})
    logs = open_logs(one, config=config)
    assert log_of(logs).log_end_offset == end_offset
    logs.close()


@pytest.mark.parametrize(("boot_id", "end_offset"), [("after", 0), ("before", 40)])
def test_only_a_loss_of_power_leaves_holes(one: Path, boot_id: str, end_offset: int) -> None:
    """Otherwise the holes of a log that was copied after a cleaning would end it."""
    logs = open_logs(one, boot_id="before")
    logs.accept()
    fill(create(logs), 40)
    crash(logs)
    os.truncate(one / "orders-0" / f"{0:020d}.log", 0)
    write_offsets(one / "recovery-point-offset-checkpoint", {PARTITION: 0})
    logs = open_logs(one, boot_id=boot_id)
    assert log_of(logs).log_end_offset == end_offset
    logs.close()


def test_compacted_logs_can_be_cut_at_their_holes(one: Path) -> None:
    cut, kept, whole = partitions = [TopicPartition("orders", number) for number in range(3)]
    logs = open_logs(one, config=COMPACTED)
    for each in partitions:
        fill(create(logs, each, config=COMPACTED), 40)
    crash(logs)
    for each in (cut, kept):
        os.truncate(one / str(each) / f"{0:020d}.log", 0)
    logs = open_logs(one, config=COMPACTED)
    logs.cut_at_gaps([cut, whole, TopicPartition("unknown", 0)])
    ends = {each: log_of(logs, each).log_end_offset for each in partitions}
    assert ends == {cut: 0, kept: 40, whole: 40}
    crash(logs)
    logs = open_logs(one, config=COMPACTED)
    assert log_of(logs, cut).gap_offset is None
    logs.close()

"""Checkpoints that name a log that is gone, or records that a truncation has dropped."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.ids import Offset, TopicId
from storage.directory.logs import Logs
from storage.disk.layout import (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from storage.errors import LogDirFullError, OutOfFilesError
from storage.log.log import Log
from storage.log.log_copying import align, append_chunk, missing_chunk, name_copy
from tests.unit.storage.faults import failing
from tests.unit.storage.logs import (
    NOW_MS,
    PARTITION,
    append,
    crash,
    create,
    fill,
    log_of,
    open_logs,
    read_all,
    replicated,
)

OTHER_ID = TopicId(int=6)
FIRST = Offset(51)
"""A log start within a segment, which only a checkpoint stores."""


def catch_up(copy: Log, original: Log) -> None:
    align(copy, original)
    while copy.log_end_offset < original.log_end_offset:
        append_chunk(copy, missing_chunk(copy, original), NOW_MS)


def check_new_log(one: Path, two: Path, new: Log) -> None:
    """Check that a log that was created just before a crash keeps its records."""
    fill(new, 5)
    stored = read_all(new)
    logs = open_logs(one, two)
    assert (log_of(logs).log_start_offset, log_of(logs).log_end_offset) == (0, 5)
    assert read_all(log_of(logs)) == stored
    logs.close()


@pytest.mark.parametrize("is_dropped", [False, True])
def test_new_topic_in_the_log_dir_of_a_dropped_copy_keeps_its_records(
    one: Path, two: Path, is_dropped: bool
) -> None:
    logs = open_logs(one, two)
    original, target = create(logs), logs.table.directories[1]
    fill(original, 60)
    logs.placement.begin_move(PARTITION, target, NOW_MS)
    copy = logs.futures.get(PARTITION)
    assert copy is not None
    catch_up(copy, original)
    original.advance_log_start(FIRST)
    align(copy, original)
    logs.checkpoints.write_bounds()
    assert str(FIRST) in (two / LOG_START_CHECKPOINT).read_text()
    if is_dropped:
        logs.placement.begin_move(PARTITION, logs.table.directories[0], NOW_MS)
    logs.delete(PARTITION)
    logs.placement.want_home(PARTITION, target)
    new = create(logs, topic_id=OTHER_ID)
    assert new.directory.parent == two
    crash(logs)
    check_new_log(one, two, new)


def test_new_topic_in_the_log_dir_that_a_log_has_left_keeps_its_records(
    one: Path, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = open_logs(one, two)
    original, (source, target) = create(logs), logs.table.directories
    fill(original, 60)
    original.advance_log_start(FIRST)
    logs.checkpoints.write_bounds()
    logs.placement.begin_move(PARTITION, target, NOW_MS)
    copy = logs.futures.get(PARTITION)
    assert copy is not None
    catch_up(copy, original)

    def lack(_logs: object) -> None:
        raise LogDirFullError(one, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(source.checkpoints, "write_log_starts", lack)
        logs.end_move(PARTITION, NOW_MS)
    source.partitions.remove_due(NOW_MS, 0)
    logs.delete(PARTITION)
    logs.placement.want_home(PARTITION, source)
    new = create(logs, topic_id=OTHER_ID)
    crash(logs)
    check_new_log(one, two, new)


def test_new_topic_in_place_of_a_damaged_log_keeps_its_records(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    old = create(logs)
    fill(old, 60)
    old.advance_log_start(FIRST)
    logs.close()
    metadata = old.directory / "partition.metadata"
    content = metadata.read_text()
    metadata.write_text("nonsense")
    logs = open_logs(one, two)
    metadata.write_text(content)
    new = create(logs, topic_id=OTHER_ID)
    crash(logs)
    check_new_log(one, two, new)


def test_truncated_copy_is_recovered_from_its_new_end_on(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    original = create(logs)
    fill(original, 60)
    logs.placement.begin_move(PARTITION, logs.table.directories[1], NOW_MS)
    copy = logs.futures.get(PARTITION)
    assert copy is not None
    catch_up(copy, original)
    logs.checkpoints.write_bounds()
    assert copy.recovery_point > 20
    logs.truncate_to({PARTITION: Offset(20)})
    logs.placement.align_copy(PARTITION)
    assert copy.log_end_offset == 20
    fill(original, 60, epoch=1)
    catch_up(copy, original)
    # Otherwise the start begins the move again, because the original was truncated.
    name_copy(copy, original)
    crash(logs)
    # A loss of power takes the end of a segment that was not on disk.
    lost = next(each for each in copy.segments if each.base_offset > 20)
    os.truncate(copy.directory / f"{lost.base_offset:020d}.log", 0)
    logs = open_logs(one, two)
    again = logs.futures.get(PARTITION)
    assert again is not None
    assert again.log_end_offset == lost.base_offset
    logs.close()


def test_move_that_cannot_begin_leaves_no_copy(
    one: Path, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lack(_log: Log, _offset: Offset) -> None:
        raise OutOfFilesError(two, "too many open files")

    logs = open_logs(one, two)
    fill(create(logs), 3)
    target = logs.table.directories[1]
    with monkeypatch.context() as patch:
        patch.setattr(Log, "truncate_fully_and_start_at", lack)
        with pytest.raises(OutOfFilesError):
            logs.placement.begin_move(PARTITION, target, NOW_MS)
    assert logs.futures.get(PARTITION) is None
    assert logs.placement.begin_move(PARTITION, target, NOW_MS), "the next request begins it"
    logs.close()


def cut(logs: Logs) -> None:
    logs.truncate_to({PARTITION: Offset(7)})


def restart(logs: Logs) -> None:
    logs.truncate_fully_and_start_at({PARTITION: Offset(7)})


def append_replicated(log: Log) -> None:
    log.append_as_follower(memoryview(replicated(7)), NOW_MS)


@pytest.mark.parametrize("write", [append, append_replicated])
@pytest.mark.parametrize("truncate", [cut, restart])
def test_no_append_follows_a_truncation_before_its_checkpoints_are_lowered(
    one: Path, truncate: Callable[[Logs], None], write: Callable[[Log], object]
) -> None:
    logs = open_logs(one)
    log = create(logs)
    fill(log, 50)
    log.advance_log_start(Offset(30))
    log.upkeep.flush()
    logs.checkpoints.write_bounds()
    points, starts = one / RECOVERY_POINT_CHECKPOINT, one / LOG_START_CHECKPOINT
    with failing("fsync", errno.ENOSPC), pytest.raises(LogDirFullError):
        truncate(logs)
    # There is space for batches again, and not for the checkpoints yet.
    log.health.note_space()
    with failing("fsync", errno.ENOSPC), pytest.raises(LogDirFullError):
        write(log)
    assert log.log_end_offset == 7
    assert points.read_text() == "0\n1\norders 0 50\n"
    log.health.note_space()
    write(log)
    assert points.read_text() == "0\n1\norders 0 7\n"
    assert starts.read_text() == "0\n0\n"
    kept = read_all(log)
    crash(logs)
    assert read_all(log_of(open_logs(one))) == kept


def test_the_first_append_to_a_log_that_ends_below_its_recovery_point_lowers_it(one: Path) -> None:
    logs = open_logs(one)
    log = create(logs)
    fill(log, 50)
    log.upkeep.flush()
    logs.checkpoints.write_bounds()
    # As after a crash between a truncation and the write of the checkpoint.
    log.truncate_to(Offset(7))
    crash(logs)
    logs = open_logs(one)
    log = log_of(logs)
    path = one / RECOVERY_POINT_CHECKPOINT
    assert path.read_text() == "0\n1\norders 0 50\n"
    append(log)
    assert path.read_text() == "0\n1\norders 0 7\n"
    logs.close()


def test_the_first_append_to_a_log_that_ends_below_its_cleaner_offset_lowers_it(one: Path) -> None:
    """Otherwise the records from there up to the offset would count as clean, and never be."""
    logs = open_logs(one)
    log = create(logs)
    fill(log, 50)
    logs.checkpoints.note_cleaner_offset(PARTITION, Offset(40))
    logs.checkpoints.write_cleaner_offsets()
    # As after a loss of power: no recovery point is above the end.
    log.truncate_to(Offset(7))
    crash(logs)
    logs, path = open_logs(one), one / CLEANER_CHECKPOINT
    assert logs.checkpoints.cleaner_offset(PARTITION) == 7
    assert path.read_text() == "0\n1\norders 0 40\n"
    log = log_of(logs)
    with failing("fsync", errno.ENOSPC), pytest.raises(LogDirFullError):
        append(log)
    log.health.note_space()
    append(log)
    assert path.read_text() == "0\n1\norders 0 7\n"
    fill(log, 50)
    crash(logs)
    logs = open_logs(one)
    assert logs.checkpoints.cleaner_offset(PARTITION) == 7
    logs.close()

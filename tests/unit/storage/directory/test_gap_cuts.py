"""Holes of a loss of power are cut while system calls fail, and the start ends before the last."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kafkawire.ids import TopicPartition
from storage.directory.logs import Logs
from storage.errors import LogDirFullError, OutOfFilesError
from storage.log.log_copying import append_chunk, missing_chunk
from tests.faults import Fault, injected
from tests.unit.storage.logs import (
    NOW_MS,
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

COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}))
PARTITIONS = [TopicPartition("t", number) for number in range(3)]
MEMORY = Path("/dev/shm")
BEFORE, AFTER = "the boot before", "the boot after"
ENDS = pytest.mark.parametrize(
    "end", [pytest.param(crash, id="death"), pytest.param(Logs.close, id="orderly end")]
)
REFUSALS = {Fault.NO_SPACE: LogDirFullError, Fault.NO_DESCRIPTOR: OutOfFilesError}


def opened(root: Path, boot_id: str) -> Logs:
    return open_logs(root / "one", root / "two", config=COMPACTED, boot_id=boot_id)


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A directory in memory, where the hundreds of runs take no time."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as made:
        yield Path(made)


@pytest.fixture
def root(memory: Path) -> Iterator[Path]:
    yield memory / "root"
    shutil.rmtree(memory / "root", ignore_errors=True)


@pytest.fixture(scope="module")
def template(memory: Path) -> tuple[Path, int]:
    """Two log dirs after a loss of power, with a hole in each log, and the offset of the holes."""
    root = memory / "template"
    logs = opened(root, BEFORE)
    logs.accept()
    for each in PARTITIONS:
        fill(create(logs, each, config=COMPACTED), 70)
    holes = {each: log_of(logs, each).segments[1].base_offset for each in PARTITIONS}
    paths = [log_of(logs, each).directory for each in PARTITIONS]
    crash(logs)
    for path in paths:
        _, second, *later = sorted(path.glob("*.log"))
        assert later
        os.truncate(second, 0)
    [hole] = set(holes.values())
    return root, hole


def with_holes(logs: Logs) -> set[TopicPartition]:
    return {each for each in PARTITIONS if log_of(logs, each).gap_offset is not None}


def points_of_the_first_cut(source: Path, root: Path, fault: Fault) -> range:
    """Return the numbers of the calls that cut the first log; the others are cut alike."""
    shutil.copytree(source, root)
    logs = opened(root, AFTER)
    with injected(fault, None, root) as injection:
        logs.cut_at_gaps(PARTITIONS[:1])
    crash(logs)
    shutil.rmtree(root)
    return range(injection.count)


def check_after_the_next_start(root: Path, hole: int) -> None:
    """Check that a start in the same boot repeats the cut, and the one after it needs none."""
    logs = opened(root, AFTER)
    assert len(logs.doubtful_paths) == 2
    logs.cut_at_gaps(PARTITIONS)
    for each in PARTITIONS:
        assert offsets_in(read_all(log_of(logs, each))) == list(range(hole))
    logs.accept()
    for each in PARTITIONS:
        append(log_of(logs, each))
    crash(logs)
    logs = opened(root, AFTER)
    assert (logs.doubtful_paths, with_holes(logs)) == ([], set())
    assert {log_of(logs, each).log_end_offset for each in PARTITIONS} == {hole + 1}
    logs.close()


@ENDS
def test_start_that_ends_before_the_cut_leaves_it_to_the_next(
    template: tuple[Path, int], root: Path, end: Callable[[Logs], None]
) -> None:
    source, hole = template
    shutil.copytree(source, root)
    logs = opened(root, AFTER)
    assert with_holes(logs) == set(PARTITIONS)
    end(logs)
    check_after_the_next_start(root, hole)


def test_orderly_end_keeps_the_recovery_of_a_doubtful_log_without_holes(root: Path) -> None:
    logs = opened(root, BEFORE)
    logs.accept()
    for each in PARTITIONS:
        fill(create(logs, each, config=COMPACTED), 70)
    crash(logs)
    opened(root, AFTER).close()
    logs = opened(root, AFTER)
    assert len(logs.doubtful_paths) == 2
    assert {log_of(logs, each).recovery_point for each in PARTITIONS} == {70}
    logs.close()


@ENDS
@pytest.mark.parametrize("fault", [Fault.NO_SPACE, Fault.NO_DESCRIPTOR])
def test_log_that_cannot_be_cut_now_stops_no_other(
    template: tuple[Path, int], root: Path, fault: Fault, end: Callable[[Logs], None]
) -> None:
    """The start is refused only while a hole remains; the next one finds it again."""
    source, hole = template
    outcomes = set()
    for at in points_of_the_first_cut(source, root, fault):
        shutil.copytree(source, root)
        logs = opened(root, AFTER)
        with injected(fault, at, root) as injection:
            try:
                logs.cut_at_gaps(PARTITIONS)
                is_refused = False
            except REFUSALS[fault]:
                is_refused = True
        left = with_holes(logs)
        assert len(left) == is_refused, f"call {at}: {injection.hit}"
        assert not logs.table.offline_paths
        # The start ends before it has taken the logs as they are.
        end(logs)
        check_after_the_next_start(root, hole)
        shutil.rmtree(root)
        outcomes.add(is_refused)
    assert outcomes == {True, False}


@ENDS
def test_disk_that_breaks_stops_no_log_of_another(
    template: tuple[Path, int], root: Path, end: Callable[[Logs], None]
) -> None:
    source, _ = template
    for at in points_of_the_first_cut(source, root, Fault.BROKEN):
        shutil.copytree(source, root)
        logs = opened(root, AFTER)
        with injected(Fault.BROKEN, at, root) as injection:
            logs.cut_at_gaps(PARTITIONS)
        logs.accept()
        offline = {path.name for path in logs.table.offline_paths}
        assert len(offline) == 1, f"call {at}: {injection.hit}"
        left = {log_of(logs, each).directory.parent.name for each in with_holes(logs)}
        assert left <= offline
        assert logs.doubtful_paths == []
        end(logs)
        # A disk that works again is doubted until its holes are cut, too.
        logs = opened(root, AFTER)
        assert {path.name for path in logs.doubtful_paths} == offline
        logs.cut_at_gaps(PARTITIONS)
        assert with_holes(logs) == set()
        crash(logs)
        shutil.rmtree(root)


def test_full_disk_that_takes_no_boot_id_is_doubted_again(
    template: tuple[Path, int], root: Path
) -> None:
    source, _ = template
    shutil.copytree(source, root)
    logs = opened(root, AFTER)
    logs.cut_at_gaps(PARTITIONS)
    with injected(Fault.NO_SPACE, 0, root):
        logs.accept()
    assert logs.doubtful_paths == [], "the broker starts"
    crash(logs)
    logs = opened(root, AFTER)
    assert len(logs.doubtful_paths) == 1
    logs.close()


@pytest.mark.parametrize("is_accepted", [False, True])
def test_copy_ends_at_its_hole_although_no_move_continued_before_an_orderly_end(
    root: Path, *, is_accepted: bool
) -> None:
    partition = PARTITIONS[0]
    logs = opened(root, BEFORE)
    logs.accept()
    original = create(logs, partition, config=COMPACTED)
    fill(original, 70)
    [target] = set(logs.table.directories) - {logs.table.homes[partition]}
    assert logs.begin_move(partition, target, NOW_MS)
    copy = logs.futures.get(partition)
    assert copy is not None
    while (chunk := missing_chunk(copy, original)).size_bytes:
        append_chunk(copy, chunk, NOW_MS)
    original.upkeep.flush()
    logs.checkpoints.write_bounds_in(logs.table.homes[partition])
    crash(logs)
    _, second, *later = sorted(copy.directory.glob("*.log"))
    assert later
    os.truncate(second, 0)
    logs = opened(root, AFTER)
    if is_accepted:
        logs.cut_at_gaps([])
        logs.accept()
    logs.close()
    logs = opened(root, AFTER)
    logs.placement.align_copy(partition)
    found = logs.futures.get(partition)
    assert found is not None
    offsets = offsets_in(read_all(found))
    assert offsets == list(range(len(offsets)))
    assert found.log_end_offset == len(offsets) < 70
    logs.close()

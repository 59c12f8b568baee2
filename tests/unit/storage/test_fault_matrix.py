"""Any system call of each operation fails: no record is lost, none returns, all logs work.

A log shares a log dir with one neighbour, and another neighbour is in another log dir. After the
fault the operation is retried, or the broker is killed or shut down cleanly; then it restarts.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import Offset, TopicId, TopicPartition
from kafkawire.records import ControlType, assign_offsets, read_header
from storage.directory import log_directory, opening
from storage.directory.logs import Logs
from storage.errors import StorageError
from storage.log.log import Log
from storage.log.log_copying import align, append_chunk, missing_chunk
from storage.segment.cleaned_segment import CleanedSegment, remove_all_cleaned
from tests.executors import InTurn
from tests.faults import SYNCING, Fault, Injection, drawn, injected
from tests.unit.storage.logs import (
    NOW_MS,
    SMALL,
    append,
    crash,
    fill,
    offsets_in,
    open_logs,
    read_all,
    replicated,
    split,
)
from tests.unit.storage.produced_batches import marker, produced

CONFIG = replace(SMALL, index_interval_bytes=600, segment_index_bytes=400)
A, SAME_DIR, OTHER_DIR = (TopicPartition(name, 0) for name in ("a", "b", "c"))
NEW = TopicPartition("d", 0)
IDS = {A: TopicId(int=1), SAME_DIR: TopicId(int=2), OTHER_DIR: TopicId(int=3), NEW: TopicId(int=4)}
ANOTHER_ID = TopicId(int=9)
BATCHES = 70
MEMORY = Path("/dev/shm")


class World:
    """Three logs in two log dirs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.one, self.two = root / "one", root / "two"
        self.logs = self.start()

    def start(self) -> Logs:
        self.logs = open_logs(self.one, self.two, config=CONFIG)
        return self.logs

    def create(self, partition: TopicPartition, topic_id: TopicId | None = None) -> Log:
        wanted = topic_id or IDS[partition]
        return self.logs.create(partition, CONFIG, wanted, now_ms=NOW_MS)

    def fill(self) -> None:
        for partition in (A, OTHER_DIR, SAME_DIR):
            self.create(partition)
        fill(self.log, BATCHES // 2, epoch=1)
        fill(self.log, BATCHES - BATCHES // 2, epoch=2)
        fill(self.of(SAME_DIR), 5)
        fill(self.of(OTHER_DIR), 5)

    def of(self, partition: TopicPartition) -> Log:
        found = self.logs.get(partition)
        assert found is not None, f"{partition} is not there"
        return found

    @property
    def log(self) -> Log:
        return self.of(A)

    def kill(self) -> None:
        crash(self.logs)

    def note_space(self) -> None:
        for directory in self.logs.table.online_directories:
            directory.health.note_space()


def prepared(root: Path) -> None:
    """Create the log dirs of a stopped broker."""
    world = World(root)
    world.fill()
    world.logs.checkpoints.write_high_watermarks(
        {A: Offset(50), SAME_DIR: Offset(5), OTHER_DIR: Offset(5)}
    )
    world.logs.close()


# The records that an operation may leave in the log: unchanged, grown, or cut at one end.

Relation = Callable[[bytes, bytes, bool], bool]


def same(old: bytes, found: bytes, is_done: bool) -> bool:
    del is_done
    return found == old


def grown(old: bytes, found: bytes, is_done: bool) -> bool:
    offsets = offsets_in(found)
    return (
        found.startswith(old)
        and len(found) >= len(old) + is_done
        and offsets == list(range(len(offsets)))
    )


def cut_at(offset: int) -> Relation:
    def is_cut(old: bytes, found: bytes, is_done: bool) -> bool:
        offsets = offsets_in(found)
        return old.startswith(found) and (
            len(offsets) == offset if is_done else len(offsets) >= offset
        )

    return is_cut


def begun_by(offset: int) -> Relation:
    def is_begun(old: bytes, found: bytes, is_done: bool) -> bool:
        del is_done
        return old.endswith(found) and offsets_in(found)[0] <= offset

    return is_begun


def emptied(old: bytes, found: bytes, is_done: bool) -> bool:
    return old.endswith(found) and not (is_done and found)


def gone(old: bytes, found: bytes, is_done: bool) -> bool:
    return found in (b"", old) and not (is_done and found)


@dataclass(frozen=True)
class Operation:
    """An operation of a broker, and the records that it may leave in the log."""

    act: Callable[[World], object]
    relation: Relation = same
    ends_log: bool = False
    starts: bool = False
    """Whether it is a step of a start; any failure of that takes a log dir offline."""


def follow(world: World) -> None:
    end = int(world.log.log_end_offset)
    data = b"".join(bytes(replicated(end + n, epoch=2 + n // 20)) for n in range(40))
    world.log.append_as_follower(memoryview(bytearray(data)), NOW_MS)


def follow_aborts(world: World) -> None:
    """Append aborted transactions, in several segments."""
    data = bytearray()
    end = int(world.log.log_end_offset)
    for number in range(10):
        for batch in (
            produced(number, 0, 2, is_transactional=True),
            marker(number, 0, ControlType.ABORT),
        ):
            assign_offsets(memoryview(batch), end, 2)
            end += read_header(batch).last_offset_delta + 1
            data += batch
    world.log.append_as_follower(memoryview(data), NOW_MS)


def roll(world: World) -> None:
    world.log.upkeep.roll(NOW_MS)
    append(world.log, epoch=2)


def flush(world: World) -> None:
    append(world.log, epoch=3)
    world.log.upkeep.flush()


def write_recovery_points(world: World) -> None:
    fill(world.log, 20, epoch=2)
    world.logs.checkpoints.write_recovery_points()


def cut(offset: int) -> Callable[[World], object]:
    return lambda world: world.logs.truncate_to({A: Offset(offset)})


def swap(world: World) -> None:
    """Swap segments as the cleaner does; the new one holds the same batches."""
    log = world.log
    old = log.segments[:-1]
    if len(old) < 2:
        return
    log.upkeep.cancel_swap()
    remove_all_cleaned(log.directory)
    cleaned = CleanedSegment(log.directory, old[0].base_offset, CONFIG, 1_000)
    for batch in split(b"".join(each.file.read(0, each.size_bytes) for each in old)):
        cleaned.append(bytearray(batch.data))
    cleaned.finish([], 0)
    assert log.upkeep.begin_swap([each.base_offset for each in old], cleaned.size_bytes)
    log.upkeep.sync_names()
    assert log.upkeep.finish_swap(NOW_MS)


def move(world: World) -> None:
    """Move the log as the mover does, and drop the copy on a failure."""
    logs = world.logs
    home = logs.table.directory_of(A)
    target = next(each for each in logs.table.directories if each.path == world.two)
    if home is target:
        return
    try:
        logs.placement.begin_move(A, target, NOW_MS)
        copy = logs.futures.get(A)
        assert copy is not None
        align(copy, world.log)
        while copy.log_end_offset < world.log.log_end_offset:
            append_chunk(copy, missing_chunk(copy, world.log), NOW_MS)
        logs.end_move(A, NOW_MS)
    except StorageError:
        if logs.get(A) is not None:
            logs.futures.drop(A)
        raise


def restart(world: World) -> None:
    """Kill the broker and start it again."""
    world.kill()
    world.start()


def stop_and_start(world: World) -> None:
    world.logs.close()
    world.start()


def remove_deleted(world: World) -> None:
    world.log.advance_log_start(Offset(40))
    world.logs.remove_deleted(0, delay_ms=0)


def make_new(world: World) -> None:
    append(world.create(NEW))


def read_closed(world: World) -> None:
    world.log.upkeep.release_closed()
    read_all(world.log)


OPERATIONS = {
    "append": Operation(lambda world: append(world.log, epoch=2), grown),
    "append in a new epoch": Operation(lambda world: append(world.log, epoch=3), grown),
    "append many": Operation(lambda world: fill(world.log, 40, epoch=2), grown),
    "append as follower": Operation(follow, grown),
    "append aborts": Operation(follow_aborts, grown),
    "roll": Operation(roll, grown),
    "read": Operation(read_closed),
    "flush": Operation(flush, grown),
    "recovery points": Operation(write_recovery_points, grown),
    "high watermarks": Operation(
        lambda world: world.logs.checkpoints.write_high_watermarks({A: Offset(60)})
    ),
    "log starts": Operation(lambda world: world.logs.checkpoints.write_log_starts()),
    "truncate the last segment": Operation(cut(68), cut_at(68)),
    "truncate segments": Operation(cut(10), cut_at(10)),
    "truncate fully": Operation(
        lambda world: world.logs.truncate_fully_and_start_at({A: Offset(0)}), emptied
    ),
    "advance the log start": Operation(
        lambda world: world.log.advance_log_start(Offset(40)), begun_by(40)
    ),
    "delete the oldest": Operation(
        lambda world: world.log.delete_oldest(2, NOW_MS) if len(world.log.segments) > 2 else None,
        begun_by(BATCHES),
    ),
    "remove deleted files": Operation(remove_deleted, begun_by(40)),
    "create": Operation(make_new),
    "delete": Operation(lambda world: world.logs.delete(A), gone, ends_log=True),
    "set aside": Operation(lambda world: world.logs.set_aside_as_stray(A), gone, ends_log=True),
    "swap": Operation(swap),
    "move": Operation(move),
    "claim": Operation(lambda world: world.logs.claim(1, "cluster"), starts=True),
    "start after a crash": Operation(restart, starts=True),
    "stop and start": Operation(stop_and_start, starts=True),
}


class Then(Enum):
    """The checks after the fault."""

    RETRY = "the operation is retried"
    KILL = "the broker is killed"
    STOP = "the broker is shut down cleanly"


def attempt(operation: Operation, world: World) -> bool:
    """Run the operation; return whether it completed."""
    try:
        operation.act(world)
    except (StorageError, OSError):
        return False
    return True


def check_neighbours(world: World) -> None:
    """Check that both neighbours are unchanged and writable, except one on the broken disk."""
    for partition, home in ((OTHER_DIR, world.two), (SAME_DIR, world.one)):
        if home in world.logs.table.offline_paths:
            continue
        log = world.of(partition)
        stored = read_all(log)
        assert offsets_in(stored) == list(range(log.log_end_offset))
        append(log)
        assert read_all(log).startswith(stored)


def content_of(world: World) -> bytes:
    found = world.logs.get(A)
    if found is None:
        return b""
    # Each directory entry that is read must still exist.
    found.upkeep.release_closed()
    return read_all(found)


def check(world: World, operation: Operation, old: bytes, is_done: bool) -> None:
    found = content_of(world)
    assert operation.relation(old, found, is_done), (
        f"{offsets_in(old)[-1:]} -> {offsets_in(found)[:1]}..{offsets_in(found)[-1:]}, {is_done}"
    )
    if found:
        check_epochs(world.log, found)
        assert aborted_in(world.log) == aborts_of(found)


def aborts_of(content: bytes) -> set[tuple[int, int, int]]:
    """Return the transactions that markers abort: producer, first and last offset."""
    begun: dict[int, int] = {}
    found = set()
    for batch in split(content):
        header = read_header(batch.data)
        if header.is_control:
            first = begun.pop(header.producer_id)
            found.add((header.producer_id, first, batch.base_offset))
        elif header.is_transactional:
            begun.setdefault(header.producer_id, batch.base_offset)
    return found


def aborted_in(log: Log) -> set[tuple[int, int, int]]:
    """Return the aborted transactions of the log, as a reader gets them."""
    found = set()
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end:
        region = log.read(offset, 2**31 - 1, end_offset=end, min_one_batch=True)
        for each in log.aborted_in(region, offset, end):
            found.add((each.producer_id, int(each.first_offset), int(each.last_offset)))
        offset = Offset(split(region.read())[-1].next_offset)
    return found


def check_epochs(log: Log, content: bytes) -> None:
    """Check that the leadership history matches the batches."""
    starts: dict[int, int] = {}
    for batch in split(content):
        starts.setdefault(batch.epoch, batch.base_offset)
    ends = [*list(starts.values())[1:], log.log_end_offset]
    found_ends = [log.end_offset_for(epoch) for epoch in starts]
    assert found_ends == list(zip(starts, ends, strict=True)), log.leader_epochs.entries


def run(
    template: Path, root: Path, operation: Operation, fault: Fault, at: int | None, then: Then
) -> Injection:
    """Run the operation with the fault, and check the outcome."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(template, root)
    world = World(root)
    old = read_all(world.log)
    # The log dir of the log, or its target in the second half of a move.
    with injected(fault, at, root) as injection:
        is_done = attempt(operation, world)
    if at is None:
        assert is_done, "it fails without a fault"
    if fault is Fault.SHORT:
        assert is_done, "a short write is gone on with"
    is_broken = bool(world.logs.table.offline_paths)
    if fault is not Fault.BROKEN and not operation.starts:
        assert not is_broken, "the disk is not broken"
    world.note_space()
    if not is_broken:
        check(world, operation, old, is_done)
        check_neighbours(world)
        if then is Then.RETRY:
            assert attempt(operation, world), "a later try fails, too"
            is_done = True
            check(world, operation, old, is_done)
    if then is Then.KILL:
        world.kill()
    else:
        world.logs.close()
    with injected(fault, None, root):
        world.start()
    assert not world.logs.table.offline_paths
    check(world, operation, old, is_done)
    check_neighbours(world)
    if operation.ends_log and is_done:
        assert world.create(A, ANOTHER_ID).log_end_offset == 0, "nothing deleted returns"
    elif not operation.ends_log:
        append(world.log, epoch=4)
    world.logs.close()
    return injection


def points(
    template: Path, root: Path, operation: Operation, fault: Fault, seed: int | None = None
) -> Iterator[str]:
    """Run through all points of an operation and a fault, or a few that `seed` draws.

    Yields:
        The call that failed.
    """
    turns = itertools.cycle(Then)
    count = run(template, root, operation, fault, None, Then.STOP).count
    for at in range(count) if seed is None else drawn(count, seed):
        for then in Then if seed is None else (next(turns),):
            try:
                yield run(template, root, operation, fault, at, then).hit or "none"
            except Exception as error:
                error.add_note(f"{fault.value} at call {at} of {count}, then {then.value}")
                raise


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a directory in memory, if there is one."""
    if not MEMORY.is_dir():
        yield tmp_path_factory.mktemp("memory")
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def template(memory: Path) -> Path:
    prepared(memory / "template")
    return memory / "template"


@pytest.fixture
def root(memory: Path) -> Path:
    return memory / "root"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Disable syncs: no test here depends on durability, and syncs are slow."""
    for name in SYNCING:
        monkeypatch.setattr(os, name, lambda _descriptor: None)
    for module in (opening, log_directory):
        monkeypatch.setattr(module, "ThreadPoolExecutor", InTurn)
    with capture_logs():
        yield


@pytest.mark.fresh_seeds(1)
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("name", OPERATIONS)
def test_any_call_of_an_operation_may_fail(
    template: Path, root: Path, name: str, fault: Fault, seed: int
) -> None:
    calls = Counter(points(template, root, OPERATIONS[name], fault, seed))
    assert "none" not in calls
    assert calls or fault is not Fault.BROKEN, "there was nothing to fail"
    sys.stdout.write(f"{name}, {fault.value}: {calls.total()} points: {dict(calls)}\n")


@pytest.mark.soak
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_call_of_an_operation_may_fail_followed_by_kill_or_stop(
    template: Path, root: Path, name: str, fault: Fault
) -> None:
    calls = Counter(points(template, root, OPERATIONS[name], fault))
    assert "none" not in calls
    sys.stdout.write(f"{name}, {fault.value}: {calls.total()} points: {dict(calls)}\n")

"""Moves of logs in use: `broker.logs.mover`."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.logs.mover import LITTLE_BYTES, UNSYNCED_BYTES, LogMover
from kafkawire.ids import Offset, TopicPartition
from storage.config.log_config import LogConfig
from storage.errors import OutOfFilesError
from storage.log.log import FileRegion, Log
from storage.log.log_copying import CHUNK_BYTES, append_chunk
from tests.unit.broker.replicas import turn
from tests.unit.storage.compacting import append_batch, keyed_batch
from tests.unit.storage.faults import failing
from tests.unit.storage.logs import (
    NOW_MS,
    PARTITION,
    append,
    fill,
    log_of,
    offsets_in,
    open_logs,
    read_all,
    replicated,
)

CONFIG = LogConfig(segment_bytes=2 * CHUNK_BYTES)
TIMEOUT_S = 20
CHUNKS = 4
MAX_LAG = 200
"""Records of a kilobyte that are missing in a copy; all of them together are little."""
MAX_SYNCS = 3


class Place:
    """Two log dirs, a log in the first one, and a mover."""

    def __init__(self, tmp_path: Path, executor: ThreadPoolExecutor) -> None:
        self.logs = open_logs(tmp_path / "one", tmp_path / "two", config=CONFIG)
        self.moved: list[Log] = []
        self.ended = asyncio.Event()
        self.mover = LogMover(
            self.logs,
            on_moved=self.on_moved,
            loop=asyncio.get_running_loop(),
            executor=executor,
            now_ms=lambda: NOW_MS,
            max_moves=1,
        )

    def on_moved(self, moved: Log) -> None:
        self.moved.append(moved)
        self.ended.set()

    @property
    def log(self) -> Log:
        return log_of(self.logs)

    def create(self, partition: TopicPartition = PARTITION, chunk_count: int = CHUNKS) -> Log:
        log = self.logs.create(partition, CONFIG, None, now_ms=NOW_MS)
        for _ in range(chunk_count):
            append(log, value_bytes=CHUNK_BYTES)
        return log

    def move(self, number: int = 1, partition: TopicPartition = PARTITION) -> None:
        self.mover.move(partition, self.logs.table.directories[number])

    async def wait(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                await turn()

    def is_idle(self) -> bool:
        return not self.mover._moves


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    with ThreadPoolExecutor(2) as executor:
        place = Place(tmp_path, executor)
        yield place
        await place.mover.stop()
        place.logs.close()


async def test_log_moves_while_it_is_written(place: Place) -> None:
    before = place.create()
    place.move()
    copy = place.logs.futures.get(PARTITION)
    assert copy is not None
    # The log grows until it has moved, no faster than it is copied.
    async with asyncio.timeout(TIMEOUT_S):
        while not place.ended.is_set():
            if place.log.log_end_offset < copy.log_end_offset + MAX_LAG:
                append(place.log, value_bytes=1_000)
            await asyncio.sleep(0)
    after = place.log
    assert after is place.moved[0]
    assert after is not before
    assert before.is_closed
    assert place.logs.table.directory_of(PARTITION) is place.logs.table.directories[1]
    assert offsets_in(read_all(after)) == list(range(after.log_end_offset))
    assert after.log_end_offset >= before.log_end_offset > CHUNKS
    append(after)


@pytest.mark.parametrize(
    ("chunks_per_sync", "syncs"), [(1, 1), (UNSYNCED_BYTES // CHUNK_BYTES + 1, MAX_SYNCS)]
)
async def test_move_ends_although_the_log_grows_during_each_sync(
    place: Place, monkeypatch: pytest.MonkeyPatch, chunks_per_sync: int, syncs: int
) -> None:
    """The event loop syncs a few chunks, but not any number."""
    place.create(chunk_count=1)
    place.move()
    copy = place.logs.futures.get(PARTITION)
    assert copy is not None
    in_other_thread, sync_count = place.mover._in_thread, 0

    async def in_thread(call: Callable[..., None], *arguments: object) -> None:
        nonlocal sync_count
        await in_other_thread(call, *arguments)
        if call == copy.upkeep.flush:
            sync_count += 1
            for _ in range(chunks_per_sync if sync_count < MAX_SYNCS else 0):
                append(place.log, value_bytes=CHUNK_BYTES)

    monkeypatch.setattr(place.mover, "_in_thread", in_thread)
    await place.wait(place.ended.is_set)
    assert sync_count == syncs
    written = 1 + chunks_per_sync * min(syncs, MAX_SYNCS - 1)
    assert offsets_in(read_all(place.log)) == list(range(written))


async def test_a_log_of_small_segments_is_not_copied_in_the_event_loop(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its chunks is little, but all of them together may take minutes."""
    own, loop_bytes = threading.get_ident(), 0

    def append_and_count(copy: Log, chunk: FileRegion, now_ms: int) -> None:
        nonlocal loop_bytes
        if threading.get_ident() == own:
            loop_bytes += chunk.size_bytes
        append_chunk(copy, chunk, now_ms)

    monkeypatch.setattr("broker.logs.mover.append_chunk", append_and_count)
    config = LogConfig(segment_bytes=LITTLE_BYTES)
    log = place.logs.create(PARTITION, config, None, now_ms=NOW_MS)
    fill(log, CHUNKS, value_bytes=LITTLE_BYTES * 3 // 4)
    assert len(log.segments) == CHUNKS
    place.move()
    await place.wait(place.ended.is_set)
    assert 0 < loop_bytes <= LITTLE_BYTES
    assert offsets_in(read_all(place.log)) == list(range(CHUNKS))


async def test_records_truncated_during_a_move_are_not_in_the_copy(place: Place) -> None:
    log = place.create()
    place.move()
    copy = place.logs.futures.get(PARTITION)
    assert copy is not None
    await place.wait(lambda: copy.log_end_offset >= 2)
    log.truncate_to(Offset(1))
    fill(log, 5, epoch=3)
    log.advance_log_start(Offset(1))
    await place.wait(place.ended.is_set)
    assert offsets_in(read_all(place.log)) == list(range(1, 6))
    assert place.log.log_start_offset == 1


def batch_of_size(size_bytes: int) -> bytearray:
    """Return a batch with one record, of zeros."""
    shorter = keyed_batch([(b"key", bytes(size_bytes - 100))])
    batch = keyed_batch([(b"key", bytes(2 * size_bytes - 100 - len(shorter)))])
    assert len(batch) == size_bytes
    return batch


@pytest.mark.parametrize("extra_bytes", [1_000, 0], ids=["torn batch", "old offset"])
async def test_a_log_truncated_and_refilled_while_a_chunk_is_read_still_moves(
    place: Place, monkeypatch: pytest.MonkeyPatch, extra_bytes: int
) -> None:
    log = place.create(chunk_count=0)
    # A chunk holds one of them.
    for _ in range(3):
        append(log, timestamps_ms=[NOW_MS] * 2, value_bytes=3 * CHUNK_BYTES // 10)
    batch = batch_of_size(log.size_bytes // 3 + extra_bytes)
    real, calls = place.mover._in_thread, 0

    async def in_thread(call: Callable[..., None], *arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            log.truncate_to(Offset(0))
            for _ in range(2):
                append_batch(log, batch, epoch=3)
        await real(call, *arguments)

    monkeypatch.setattr(place.mover, "_in_thread", in_thread)
    place.move()
    await place.wait(place.is_idle)
    assert place.moved
    assert offsets_in(read_all(place.log)) == [0, 1]


async def test_move_back_cancels_the_move(place: Place) -> None:
    log = place.create()
    place.move()
    place.move(number=0)
    await place.wait(place.is_idle)
    assert place.log is log
    assert not place.moved
    assert place.logs.futures.get(PARTITION) is None
    # The last call wins, also while a chunk of an earlier move is being copied.
    for number in (1, 0, 1):
        place.move(number)
        await asyncio.sleep(0)
    await place.wait(place.ended.is_set)
    assert place.logs.table.directory_of(PARTITION) is place.logs.table.directories[1]


async def test_deletion_of_a_partition_cancels_its_move(place: Place) -> None:
    place.create()
    place.move()
    await asyncio.sleep(0)
    place.logs.delete(PARTITION)
    await place.wait(place.is_idle)
    assert not place.moved
    assert not place.logs.table.offline_paths


async def test_stopped_move_resumes_at_the_next_start(place: Place) -> None:
    log = place.create()
    place.move()
    await asyncio.sleep(0)
    await place.mover.stop()
    assert place.log is log
    place.mover._stopped.clear()
    place.mover.resume()
    await place.wait(place.ended.is_set)
    assert offsets_in(read_all(place.log)) == list(range(CHUNKS))


async def test_number_of_concurrent_moves_is_limited(place: Place) -> None:
    partitions = [TopicPartition("orders", number) for number in range(3)]
    for partition in partitions:
        place.create(partition, chunk_count=2)
    for partition in partitions:
        home = place.logs.table.directory_of(partition)
        number = 0 if home is place.logs.table.directories[1] else 1
        place.move(number, partition)
    await place.wait(lambda: len(place.moved) == len(partitions))


async def test_damaged_log_is_not_moved(place: Place) -> None:
    log = place.create()
    path = log.segments[0].file.path
    with path.open("r+b") as file:
        file.seek(CHUNK_BYTES // 2)
        file.write(b"\xff")
    with capture_logs() as captured:
        place.move()
        await place.wait(place.is_idle)
    assert "move.failed" in {each["event"] for each in captured}
    assert place.log is log
    assert place.logs.futures.get(PARTITION) is None
    append(log)


async def test_move_waits_while_the_disk_is_full(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.logs.mover.RETRY_DELAY_S", 0.001)
    place.create()
    place.move()
    target = place.logs.table.directories[1].health
    target.note_full("no space")
    for _ in range(100):
        await asyncio.sleep(0)
    assert not place.moved
    target.note_space()
    await place.wait(place.ended.is_set)


async def test_move_waits_while_there_are_no_descriptors(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.logs.mover.RETRY_DELAY_S", 0.001)
    place.create()
    failures = iter([OutOfFilesError(Path("two"), "too many open files")])

    def append_later(copy: Log, chunk: FileRegion, now_ms: int) -> None:
        for error in failures:
            raise error
        append_chunk(copy, chunk, now_ms)

    monkeypatch.setattr("broker.logs.mover.append_chunk", append_later)
    place.move()
    await place.wait(place.ended.is_set)
    assert offsets_in(read_all(place.log)) == list(range(CHUNKS))


async def test_move_whose_copy_cannot_take_over_is_reported(place: Place) -> None:
    place.create()
    failures = iter([True])

    def is_promoted(path: Path) -> bool:
        return path.name.endswith("-future") and next(failures, False)

    with failing("rename", errno.ENOSPC, at=is_promoted), capture_logs() as captured:
        place.move()
        await place.wait(place.is_idle)
    assert "move.failed" in {each["event"] for each in captured}
    assert not place.moved


async def test_move_waits_while_the_log_ends_with_a_hole(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.logs.mover.RETRY_DELAY_S", 0.001)
    paused = asyncio.Event()
    pause = place.mover._pause

    async def note_and_pause(seconds: float) -> None:
        paused.set()
        await pause(seconds)

    monkeypatch.setattr(place.mover, "_pause", note_and_pause)
    log = place.create(chunk_count=1)
    # As after a failed write of a batch that follows offsets which compaction has dropped.
    log._local.roll(Offset(5), NOW_MS)
    place.move()
    await place.wait(paused.is_set)
    assert not place.moved
    log.append_as_follower(memoryview(replicated(5)), NOW_MS)
    await place.wait(place.ended.is_set)
    assert offsets_in(read_all(place.log)) == [0, 5]


async def test_moves_respect_the_rate(place: Place) -> None:
    """At 20 chunks per second, six chunks take at least 250 ms: the last one is free."""
    place.mover.limit_rate(20 * CHUNK_BYTES)
    partitions = [TopicPartition("orders", number) for number in (0, 2)]
    place.create(partitions[0], chunk_count=3)
    place.create(TopicPartition("orders", 1), chunk_count=0)
    place.create(partitions[1], chunk_count=3)
    began_s = asyncio.get_running_loop().time()
    for partition in partitions:
        place.move(partition=partition)
    await place.wait(lambda: len(place.moved) == len(partitions))
    assert asyncio.get_running_loop().time() - began_s >= 5 / 20


async def test_moves_pause_at_a_rate_of_zero(place: Place) -> None:
    log = place.create()
    place.mover.limit_rate(0)
    place.move()
    await place.wait(lambda: place.logs.futures.get(PARTITION) is not None)
    for _ in range(20):
        await turn()
    copy = place.logs.futures.get(PARTITION)
    assert copy is not None
    assert copy.log_end_offset == 0
    # A waiting move can be cancelled, and a higher rate applies at once.
    place.move(number=0)
    place.move()
    place.mover.limit_rate(1e12)
    await place.wait(place.ended.is_set)
    assert place.log is not log


def test_little_is_less_than_a_chunk() -> None:
    assert LITTLE_BYTES < CHUNK_BYTES

"""Group commit: the next batch fills during a sync, and a failure stops the log."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordination.protocol.messages import OPEN_ACL
from coordination.server.coordinator import open_state
from coordination.server.disk import wal, wal_writer
from coordination.server.disk.data_dir import DataDir, segments_of
from coordination.server.disk.journal import SYNC_THREAD, FileLog, GroupCommit
from coordination.server.disk.state_recovery import recover
from coordination.server.state.txns import CreateTxn, DeleteTxn, Entry

STEP_BYTES = 4096
SEGMENT_ENTRIES = 3
TIMEOUT_S = 10
DISK_WAITS = ("posix_fallocate", "fsync", "fdatasync")


class FakeLog:
    """Log whose syncs are completed by the test."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.waiting: Callable[[OSError | None], None] | None = None
        self.idle_count = 0
        self.append_error: Exception | None = None

    def append(self, entries: Sequence[Entry]) -> None:
        if self.append_error is not None:
            raise self.append_error
        self.batches.append([entry.zxid for entry in entries])

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        assert self.waiting is None, "one sync at a time"
        self.waiting = done

    def idle(self) -> None:
        self.idle_count += 1

    def close(self) -> None:
        pass

    def finish(self, error: OSError | None = None) -> None:
        assert self.waiting is not None
        done, self.waiting = self.waiting, None
        done(error)


class Harness:
    def __init__(self) -> None:
        self.log = FakeLog()
        self.entries: list[Entry] = []
        self.synced: list[int] = []
        self.failures: list[BaseException] = []
        self.commit = GroupCommit(
            self.log, synced_zxid=0, on_synced=self.on_synced, on_failure=self.failures.append
        )

    def on_synced(self, zxid: int) -> None:
        self.synced.append(zxid)
        self.commit.kick(self.entries)

    def write(self, *zxids: int) -> None:
        self.entries += [Entry(zxid, 0, 0, 0, DeleteTxn("/")) for zxid in zxids]
        self.commit.kick(self.entries)


def test_entries_added_during_a_sync_form_one_batch() -> None:
    harness = Harness()
    harness.write(1)
    harness.write(2)
    harness.write(3, 4)
    assert harness.log.batches == [[1]]
    harness.log.finish()
    assert harness.log.batches == [[1], [2, 3, 4]]
    assert (harness.synced, harness.commit.synced_zxid) == ([1], 1)
    assert harness.log.idle_count == 0
    harness.log.finish()
    assert (harness.synced, harness.log.idle_count) == ([1, 4], 1)
    assert not harness.commit.is_busy


def test_no_entry_is_acknowledged_after_a_failed_sync() -> None:
    harness = Harness()
    harness.write(1)
    harness.write(2)
    harness.log.finish(OSError("disk gone"))
    harness.write(3)
    assert (harness.synced, len(harness.failures)) == ([], 1)
    assert harness.log.batches == [[1]]


@pytest.mark.parametrize("error", [OSError("disk full"), MemoryError()], ids=repr)
def test_a_failed_write_is_reported_as_failure(error: Exception) -> None:
    harness = Harness()
    harness.log.append_error = error
    harness.write(1)
    assert (harness.synced, harness.failures) == ([], [error])


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataDir]:
    """A data directory with segments that grow and roll after a few batches."""
    for module in (wal, wal_writer):
        monkeypatch.setattr(module, "ALLOCATION_STEP_BYTES", STEP_BYTES)
    monkeypatch.setattr(wal_writer, "SEGMENT_MAX_ENTRIES", SEGMENT_ENTRIES)
    found = DataDir(tmp_path)
    yield found
    found.close()


async def commit(log: FileLog, zxid: int) -> BaseException | None:
    """Commit a batch that takes half of a step; return the error of the sync."""
    synced: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    txn = CreateTxn(f"/{zxid}", bytes(STEP_BYTES // 2), OPEN_ACL, 0, zxid)
    log.append([Entry(zxid, 0, 0, 0, txn)])
    log.sync(synced.set_result)
    return await synced


def noted(name: str, found: set[tuple[str, str]]) -> Callable[..., None]:
    """Return the system call with this name, which notes the thread of each call."""
    real = getattr(os, name)

    def call(*given: Any) -> None:
        found.add((name, threading.current_thread().name))
        real(*given)

    return call


async def test_the_loop_never_waits_for_the_disk_although_segments_grow_and_roll(
    data_dir: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, writer = open_state(data_dir)
    rolled_in: list[threading.Thread] = []
    log = FileLog(
        writer,
        asyncio.get_running_loop(),
        on_rolled=lambda: rolled_in.append(threading.current_thread()),
    )
    waits: set[tuple[str, str]] = set()
    with monkeypatch.context() as patch:
        for name in DISK_WAITS:
            patch.setattr(os, name, noted(name, waits))
        for zxid in range(1, 2 * SEGMENT_ENTRIES + 2):
            assert await commit(log, zxid) is None
            log.idle()
    assert waits == {(name, SYNC_THREAD) for name in DISK_WAITS}
    assert rolled_in == [threading.current_thread()] * 2
    log.close()
    assert len(segments_of(data_dir.path)) == 3
    state = recover(data_dir.path, data_dir.identity).state
    assert state.zxid == 2 * SEGMENT_ENTRIES + 1
    assert f"/{state.zxid}" in state.tree.nodes


async def test_a_segment_that_cannot_grow_fails_the_sync(
    data_dir: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, writer = open_state(data_dir)
    log = FileLog(writer, asyncio.get_running_loop(), on_rolled=lambda: None)
    assert await commit(log, 1) is None

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", refuse)
        error = await commit(log, 2)
    assert isinstance(error, OSError)
    assert error.errno == errno.ENOSPC
    log.close()
    assert recover(data_dir.path, data_dir.identity).state.zxid == 1


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("place", ["directory", "segment"])
async def test_a_segment_grows_on_while_there_is_no_descriptor_for_the_next_one(
    data_dir: DataDir, monkeypatch: pytest.MonkeyPatch, place: str, number: int
) -> None:
    _, writer = open_state(data_dir)
    rolls: list[None] = []
    log = FileLog(writer, asyncio.get_running_loop(), on_rolled=lambda: rolls.append(None))
    opened = os.open

    def refuse(path: Path, *given: int) -> int:
        if (path == data_dir.path) is (place == "directory"):
            raise OSError(number, os.strerror(number))
        return opened(path, *given)

    with monkeypatch.context() as exhausted, capture_logs() as logs:
        exhausted.setattr(os, "open", refuse)
        for zxid in range(1, SEGMENT_ENTRIES + 3):
            assert await commit(log, zxid) is None
            log.idle()
    assert [each["event"] for each in logs] == ["segment.not_rolled"]
    assert len(segments_of(data_dir.path)) == 1
    assert await commit(log, SEGMENT_ENTRIES + 3) is None
    assert rolls == [None]
    log.close()
    assert len(segments_of(data_dir.path)) == 2
    assert recover(data_dir.path, data_dir.identity).state.zxid == SEGMENT_ENTRIES + 3


async def test_a_bug_in_the_sync_thread_fails_the_sync(
    data_dir: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, writer = open_state(data_dir)
    log = FileLog(writer, asyncio.get_running_loop(), on_rolled=lambda: None)
    bug = RuntimeError("a bug")

    def fail() -> None:
        raise bug

    with monkeypatch.context() as broken:
        broken.setattr(writer, "sync", fail)
        async with asyncio.timeout(TIMEOUT_S):
            assert await commit(log, 1) is bug
    log.close()


async def test_a_log_without_syncs_grows_and_rolls_at_once(data_dir: DataDir) -> None:
    _, writer = open_state(data_dir)
    rolls: list[None] = []
    log = FileLog(
        writer,
        asyncio.get_running_loop(),
        on_rolled=lambda: rolls.append(None),
        does_sync=False,
    )
    for zxid in range(1, SEGMENT_ENTRIES + 2):
        assert await commit(log, zxid) is None
    log.close()
    assert len(rolls) == 1
    assert recover(data_dir.path, data_dir.identity).state.zxid == SEGMENT_ENTRIES + 1

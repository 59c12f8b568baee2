"""The times at which the leadership history is written and synced."""

import errno
import os
from pathlib import Path

import pytest

from kafkawire.ids import LeaderEpoch
from storage.errors import LogDirFullError
from storage.log.local_log import LocalLog
from storage.log.log import Log
from tests.unit.storage.logs import NOW_MS, append, fill, open_log, replicated


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "orders-0")


def stored(log: Log) -> list[str]:
    return (log.directory / "leader-epoch-checkpoint").read_text().splitlines()[2:]


def synced(patch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    patch.setattr(os, "fsync", fsync)
    return names


def test_a_leaders_epoch_is_in_the_file_with_its_first_batch(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = synced(monkeypatch)
    fill(log, 3, epoch=2)
    assert stored(log) == ["2 0"]
    log.leader_epochs.assign(LeaderEpoch(4), log.log_end_offset)
    fill(log, 3, epoch=4)
    assert stored(log) == ["2 0", "4 3"]
    # A failover of thousands of partitions must not wait for a disk.
    assert names == []
    log.upkeep.flush()
    assert "leader-epoch-checkpoint.tmp" in names


def test_a_followers_epochs_are_in_the_file_with_their_first_batches(log: Log) -> None:
    log.append_as_follower(memoryview(replicated(0, 3, epoch=1)), NOW_MS)
    log.append_as_follower(memoryview(replicated(3) + replicated(4, epoch=5)), NOW_MS)
    assert stored(log) == ["1 0", "5 4"]


def test_truncated_epoch_is_stored_again(log: Log) -> None:
    fill(log, 3, epoch=1)
    fill(log, 3, epoch=2)
    log.truncate_to(log.segments[0].base_offset)
    assert stored(log) == []
    log.append_as_follower(memoryview(replicated(0, 3, epoch=2)), NOW_MS)
    assert stored(log) == ["2 0"]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
def test_append_succeeds_even_if_its_epoch_cannot_be_stored(log: Log, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    fill(log, 1, epoch=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", refuse)
        append(log, epoch=2)
    assert log.health.refusal is None
    assert stored(log) == ["1 0"]
    log.upkeep.flush()
    assert stored(log) == ["1 0", "2 1"]


def test_a_file_that_a_full_disk_has_torn_is_written_again(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append_as_follower(memoryview(replicated(0, 3, epoch=1)), NOW_MS)
    log.upkeep.flush()
    real = os.pwrite

    def fill_up(descriptor: int, data: bytes, position: int) -> int:
        if len(data) < 2:
            raise OSError(errno.ENOSPC, "full")
        return real(descriptor, data[: len(data) // 2], position)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fill_up)
        patch.setattr(LocalLog, "append_all", refuse)
        with pytest.raises(LogDirFullError):
            log.append_as_follower(memoryview(replicated(3, epoch=10)), NOW_MS)
    assert log.leader_epochs.latest == 1
    log.upkeep.flush()
    assert stored(log) == ["1 0"]

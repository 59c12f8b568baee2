"""The times at which the leadership history is written and synced."""

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path

import pytest

from kafkawire.ids import LeaderEpoch, Offset
from storage.disk.checkpoint import SECTOR_BYTES, write_entries
from storage.errors import LogDirFullError
from storage.log import epoch_checkpoint
from storage.log.epoch_checkpoint import StoredEpochs, read_epochs, write_epochs
from storage.log.leader_epochs import EpochEntry, LeaderEpochs
from storage.log.local_log import LocalLog
from storage.log.log import Log
from tests.unit.storage.faults import dies_within
from tests.unit.storage.logs import NOW_MS, append, fill, open_log, replicated
from tests.waiting import until_sync


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


def epochs_of(directory: Path, count: int) -> StoredEpochs:
    """Return a history of `count` leaderships that is on disk."""
    entries = [EpochEntry(LeaderEpoch(10 + n), Offset(1_000_000 + n * 111)) for n in range(count)]
    write_epochs(directory / "leader-epoch-checkpoint", entries)
    return StoredEpochs(LeaderEpochs(entries), tuple(entries), is_durable=True)


def begin_next(epochs: StoredEpochs, directory: Path) -> None:
    latest = epochs.history.entries[-1]
    epochs.begin(directory, LeaderEpoch(latest.epoch + 1), Offset(latest.start_offset + 111))


def mixtures(versions: list[bytes]) -> Iterator[bytes]:
    """Yield the contents that a power loss may leave of one file with these versions."""
    longest = max(len(version) for version in versions)
    sectors = [
        {version.ljust(longest, b"\0")[start : start + SECTOR_BYTES] for version in versions}
        for start in range(0, longest, SECTOR_BYTES)
    ]
    for mixture in product(*sectors):
        for version in versions:
            yield b"".join(mixture)[: len(version)]


def accepted(path: Path, contents: Iterable[bytes]) -> set[tuple[EpochEntry, ...]]:
    histories = set()
    for content in set(contents):
        path.write_bytes(content)
        histories.add(read_epochs(path).entries)
    return histories - {()}


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ("another", 90),
        ("another", 9),
        ("another", 99),
        ("retention", 90),
        ("retention", 20),
        ("torn", 90),
    ],
)
def test_after_a_power_loss_the_file_holds_a_history_that_was_stored_or_is_rejected(
    tmp_path: Path, change: str, count: int
) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    epochs = epochs_of(tmp_path, count)
    versions, number = [path.read_bytes()], path.stat().st_ino
    histories = {epochs.history.entries}
    for _ in range(2):
        if change == "retention":
            # As many entries as before, and each in another place.
            epochs.history.truncate_from_start(epochs.history.entries[1].start_offset)
        if change == "torn":
            tear_overwrite(epochs, tmp_path)
            versions.append(path.read_bytes())
        begin_next(epochs, tmp_path)
        if path.stat().st_ino != number:
            # A replaced file; the system writes its name only after its content was begun.
            versions, number = [b""], path.stat().st_ino
        versions.append(path.read_bytes())
        histories.add(epochs.history.entries)
    assert accepted(tmp_path / "after", mixtures(versions)) <= histories


def tear_overwrite(epochs: StoredEpochs, directory: Path) -> None:
    """Store an epoch that no batch follows, on a disk that is full behind the first sector."""
    real = os.pwrite

    def fill_up(descriptor: int, data: bytes, position: int) -> int:
        if position:
            raise OSError(errno.ENOSPC, "full")
        return real(descriptor, data[: 4 * SECTOR_BYTES], 0)

    latest = epochs.history.entries[-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", fill_up)
        epochs.begin(directory, LeaderEpoch(latest.epoch + 5), Offset(latest.start_offset + 7))
    epochs.forget_beyond(Offset(latest.start_offset + 1))


def test_a_failover_adds_its_epoch_to_the_file_in_place(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    epochs = epochs_of(tmp_path, 1)
    replaced, number = [], path.stat().st_ino
    for count in range(2, 121):
        begin_next(epochs, tmp_path)
        assert read_epochs(path).entries == epochs.history.entries
        if path.stat().st_ino != number:
            replaced.append(count)
            number = path.stat().st_ino
    # The count in the second line needs another digit, which moves all entries of several sectors.
    assert replaced == [100]


@pytest.mark.parametrize("dies_at", range(4))
def test_a_death_while_a_shorter_history_is_stored_leaves_a_history(
    tmp_path: Path, dies_at: int
) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    epochs = epochs_of(tmp_path, 4)
    before = epochs.history.entries
    epochs.history.truncate_from_start(before[-1].start_offset)
    dies_within(dies_at, lambda: begin_next(epochs, tmp_path))
    assert read_epochs(path).entries in (before, epochs.history.entries)


def durable_writes(
    patch: pytest.MonkeyPatch, meanwhile: Callable[[], None] = lambda: None
) -> list[bytes]:
    """Return a list of the contents that reach the disk; `meanwhile` runs once, with the first."""
    on_disk: list[bytes] = []
    real = write_entries

    def write(path: Path, lines: Iterable[str], *, is_durable: bool = True) -> None:
        real(path, lines, is_durable=is_durable)
        if is_durable:
            on_disk.append(path.read_bytes())
            if len(on_disk) == 1:
                meanwhile()

    patch.setattr(epoch_checkpoint, "write_entries", write)
    return on_disk


def test_a_flush_covers_no_batch_whose_epoch_is_stored_later(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 3, epoch=1)
    log.upkeep.roll(NOW_MS)
    on_disk = durable_writes(monkeypatch)
    real = StoredEpochs.store

    def store_and_go_on(epochs: StoredEpochs, directory: Path) -> None:
        real(epochs, directory)
        monkeypatch.setattr(StoredEpochs, "store", real)
        # The owner of the log continues while another thread flushes it.
        for epoch in (2, 3, 4):
            fill(log, 2, epoch=epoch)
            log.upkeep.roll(NOW_MS)

    monkeypatch.setattr(StoredEpochs, "store", store_and_go_on)
    log.upkeep.flush_closed()
    # The power fails: by chance all batches have reached the disk, and the checkpoint has not.
    (log.directory / "leader-epoch-checkpoint").write_bytes(on_disk[-1])
    restarted = open_log(log.directory, was_clean=False, recovery_point=log.recovery_point)
    assert restarted.log_end_offset == log.log_end_offset
    assert restarted.leader_epochs.entries == log.leader_epochs.entries


@pytest.mark.parametrize("was_clean", [True, False])
def test_first_flush_after_a_crash_syncs_the_epochs(
    log: Log, monkeypatch: pytest.MonkeyPatch, was_clean: bool
) -> None:
    """The process may have died before a flush; only an orderly stop leaves a durable file."""
    fill(log, 3, epoch=1)
    if was_clean:
        log.upkeep.close()
    restarted = open_log(log.directory, was_clean=was_clean)
    fill(restarted, 1, epoch=1)
    on_disk = durable_writes(monkeypatch)
    for _ in range(2):
        restarted.upkeep.flush()
    assert [each.splitlines()[2:] for each in on_disk] == ([] if was_clean else [[b"1 0"]])


def test_log_without_epochs_gets_no_file_after_a_crash(log: Log) -> None:
    restarted = open_log(log.directory, was_clean=False)
    restarted.upkeep.close()
    assert not (log.directory / "leader-epoch-checkpoint").exists()


class WatchedLock:
    """A lock that records whether a thread has waited for it."""

    def __init__(self) -> None:
        self.was_contended = False
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.was_contended = True
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_truncation_during_a_flush_drops_the_epoch_that_the_flush_stores(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, 3, epoch=1)
    log.upkeep.flush()
    # A leadership begins, and ends without a batch.
    log.leader_epochs.assign(LeaderEpoch(2), log.log_end_offset)
    lock = WatchedLock()
    monkeypatch.setattr(log._epochs, "_lock", lock)
    owner = threading.Thread(target=lambda: log.truncate_to(log.log_end_offset))

    def truncate() -> None:
        owner.start()
        until_sync(lambda: lock.was_contended or not owner.is_alive(), "the truncation")

    on_disk = durable_writes(monkeypatch, truncate)
    log.upkeep.flush()
    owner.join()
    assert [each.splitlines()[2:] for each in on_disk] == [[b"1 0", b"2 3"], [b"1 0"]]


def test_an_epoch_that_a_full_disk_has_kept_is_dropped_durably_before_the_next_append(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    fill(log, 3, epoch=1)
    log.leader_epochs.assign(LeaderEpoch(2), log.log_end_offset)
    log.upkeep.flush()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(LogDirFullError):
            log.truncate_to(log.log_end_offset)
    log.health.note_space()
    names = synced(monkeypatch)
    log.append_as_follower(memoryview(replicated(3, epoch=1)), NOW_MS)
    assert stored(log) == ["1 0"]
    assert "leader-epoch-checkpoint.tmp" in names


def test_the_recovery_point_does_not_rise_if_a_closing_log_cannot_store_its_epochs(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    fill(log, 3, epoch=1)
    monkeypatch.setattr(epoch_checkpoint, "write_entries", refuse)
    with pytest.raises(LogDirFullError):
        log.upkeep.close()
    assert log.recovery_point == 0

"""A log stores its aborted transactions, on leader and follower, and across crashes."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkawire.ids import Offset
from kafkawire.records import ControlType
from storage.config.log_config import LogConfig
from storage.disk.layout import TRANSACTION_INDEX_SUFFIX, segment_file
from storage.errors import CorruptLogError, LogDirFullError, OutOfFilesError
from storage.log.log import Log
from storage.log.log_copying import align, append_chunk, missing_chunk
from storage.segment import transaction_index_file
from storage.segment.transaction_index import (
    AbortedTransaction,
    check_index,
    find_aborted,
    read_aborted,
    size_below,
    write_aborted,
)
from storage.segment.transaction_index_file import TransactionIndexFile
from tests.unit.storage.logs import EVERYTHING, NOW_MS, PARTITION, open_log
from tests.unit.storage.produced_batches import follow, marker, produced, write

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
CONFIG = LogConfig(file_delete_delay_ms=0)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


@pytest.fixture
def log(directory: Path) -> Log:
    return open_log(directory)


def begin(log: Log, producer_id: int = 7, sequence: int = 0) -> None:
    write(log, produced(producer_id, sequence, is_transactional=True))


def end(log: Log, kind: ControlType, producer_id: int = 7) -> None:
    write(log, marker(producer_id, log.log_end_offset, kind))


def aborted(producer_id: int, first: int, last: int, stable: int) -> AbortedTransaction:
    return AbortedTransaction(producer_id, Offset(first), Offset(last), Offset(stable))


def index_path(log: Log, base_offset: int = 0) -> Path:
    return segment_file(log.directory, base_offset, TRANSACTION_INDEX_SUFFIX)


def index_of(log: Log, base_offset: int = 0) -> list[AbortedTransaction]:
    path = index_path(log, base_offset)
    return read_aborted(path.read_bytes()) if path.exists() else []


def crash(log: Log, recovery_point: int | None = None) -> Log:
    point = log.recovery_point if recovery_point is None else recovery_point
    return open_log(log.directory, log.config, was_clean=False, recovery_point=point)


def found_by(log: Log, offset: int = 0) -> list[AbortedTransaction]:
    end_offset = log.last_stable_offset(log.log_end_offset)
    region = log.read(Offset(offset), EVERYTHING, end_offset=end_offset, min_one_batch=True)
    return log.aborted_in(region, Offset(offset), end_offset)


def test_leader_and_follower_write_the_same_entry_for_an_aborted_transaction(
    directory: Path, tmp_path: Path
) -> None:
    leader, follower = open_log(directory), open_log(tmp_path / "copy")
    begin(leader, 7)
    begin(leader, 8)
    end(leader, ABORT, 7)
    end(leader, ABORT, 8)
    region = leader.read(
        Offset(0), EVERYTHING, end_offset=leader.log_end_offset, min_one_batch=True
    )
    follower.append_as_follower(memoryview(bytearray(region.read())), NOW_MS)
    for log in (leader, follower):
        assert index_of(log) == [aborted(7, 0, 2, 1), aborted(8, 1, 3, 4)]
        assert found_by(log) == index_of(log)


def test_a_committed_transaction_leaves_no_index(log: Log) -> None:
    begin(log)
    end(log, COMMIT)
    end(log, ABORT)
    assert log.log_end_offset == 3, "a marker without a transaction is appended, too"
    assert not index_path(log).exists()
    assert found_by(log) == []


def test_truncation_drops_the_entries_of_its_markers(log: Log) -> None:
    begin(log)
    end(log, ABORT)
    begin(log, sequence=1)
    end(log, ABORT)
    log.truncate_to(Offset(3))
    assert index_of(log) == [aborted(7, 0, 1, 2)]
    end(log, COMMIT)
    assert found_by(log) == [aborted(7, 0, 1, 2)]
    log.truncate_to(Offset(1))
    assert not index_path(log).exists()
    end(log, COMMIT)
    assert found_by(log) == []


@pytest.mark.parametrize("is_left", [True, False], ids=["left", "gone"])
def test_recovery_indexes_transactions_from_earlier_segments(log: Log, is_left: bool) -> None:
    begin(log)
    log.upkeep.roll(NOW_MS)
    begin(log, 8)
    log.upkeep.roll(NOW_MS)
    end(log, ABORT)
    expected = [aborted(7, 0, 2, 1)]
    assert index_of(log, 2) == expected
    if not is_left:
        index_path(log, 2).unlink()
    log = crash(log, recovery_point=2)
    assert index_of(log, 2) == found_by(log) == expected
    assert log.last_stable_offset(log.log_end_offset) == 1


def test_entry_of_a_lost_marker_is_dropped(log: Log, directory: Path) -> None:
    begin(log)
    size = log.segments[0].size_bytes
    end(log, ABORT)
    os.truncate(segment_file(directory, 0, ".log"), size + 10)
    log = crash(log)
    assert log.log_end_offset == 1
    assert not index_path(log).exists()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:-3], id="cut short"),
        pytest.param(lambda data: data + data, id="twice the same marker"),
        pytest.param(lambda data: b"\0\1" + data[2:], id="of another version"),
        pytest.param(
            lambda _data: write_aborted([aborted(7, 5, 1, 2)]), id="ends before it begins"
        ),
    ],
)
def test_damaged_transaction_index_is_rebuilt_after_a_clean_shutdown(
    log: Log, directory: Path, damage: object
) -> None:
    begin(log)
    end(log, ABORT)
    log.upkeep.roll(NOW_MS)
    log.upkeep.close()
    path = index_path(log)
    assert callable(damage)
    path.write_bytes(damage(path.read_bytes()))
    log = open_log(directory)
    assert found_by(log) == index_of(log) == [aborted(7, 0, 1, 2)]


def test_transaction_index_of_a_closed_log_is_read_on_demand(log: Log, directory: Path) -> None:
    begin(log)
    end(log, ABORT)
    log.upkeep.roll(NOW_MS)
    log.upkeep.close()
    log = open_log(directory)
    assert found_by(log) == [aborted(7, 0, 1, 2)]
    log.upkeep.release_closed()
    index_path(log).unlink()
    with pytest.raises(CorruptLogError, match="0 bytes of 34"):
        found_by(log)


def test_an_entry_survives_a_lack_of_descriptors_after_a_start(
    log: Log, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker is in the log, so a reader of committed records must not get the others."""
    begin(log)
    end(log, ABORT)
    log.upkeep.close()
    log = open_log(directory)
    begin(log, sequence=1)
    with no_index_opens(monkeypatch, errno.EMFILE), pytest.raises(OutOfFilesError):
        follow(log, marker(7, 3, ABORT))
    assert log.log_end_offset == 4
    assert found_by(log) == [aborted(7, 0, 1, 2), aborted(7, 2, 3, 4)]


def test_a_log_whose_index_cannot_be_opened_takes_no_batch(
    log: Log, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(log)
    end(log, ABORT)
    log.upkeep.close()
    log = open_log(directory)
    with no_index_opens(monkeypatch, errno.EMFILE), pytest.raises(OutOfFilesError):
        begin(log, sequence=1)
    assert log.log_end_offset == 2
    begin(log, sequence=1)
    assert log.log_end_offset == 3


@contextmanager
def no_index_opens(monkeypatch: pytest.MonkeyPatch, number: int) -> Iterator[None]:
    """Let each opening of a transaction index fail with an error number."""
    opened, read = os.open, Path.read_bytes

    def refuse(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if str(path).endswith(TRANSACTION_INDEX_SUFFIX):
            raise OSError(number, os.strerror(number))
        return opened(path, flags, mode)

    def refuse_read(path: Path) -> bytes:
        if path.name.endswith(TRANSACTION_INDEX_SUFFIX):
            raise OSError(number, os.strerror(number))
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        patch.setattr(Path, "read_bytes", refuse_read)
        yield


def test_an_entry_follows_a_failed_write_of_which_the_error_is_still_held(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors that are collected of several logs live until the next garbage collection."""
    begin(log)
    with no_index_opens(monkeypatch, errno.EMFILE), pytest.raises(OutOfFilesError):
        end(log, ABORT)

    def full(_descriptor: int, _data: bytes, _position: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(LogDirFullError) as held:
            log.upkeep.flush()
    log.health.note_space()
    begin(log, sequence=1)
    end(log, ABORT)
    assert found_by(log) == [aborted(7, 0, 1, 2), aborted(7, 2, 3, 4)]
    assert held.value.__cause__ is not None


def test_entry_without_space_is_written_by_the_next_flush(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(log)
    with no_index_opens(monkeypatch, errno.ENOSPC):
        with pytest.raises(LogDirFullError):
            follow(log, marker(7, 1, ABORT))
        assert log.log_end_offset == 2
        assert log.last_stable_offset(Offset(2)) == 2
        assert found_by(log) == [aborted(7, 0, 1, 2)]
        with pytest.raises(LogDirFullError):
            log.upkeep.flush()
    assert log.recovery_point == 0
    log.upkeep.flush()
    assert (log.recovery_point, index_of(log)) == (2, [aborted(7, 0, 1, 2)])


def test_the_name_of_a_new_index_is_synced_again_after_a_failure(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.mkdir()
    index = TransactionIndexFile(directory, Offset(0))
    index.append([aborted(7, 0, 1, 2)])
    synced: list[Path] = []

    def no_descriptor(path: Path) -> None:
        raise OSError(errno.EMFILE, f"no descriptor for {path}")

    monkeypatch.setattr(transaction_index_file, "sync_directory", no_descriptor)
    with pytest.raises(OSError, match="no descriptor"):
        index.sync()
    monkeypatch.setattr(transaction_index_file, "sync_directory", synced.append)
    index.sync()
    index.sync()
    assert synced == [directory]


def test_transaction_index_is_deleted_with_its_segment(directory: Path) -> None:
    log = open_log(directory, CONFIG)
    begin(log)
    end(log, ABORT)
    log.upkeep.roll(NOW_MS)
    log.advance_log_start(Offset(2))
    assert not index_path(log).exists()
    log.upkeep.remove_deleted_files(NOW_MS)
    log.upkeep.remove_deleted_files(NOW_MS)
    assert not list(directory.glob("*.txnindex*"))


def test_open_transaction_limits_the_last_stable_offset(log: Log) -> None:
    begin(log, 7)
    begin(log, 8)
    end(log, COMMIT, 7)
    assert [log.last_stable_offset(Offset(mark)) for mark in (1, 2, 3)] == [0, 0, 1]
    end(log, ABORT, 8)
    # A marker counts once it is committed.
    assert [log.last_stable_offset(Offset(mark)) for mark in (3, 4)] == [1, 4]


def test_open_transaction_with_deleted_start_limits_the_last_stable_offset(log: Log) -> None:
    for sequence in range(3):
        begin(log, sequence=sequence)
    log.advance_log_start(Offset(2))
    assert log.last_stable_offset(Offset(3)) == 2
    end(log, ABORT)
    assert log.last_stable_offset(Offset(4)) == 4
    assert found_by(log, 2) == [aborted(7, 0, 3, 4)]


def test_marker_above_the_high_watermark_is_not_committed_after_a_start(
    log: Log,
    directory: Path,
) -> None:
    begin(log)
    begin(log, sequence=1)
    end(log, COMMIT)
    log.upkeep.close()
    opened = Log.open(
        directory,
        CONFIG,
        topic_partition=PARTITION,
        recovery_point=Offset(3),
        log_start_offset=Offset(0),
        high_watermark=Offset(2),
        was_clean=True,
        now_ms=NOW_MS,
    )
    assert [opened.last_stable_offset(Offset(mark)) for mark in (2, 3)] == [0, 3]


def test_truncation_keeps_the_remaining_ended_transactions(log: Log) -> None:
    begin(log)
    end(log, COMMIT)
    log.upkeep.roll(NOW_MS)
    begin(log, sequence=1)
    log.truncate_to(Offset(2))
    assert [log.last_stable_offset(Offset(mark)) for mark in (1, 2)] == [0, 2]


def test_a_copy_in_another_log_dir_has_its_own_index(directory: Path, tmp_path: Path) -> None:
    log, copy = open_log(directory), open_log(tmp_path / "copy")
    begin(log)
    end(log, ABORT)
    align(copy, log)
    append_chunk(copy, missing_chunk(copy, log), NOW_MS)
    copy.take_over_from(log)
    assert index_of(copy) == index_of(log) == [aborted(7, 0, 1, 2)]
    assert copy.last_stable_offset(Offset(1)) == 0


def test_read_finds_transactions_that_end_in_later_segments(log: Log) -> None:
    for number in range(3):
        begin(log, number)
        log.upkeep.roll(NOW_MS)
    for number in range(3):
        end(log, ABORT, number)
    region = log.read(Offset(0), EVERYTHING, end_offset=log.log_end_offset, min_one_batch=True)
    found = log.aborted_in(region, Offset(0), log.log_end_offset)
    assert found == [aborted(0, 0, 3, 1)], "the region ends with its segment, the search after it"


def test_entries_are_searched_by_the_offsets_of_their_markers() -> None:
    entries = [aborted(1, 0, 4, 2), aborted(2, 2, 6, 7), aborted(3, 8, 9, 10)]
    data = write_aborted(entries)
    found: list[AbortedTransaction] = []
    assert not find_aborted(data, 5, 20, found)
    assert found == entries[1:]
    found.clear()
    assert find_aborted(data, 0, 2, found)
    assert found == entries[:1]
    assert [size_below(data, offset) // 34 for offset in (0, 4, 5, 9, 10)] == [0, 0, 1, 2, 3]


def test_transaction_index_outside_its_segment_is_refused() -> None:
    data = write_aborted([aborted(1, 0, 4, 2)])
    check_index(data, Offset(4))
    with pytest.raises(ValueError, match=r"0\.\.4 after one that ended at 4, in the segment at 5"):
        check_index(data, Offset(5))

"""Recovery after every kind of stop: acknowledged writes survive, and damage is reported."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordination.errors import CorruptDataError, DataError, DirectoryLockedError
from coordination.protocol.messages import OPEN_ACL
from coordination.server.coordinator import open_state
from coordination.server.disk import data_dir, snapshotter, state_snapshot, wal, wal_writer
from coordination.server.disk.data_dir import DataDir, no_snapshot, segments_of, snapshots_of
from coordination.server.disk.state_recovery import Recovered, recover, truncate_at
from coordination.server.disk.wal_writer import WalWriter
from coordination.server.state.tree import State
from coordination.server.state.txns import (
    CloseTxn,
    CreateTxn,
    Entry,
    MultiTxn,
    SessionTxn,
    SetDataTxn,
)

STEP_BYTES = 4096


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (wal, wal_writer):
        monkeypatch.setattr(module, "ALLOCATION_STEP_BYTES", STEP_BYTES)


def test_a_start_on_a_full_disk_leaves_no_file_that_takes_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    directory = DataDir(tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match="No space left"):
        open_state(directory)
    directory.close()
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "store"}


class Store:
    """Data directory, with the operations to restart on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start()

    def start(self) -> Recovered:
        self.directory = DataDir(self.path)
        try:
            self.recovered, self.writer = open_state(self.directory)
        except BaseException:
            self.directory.close()
            raise
        self.zxid = self.recovered.state.zxid
        return self.recovered

    def append(self, count: int = 1, *, seal: bool = True) -> None:
        """Append one batch of `count` multis, each of which creates two nodes."""
        entries = []
        for _ in range(count):
            self.zxid += 1
            pair = tuple(
                CreateTxn(f"/{self.zxid}-{half}", b"x", OPEN_ACL, 0, 2 * self.zxid + n)
                for n, half in enumerate("ab")
            )
            entries.append(Entry(self.zxid, 5, 0, 0, MultiTxn(pair)))
        self.writer.append(entries)
        self.writer.sync()
        if seal:
            self.writer.seal()

    def crash(self) -> None:
        os.close(self.writer._file)
        self.directory.close()

    def stop(self) -> None:
        self.writer.close()
        self.directory.close()

    @property
    def segment(self) -> Path:
        return segments_of(self.path)[-1][1]


def names(recovered: Recovered) -> set[str]:
    return {path for path in recovered.state.tree.nodes if path.count("-") == 1}


def expected(last: int) -> set[str]:
    return {f"/{zxid}-{half}" for zxid in range(1, last + 1) for half in "ab"}


def test_synced_writes_survive_crashes_and_restarts(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    for restart in range(30):
        store.append()
        store.crash() if restart % 2 else store.stop()
        assert names(store.start()) == expected(restart + 1)
    store.stop()


def test_a_restart_without_changes_leaves_one_segment(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    store.append()
    for _ in range(5):
        store.crash()
        store.start()
    assert len(segments_of(tmp_path / "d")) == 2
    store.stop()


def test_every_torn_write_of_the_last_batch_is_cut_off(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    store.append()
    begin = store.writer._position
    store.append(seal=False)
    end = store.writer._position
    store.crash()
    whole = store.segment.read_bytes()
    name = store.segment.name
    for written in range(begin, end + 1):
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "d", copy)
        (copy / name).write_bytes(whole[:written].ljust(STEP_BYTES, b"\0"))
        again = Store(copy)
        assert names(again.recovered) == expected(2 if written == end else 1), written
        again.append()
        again.crash()
        assert names(again.start()) == expected(again.zxid)
        again.stop()
        shutil.rmtree(copy)


def test_every_flipped_byte_of_the_last_two_batches_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    store.append()
    begin = store.writer._position
    store.append()
    store.append()
    end = store.writer._position
    store.crash()
    path, whole = store.segment, store.segment.read_bytes()
    for position in range(begin, end):
        flipped = bytearray(whole)
        flipped[position] ^= 0xFF
        path.write_bytes(flipped)
        with pytest.raises(CorruptDataError) as caught:
            store.start()
        assert caught.value.file == str(path)
        assert begin <= caught.value.offset <= position
        assert "--truncate-at" in str(caught.value)
    path.write_bytes(whole)
    assert names(store.start()) == expected(3)
    store.stop()


def test_every_truncation_of_the_last_two_batches_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    store.append()
    begin = store.writer._position
    store.append(2)
    store.append()
    end = store.writer._position
    store.crash()
    path, whole = store.segment, store.segment.read_bytes()
    for size in range(begin, end + 1):
        path.write_bytes(whole[:size])
        with pytest.raises(CorruptDataError, match="was cut"):
            store.start()


@pytest.mark.parametrize("has_seal", [False, True])
def test_a_death_while_the_file_grows_is_no_damage(tmp_path: Path, *, has_seal: bool) -> None:
    store = Store(tmp_path / "d")
    store.append(seal=has_seal)
    store.crash()
    # A file system may grow a file in several steps, and a kill ends that after any of them.
    os.truncate(store.segment, wal.ALLOCATION_STEP_BYTES + 512)
    assert names(store.start()) == expected(1)
    store.stop()


def test_damage_in_a_closed_segment_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    store.append(3)
    store.writer.roll()
    store.append()
    store.crash()
    path = segments_of(tmp_path / "d")[0][1]
    whole = path.read_bytes()
    for broken in (whole[:-1], whole[:-40], whole[:60] + b"!" + whole[61:]):
        path.write_bytes(broken)
        with pytest.raises(CorruptDataError):
            store.start()


def test_a_missing_segment_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    for _ in range(3):
        store.append()
        store.writer.roll()
    store.crash()
    segments_of(tmp_path / "d")[1][1].unlink()
    with pytest.raises(CorruptDataError, match="does not continue"):
        store.start()
    segments_of(tmp_path / "d")[0][1].unlink()
    with pytest.raises(CorruptDataError, match="are missing"):
        store.start()


def test_a_snapshot_and_the_remaining_log_give_the_same_state(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    for _ in range(4):
        store.append()
        store.writer.roll()
        snapshotter.take_snapshot(tmp_path / "d")
    store.append()
    store.crash()
    found = store.start()
    assert names(found) == expected(5)
    assert found.replayed_count == 1
    store.stop()
    for path in data_dir.spent_files(tmp_path / "d"):
        path.unlink()
    assert len(snapshots_of(tmp_path / "d")) == 2
    assert names(store.start()) == expected(5)
    store.stop()


def test_a_damaged_snapshot_falls_back_to_the_one_before(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    for _ in range(3):
        store.append()
        store.writer.roll()
        snapshotter.take_snapshot(tmp_path / "d")
    store.crash()
    for path in data_dir.spent_files(tmp_path / "d"):
        path.unlink()
    newest = snapshots_of(tmp_path / "d")[0][1]
    whole = newest.read_bytes()
    newest.write_bytes(whole[:30] + b"?" + whole[31:])
    assert names(store.start()) == expected(3)
    store.stop()


def test_the_id_of_the_last_session_survives_its_end_and_a_snapshot(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    store.writer.append([Entry(1, 5, 9, 0, SessionTxn(500)), Entry(2, 5, 8, 0, SessionTxn(500))])
    store.writer.append([Entry(3, 5, 9, 0, CloseTxn(()))])
    store.stop()
    assert store.start().state.last_session_id == 9
    store.stop()
    assert snapshotter.take_snapshot(store.path) == 3
    for _, segment in segments_of(store.path):
        segment.unlink()
    assert store.start().state.last_session_id == 9
    store.stop()


def test_a_snapshot_without_the_id_of_the_last_session_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions wrote none."""
    state = State()
    state.zxid, state.timeouts_ms[7] = 1, 500
    chunks = state_snapshot._chunks
    monkeypatch.setattr(state_snapshot, "_chunks", lambda *given: [b"".join(chunks(*given))[:-1]])
    state_snapshot.write(tmp_path / "s.msgpack", state, b"id", 9)
    assert state_snapshot.load(tmp_path / "s.msgpack").state.last_session_id == 7


def test_a_snapshot_ignores_the_open_segment(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    store.append()
    assert snapshotter.take_snapshot(tmp_path / "d") is None
    store.writer.roll()
    store.append()
    assert snapshotter.take_snapshot(tmp_path / "d") == 1
    assert snapshotter.take_snapshot(tmp_path / "d") is None
    store.stop()
    assert snapshotter.take_snapshot(tmp_path / "d") == 2


def test_a_snapshot_keeps_sessions_acls_and_every_counter(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    state = store.recovered.state
    state.apply(Entry(1, 1, 77, 0, SessionTxn(4000)))
    state.apply(Entry(2, 2, 77, 1, CreateTxn("/e", None, OPEN_ACL, 77, 1)))
    state.apply(Entry(3, 3, 77, 2, SetDataTxn("/e", b"new", 1)))
    state_snapshot.write(tmp_path / "s.msgpack", state, b"id", 9)
    loaded = state_snapshot.load(tmp_path / "s.msgpack")
    assert (loaded.store_id, loaded.wal_crc, loaded.state.zxid) == (b"id", 9, 3)
    assert loaded.state.timeouts_ms == {77: 4000}
    assert loaded.state.tree.ephemerals == {77: {"/e": None}}
    assert {p: n.stat() for p, n in loaded.state.tree.nodes.items()} == {
        p: n.stat() for p, n in state.tree.nodes.items()
    }
    store.stop()


def damage_and_repair(store: Store, segment: Path, place: int) -> tuple[bytes, list[Path]]:
    """Flip a bit, and truncate where the start says; return the damaged data and its copies."""
    data = bytearray(segment.read_bytes())
    data[place] ^= 1
    segment.write_bytes(data)
    with pytest.raises(CorruptDataError) as caught:
        store.start()
    directory = DataDir(store.path)
    aside = truncate_at(directory, f"{segment.name}:{caught.value.offset}")
    directory.close()
    return bytes(data), aside


def test_a_repair_keeps_the_discarded_data_aside(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    for _ in range(3):
        store.append()
    store.crash()
    whole, aside = damage_and_repair(store, store.segment, wal.HEADER_BYTES + 100)
    kept = store.start()
    assert names(kept) < expected(3)
    assert [each.read_bytes() for each in aside] == [whole]
    store.stop()


def test_a_second_repair_keeps_the_data_that_the_first_one_discarded(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    store.append()
    store.writer.roll()
    store.append()
    store.crash()
    (_, first), (_, later) = segments_of(store.path)
    history = []
    directory = DataDir(store.path)
    for content in (b"1", b"2", b"3"):
        # In place of a segment that a start after the last repair has written.
        later.write_bytes(content)
        history.append([first.read_bytes(), content])
        for kept, aside in zip(
            history[-1], truncate_at(directory, f"{first.name}:40"), strict=True
        ):
            assert aside.read_bytes() == kept
        assert segments_of(store.path) == [(1, first)]
    directory.close()
    for number, suffix in enumerate(("", ".1", ".2")):
        kept_files = [each.with_name(f"{each.name}.discarded{suffix}") for each in (first, later)]
        assert [each.read_bytes() for each in kept_files] == history[number]


def test_a_log_is_not_truncated_while_the_snapshot_of_a_dead_coordinator_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the next start would find the discarded transactions in the snapshot."""
    store = Store(tmp_path / "d")
    store.append()
    store.writer.roll()
    store.crash()
    place = f"{segments_of(store.path)[0][1].name}:{wal.HEADER_BYTES}"
    directory, real = DataDir(store.path), state_snapshot.write

    def write(path: Path, state: State, store_id: bytes, wal_crc: int) -> None:
        with pytest.raises(DirectoryLockedError, match="snapshot"):
            truncate_at(directory, place)
        real(path, state, store_id, wal_crc)

    with monkeypatch.context() as patch:
        patch.setattr(state_snapshot, "write", write)
        assert snapshotter.take_snapshot(store.path) == 1
    with no_snapshot(store.path), pytest.raises(DirectoryLockedError, match="truncated"):
        snapshotter.take_snapshot(store.path)
    assert truncate_at(directory, place)
    directory.close()


def test_a_repair_is_on_disk_on_return(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "d")
    store.append()
    store.crash()
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    directory = DataDir(store.path)
    monkeypatch.setattr(os, "fsync", fsync)
    [aside] = truncate_at(directory, f"{store.segment.name}:{wal.HEADER_BYTES}")
    directory.close()
    assert synced == [aside.name, store.segment.name, store.path.name]


@pytest.mark.parametrize("place", ["nonsense", "wal-0000000000000009.log:40", "wal:x"])
def test_a_repair_at_an_invalid_position_is_refused(tmp_path: Path, place: str) -> None:
    directory = DataDir(tmp_path / "d")
    with pytest.raises(DataError, match="FILE:OFFSET"):
        truncate_at(directory, place)
    directory.close()


def test_a_directory_is_locked_by_one_coordinator(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    with pytest.raises(DirectoryLockedError, match="another coordinator"):
        DataDir(tmp_path / "d")
    store.stop()
    assert (tmp_path / "d" / "store").stat().st_mode & 0o777 == 0o600


def test_only_the_owner_may_read_a_snapshot(tmp_path: Path) -> None:
    path = tmp_path / "s.msgpack"
    state_snapshot.write(path, State(), b"id", 9)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lost_identity_is_not_replaced_if_data_exists(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    store.append()
    store.stop()
    (tmp_path / "d" / "store").unlink()
    with pytest.raises(DataError, match="backup"):
        store.start()


def test_a_segment_of_another_store_is_refused(tmp_path: Path) -> None:
    ours, theirs = Store(tmp_path / "a"), Store(tmp_path / "b")
    for store in (ours, theirs):
        store.append()
        store.crash()
    shutil.copy(theirs.segment, ours.segment)
    with pytest.raises(DataError, match="another store"):
        ours.start()


def test_recovery_does_not_change_files(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    store.append(seal=False)
    store.crash()
    before = {path.name: path.read_bytes() for path in (tmp_path / "d").iterdir()}
    directory = DataDir(tmp_path / "d")
    recover(directory.path, directory.identity)
    directory.close()
    assert {path.name: path.read_bytes() for path in (tmp_path / "d").iterdir()} == before


def test_a_segment_grows_in_steps_and_rolls(tmp_path: Path) -> None:
    store = Store(tmp_path / "d")
    big = Entry(1, 1, 0, 0, CreateTxn("/big", bytes(10_000), OPEN_ACL, 0, 1))
    store.writer.append([big])
    store.writer.sync()
    assert store.segment.stat().st_size % STEP_BYTES == 0
    store.crash()
    assert store.start().state.tree.nodes["/big"].data == bytes(10_000)
    assert isinstance(store.writer, WalWriter)
    store.stop()


def test_no_batch_is_written_before_the_growth_of_its_segment_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "d")
    store.append()
    calls = []
    for name in ("posix_fallocate", "fsync", "pwrite"):
        real = getattr(os, name)

        def call(*given: Any, name: str = name, real: Callable[..., Any] = real) -> Any:
            calls.append(name)
            return real(*given)

        monkeypatch.setattr(os, name, call)
    store.append(STEP_BYTES)
    assert calls[:3] == ["posix_fallocate", "fsync", "pwrite"]
    store.stop()


def test_a_full_disk_that_grows_the_segment_in_part_does_not_prevent_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "d")
    store.append()

    def grow_in_part(file: int, offset: int, size: int) -> None:
        # As ext4 does.
        os.ftruncate(file, offset + size // 2)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", grow_in_part)
        with pytest.raises(OSError, match="No space left"):
            store.append(STEP_BYTES)
    store.crash()
    assert names(store.start()) == expected(1)
    store.stop()


def test_a_log_that_was_truncated_behind_its_snapshot_goes_on_from_the_snapshot(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "d")
    for _ in range(4):
        store.append()
    path = store.segment
    store.stop()
    assert snapshotter.take_snapshot(tmp_path / "d") == 4
    damage_and_repair(store, path, wal.HEADER_BYTES + wal.BATCH_HEADER_BYTES + 1)
    for last in range(5, 8):
        store.start()
        store.append()
        store.crash()
        assert names(store.start()) == expected(last)
        store.stop()


def test_a_snapshot_that_does_not_fit_on_the_disk_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "d")
    store.append()
    store.stop()

    def fail(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(state_snapshot.os, "fsync", fail)  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="No space left"):
        snapshotter.take_snapshot(tmp_path / "d")
    assert not list((tmp_path / "d").glob("*.tmp"))

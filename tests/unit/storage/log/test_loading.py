"""The treatment of existing files at startup."""

import itertools
import os
import shutil
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import LeaderEpoch, Offset
from storage.config.log_config import LogConfig
from storage.disk.layout import COPIED_TO, LEADER_EPOCH_CHECKPOINT
from storage.errors import CorruptLogError
from storage.log import epoch_checkpoint
from storage.log.log import Log
from tests.unit.storage.faults import dies_within
from tests.unit.storage.logs import (
    NOW_MS,
    SMALL,
    append,
    check_files,
    fill,
    offsets_in,
    open_files,
    open_log,
    read,
    read_all,
    replicated,
    split,
)

Damage = Callable[[Path], object]


def events(captured: Sequence[Mapping[str, object]], name: str) -> list[Mapping[str, object]]:
    return [event for event in captured if event["event"] == name]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


def written(directory: Path, batch_count: int = 60) -> Log:
    """Return a log of three segments with increasing timestamps."""
    log = open_log(directory)
    for number in range(batch_count):
        append(log, [NOW_MS + number, NOW_MS + number - 3], epoch=number // 25)
    return log


def closed(directory: Path) -> dict[str, bytes]:
    """Return all files of a cleanly closed log of three segments."""
    written(directory).upkeep.close()
    return contents(directory)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def epoch_entries(log: Log) -> list[tuple[int, int]]:
    return [(int(entry.epoch), int(entry.start_offset)) for entry in log.leader_epochs.entries]


def test_clean_shutdown_leaves_indexes_that_match_the_log(directory: Path) -> None:
    closed(directory)
    check_files(directory)


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_log_is_the_same_after_a_restart(directory: Path, was_clean: bool) -> None:
    log = written(directory)
    stored, epochs = read_all(log), epoch_entries(log)
    log.upkeep.close()
    log = open_log(directory, was_clean=was_clean)
    assert (log.log_start_offset, log.log_end_offset) == (0, 120)
    assert read_all(log) == stored
    assert epoch_entries(log) == epochs
    assert log.recovery_point == (120 if was_clean else 0)


def test_appends_after_a_restart_match_a_log_without_one(tmp_path: Path) -> None:
    restarted, steady = tmp_path / "restarted", tmp_path / "steady"
    log = open_log(restarted)
    for number in range(60):
        append(log, [NOW_MS + number * (-1) ** number], epoch=number // 25)
        log.upkeep.close()
        log = open_log(restarted)
    log.upkeep.close()
    log = open_log(steady)
    for number in range(60):
        append(log, [NOW_MS + number * (-1) ** number], epoch=number // 25)
    log.upkeep.close()
    assert contents(restarted) == contents(steady)
    check_files(restarted)


def test_a_clean_start_reads_only_the_end_of_the_last_segment(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(directory, LogConfig(segment_bytes=400_000))
    fill(log, 30, value_bytes=40_000)
    log.upkeep.close()
    read_bytes = 0
    real = os.pread

    def counting(descriptor: int, size: int, position: int) -> bytes:
        nonlocal read_bytes
        data = real(descriptor, size, position)
        read_bytes += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)
    log = open_log(directory, LogConfig(segment_bytes=400_000))
    assert log.log_end_offset == 30
    assert 0 < read_bytes < 20_000
    # The first segment's first batch, and its last one, which opening the segment checks.
    log.read(Offset(0), 10, end_offset=Offset(30), min_one_batch=True)
    assert read_bytes < 40_000


def test_a_clean_start_holds_no_file_open(directory: Path) -> None:
    closed(directory)
    before = open_files()
    log = open_log(directory)
    assert open_files() == before
    append(log)
    assert open_files() == before + 3


DAMAGES: list[tuple[str, Damage]] = [
    ("deleted", lambda path: path.unlink()),
    ("empty", lambda path: path.write_bytes(b"")),
    ("cut within an entry", lambda path: path.write_bytes(path.read_bytes()[:-3])),
    ("cut in half", lambda path: os.truncate(path, path.stat().st_size // 24 * 12)),
    ("last entry changed", lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x01")),
    ("zeros", lambda path: path.write_bytes(bytes(path.stat().st_size))),
    ("garbage", lambda path: path.write_bytes(b"\xff\x80\x07" * (path.stat().st_size // 3))),
    ("zeros behind", lambda path: path.write_bytes(path.read_bytes() + bytes(240))),
]


@pytest.mark.parametrize("was_clean", [True, False], ids=["clean", "after a crash"])
@pytest.mark.parametrize("damage", [pytest.param(each, id=name) for name, each in DAMAGES])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_damaged_indexes_are_rebuilt_to_the_same_bytes(
    directory: Path, suffix: str, damage: Damage, was_clean: bool
) -> None:
    expected = closed(directory)
    for path in directory.glob(f"*{suffix}"):
        damage(path)
    log = open_log(directory, was_clean=was_clean, recovery_point=120)
    assert offsets_in(read_all(log)) == list(range(120))
    for number in range(60):
        found = log.offset_for_timestamp(NOW_MS + number, Offset(120))
        assert found is not None
        assert (found.timestamp_ms, found.offset) == (NOW_MS + number, 2 * number)
    log.upkeep.close()
    assert contents(directory) == expected


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_flipped_bit_in_an_index_changes_no_result(tmp_path: Path, suffix: str) -> None:
    expected = closed(tmp_path / "origin")
    name = f"{0:020d}{suffix}"
    for position in range(len(expected[name])):
        directory = tmp_path / f"{position}-0"
        shutil.copytree(tmp_path / "origin", directory)
        data = bytearray(expected[name])
        data[position] ^= 1 << position % 8
        (directory / name).write_bytes(data)
        log = open_log(directory)
        for offset in range(0, 120, 3):
            assert offsets_in(read(log, offset))[0] == offset // 2 * 2
        for number in range(0, 60, 3):
            found = log.offset_for_timestamp(NOW_MS + number, Offset(120))
            assert found is not None
            assert found.offset == 2 * number
        # After a crash the sample, which covers all of such a small index, detects it where the
        # indexes may not be on disk.
        flushed = log.segments[1].base_offset
        log = open_log(directory, was_clean=False, recovery_point=flushed)
        log.upkeep.close()
        assert contents(directory) == expected
        shutil.rmtree(directory)


def test_a_lowered_limit_of_the_index_size_does_not_thin_out_old_indexes(
    directory: Path,
) -> None:
    expected = closed(directory)
    for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
        path.unlink()
    log = open_log(directory, LogConfig(index_interval_bytes=200, segment_index_bytes=16))
    assert offsets_in(read_all(log)) == list(range(120))
    log.upkeep.close()
    assert contents(directory) == expected


def test_a_damaged_index_is_reported(directory: Path) -> None:
    closed(directory)
    path = directory / f"{0:020d}.index"
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, 4, 1)
    path.write_bytes(data)
    log = open_log(directory)
    with capture_logs() as captured:
        read(log, struct.unpack_from(">i", data)[0])
    assert events(captured, "index.damaged")
    assert events(captured, "index.rebuilt")


def test_index_of_a_kafka_follower_is_used(directory: Path) -> None:
    """Kafka up to 3.9 writes one entry per fetch: last offset of the last batch, first position."""
    log = open_log(directory, LogConfig(index_interval_bytes=0))
    fill(log, 20)
    log.upkeep.roll(NOW_MS)
    log.upkeep.close()
    batches = split((directory / f"{0:020d}.log").read_bytes())
    entries = [(9, batches[5].position), (19, batches[10].position)]
    data = b"".join(struct.pack(">ii", *entry) for entry in entries)
    (directory / f"{0:020d}.index").write_bytes(data)
    log = open_log(directory)
    for offset in range(20):
        assert offsets_in(read(log, offset))[0] == offset


def test_time_index_of_an_old_kafka_leader_is_used(directory: Path) -> None:
    """It ends with the first record of the largest timestamp, not with the last of its batch."""
    log = open_log(directory, LogConfig())
    for number in range(20):
        append(log, [NOW_MS + number] * 2)
    log.upkeep.roll(NOW_MS)
    log.upkeep.close()
    path = directory / f"{0:020d}.timeindex"
    assert struct.unpack(">qi", path.read_bytes()) == (NOW_MS + 19, 39)
    path.write_bytes(struct.pack(">qi", NOW_MS + 19, 38))
    log = open_log(directory, LogConfig())
    with capture_logs() as captured:
        found = log.offset_for_timestamp(NOW_MS + 19, Offset(40))
        newest = log.max_timestamp()
    assert found == newest == (NOW_MS + 19, 38, 0)
    assert not events(captured, "index.rebuilt")


def test_torn_tail_is_cut_even_after_a_clean_shutdown(directory: Path) -> None:
    expected = closed(directory)
    last = max(directory.glob("*.log"))
    with last.open("ab") as file:
        file.write(b"torn")
    with capture_logs() as captured:
        log = open_log(directory, recovery_point=120)
    assert events(captured, "log.damaged")
    assert events(captured, "log.cut")[0]["cut_bytes"] == 4
    assert log.log_end_offset == 120
    log.upkeep.close()
    assert contents(directory) == expected


def test_segments_behind_a_bad_one_are_dropped(directory: Path) -> None:
    written(directory).upkeep.close()
    first = min(directory.glob("*.log"))
    data = first.read_bytes()
    first.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    log = open_log(directory, was_clean=False)
    assert log.log_end_offset == split(data)[-1].base_offset
    assert len(log.segments) == 1
    assert len(list(directory.glob("*.deleted"))) == 9
    append(log)
    assert offsets_in(read_all(log)) == list(range(log.log_end_offset))
    log.upkeep.remove_deleted_files(NOW_MS)
    log.upkeep.remove_deleted_files(NOW_MS + 60_000)
    assert not list(directory.glob("*.deleted"))


def lose_end(log: Log, slot: int, kept_count: int) -> int:
    """Cut all but the first batches of a closed segment; return the offset of the first one lost.

    A loss of power may do that, and keep the next segment.
    """
    base_offset = log.segments[slot].base_offset
    log.upkeep.close()
    path = log.directory / f"{base_offset:020d}.log"
    lost = split(path.read_bytes())[kept_count]
    os.truncate(path, lost.position)
    return lost.base_offset


@pytest.mark.parametrize("kept_count", [0, 5])
def test_segments_behind_a_short_one_are_dropped(directory: Path, kept_count: int) -> None:
    lost = lose_end(written(directory), 1, kept_count)
    log = open_log(directory, was_clean=False, is_gapless=True)
    assert log.log_end_offset == lost
    assert len(log.segments) == 2


def test_a_gap_below_the_recovery_point_is_kept(directory: Path) -> None:
    """It was there when the segments were synced."""
    log = written(directory)
    synced = log.segments[2].base_offset
    lose_end(log, 1, 0)
    log = open_log(directory, was_clean=False, is_gapless=True, recovery_point=synced)
    assert log.log_end_offset == 120
    assert log.gap_offset is None


def test_a_log_that_may_have_gaps_keeps_them_until_it_is_truncated(directory: Path) -> None:
    lost = lose_end(written(directory), 1, 5)
    log = open_log(directory, was_clean=False)
    assert (log.log_end_offset, log.gap_offset) == (120, lost)
    log.truncate_to(Offset(lost + 20))
    assert log.gap_offset == lost
    log.truncate_to(Offset(lost))
    assert [log.log_end_offset, log.gap_offset] == [lost, None]
    log.upkeep.close()


def test_log_that_ends_below_its_start_has_no_gap(directory: Path) -> None:
    lose_end(written(directory), 1, 5)
    log = open_log(directory, was_clean=False, log_start_offset=200)
    assert log.gap_offset is None
    log.upkeep.close()


def test_an_emptied_log_has_no_gap(directory: Path) -> None:
    lose_end(written(directory), 1, 5)
    log = open_log(directory, was_clean=False)
    log.truncate_fully_and_start_at(Offset(7))
    assert log.gap_offset is None
    log.upkeep.close()


def test_recovery_begins_at_the_recovery_point(directory: Path) -> None:
    log = written(directory)
    bases = [segment.base_offset for segment in log.segments]
    log.upkeep.close()
    first = directory / f"{bases[0]:020d}.log"
    data = bytearray(first.read_bytes())
    data[100] ^= 1
    first.write_bytes(data)
    # Nothing is checked below the recovery point, so nothing is cut there.
    log = open_log(directory, was_clean=False, recovery_point=bases[1] + 1)
    assert log.log_end_offset == 120
    assert log.recovery_point == bases[1] + 1
    log = open_log(directory, was_clean=False, recovery_point=bases[0] + 1)
    assert log.log_end_offset == 0


def test_damage_below_the_recovery_point_costs_no_records_behind_it(directory: Path) -> None:
    log = written(directory)
    log.upkeep.flush_closed()
    flushed, active = log.segments[-2:]
    assert log.recovery_point == active.base_offset
    log.upkeep.close()
    before = contents(directory)
    path = directory / f"{flushed.base_offset:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    log = open_log(directory, was_clean=False, recovery_point=active.base_offset)
    assert log.log_end_offset == 120
    assert path.read_bytes() == data, "what is intact there is still served"
    expected = before[f"{active.base_offset:020d}.log"]
    assert read(log, active.base_offset) == expected


def test_a_start_after_a_crash_opens_no_segment_long_below_the_recovery_point(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written(directory, batch_count=200)
    log.upkeep.flush_closed()
    recovery_point = log.recovery_point
    names = [f"{each.base_offset:020d}" for each in log.segments]
    log.upkeep.close()
    opened: set[str] = set()
    real = os.open

    def noting(path: str | Path, flags: int, *more: int, **named: int) -> int:
        opened.add(Path(path).stem)
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", noting)
    open_log(directory, was_clean=False, recovery_point=recovery_point)
    assert opened.isdisjoint(names[:-2])
    assert opened >= {names[-1]}


def test_the_indexes_of_the_segment_that_ends_at_the_recovery_point_are_checked(
    directory: Path,
) -> None:
    """They were closed after the flush, so they need not be on disk."""
    log = open_log(directory)
    for number in range(15):
        append(log, [NOW_MS + number])
    log.upkeep.flush()
    log.upkeep.roll(NOW_MS)
    recovery_point = log.recovery_point
    log.upkeep.close()
    expected = contents(directory)
    for suffix in (".index", ".timeindex"):
        path = directory / f"{0:020d}{suffix}"
        path.write_bytes(bytes(path.stat().st_size))
    open_log(directory, was_clean=False, recovery_point=recovery_point).upkeep.close()
    assert contents(directory) == expected


def test_offsets_that_reach_into_the_next_segment_are_cut(directory: Path) -> None:
    """The checksum does not cover the base offset, but the order of offsets reveals the damage."""
    log = written(directory)
    bases = [segment.base_offset for segment in log.segments]
    log.upkeep.close()
    path = directory / f"{bases[0]:020d}.log"
    data = bytearray(path.read_bytes())
    last = split(bytes(data))[-1]
    struct.pack_into(">q", data, last.position, last.base_offset + 64)
    path.write_bytes(data)
    log = open_log(directory, was_clean=False)
    assert log.log_end_offset == last.base_offset
    assert len(log.segments) == 1


def test_offsets_too_far_from_their_segment_are_cut(directory: Path) -> None:
    log = open_log(directory)
    fill(log, 3)
    log.upkeep.close()
    path = directory / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    struct.pack_into(">q", data, split(bytes(data))[2].position, 2**31)
    path.write_bytes(data)
    assert open_log(directory, was_clean=False).log_end_offset == 2


@pytest.mark.parametrize("content", [None, "", "garbage", "0\n7\n0 0\n", "0\n1\n-1 3\n"])
def test_lost_epochs_are_rebuilt_from_the_batches(directory: Path, content: str | None) -> None:
    log = written(directory)
    epochs = epoch_entries(log)
    log.upkeep.close()
    path = directory / "leader-epoch-checkpoint"
    path.unlink()
    if content is not None:
        path.write_text(content)
    assert epochs[0] == (0, 0)
    for was_clean in (True, False):
        log = open_log(directory, was_clean=was_clean)
        assert epoch_entries(log) == epochs
    log.upkeep.close()
    assert path.read_text() == "0\n3\n0 0\n1 50\n2 100\n"


def test_torn_epochs_are_rebuilt_from_all_batches_not_only_the_unflushed_ones(
    directory: Path,
) -> None:
    log = written(directory)
    epochs = epoch_entries(log)
    log.upkeep.close()
    path = directory / "leader-epoch-checkpoint"
    path.write_bytes(path.read_bytes() + b"\0\0\0")
    log = open_log(directory, was_clean=False, recovery_point=120)
    assert epoch_entries(log) == epochs


@pytest.mark.parametrize("damaged_batch", [0, 4])
def test_lost_epochs_are_rebuilt_from_the_readable_batches(
    directory: Path, damaged_batch: int
) -> None:
    written(directory).upkeep.close()
    (directory / "leader-epoch-checkpoint").unlink()
    first = min(directory.glob("*.log"))
    data = bytearray(first.read_bytes())
    data[split(bytes(data))[damaged_batch].position + 16] = 9
    first.write_bytes(data)
    with capture_logs() as captured:
        log = open_log(directory)
    assert events(captured, "log.damaged")
    expected = [(0, 0), (1, 50), (2, 100)]
    assert epoch_entries(log) == ([(0, 32)] if damaged_batch == 0 else expected[:1]) + expected[1:]


def test_a_log_without_any_epoch_has_no_history(directory: Path) -> None:
    log = open_log(directory)
    log.append_as_follower(memoryview(replicated(0, 3, epoch=-1)), NOW_MS)
    log.upkeep.close()
    assert epoch_entries(open_log(directory)) == []


def test_epochs_beyond_the_recovered_end_are_dropped(directory: Path) -> None:
    log = written(directory)
    log.leader_epochs.assign(LeaderEpoch(9), Offset(120))
    log.upkeep.close()
    last = max(directory.glob("*.log"))
    os.truncate(last, 0)
    log = open_log(directory, was_clean=False)
    assert epoch_entries(log) == [(0, 0), (1, 50)]


def test_epoch_dropped_by_a_start_does_not_return_after_a_crash(
    directory: Path,
) -> None:
    log = open_log(directory)
    log.append_as_follower(memoryview(replicated(0, 10, epoch=6)), NOW_MS)
    # This leadership has written nothing.
    log.leader_epochs.assign(LeaderEpoch(7), log.log_end_offset)
    log.upkeep.close()
    log = open_log(directory)
    # The next leader has records of the older leadership that this replica lacked.
    log.append_as_follower(memoryview(replicated(10, 5, epoch=6)), NOW_MS)
    log.append_as_follower(memoryview(replicated(15, 5, epoch=8)), NOW_MS)
    log = open_log(directory, was_clean=False, recovery_point=10)
    assert epoch_entries(log) == [(6, 0), (8, 15)]


def test_epoch_dropped_by_a_restarted_log_does_not_return_after_a_crash(
    directory: Path,
) -> None:
    log = open_log(directory)
    log.truncate_fully_and_start_at(Offset(12))
    log.leader_epochs.assign(LeaderEpoch(7), Offset(12))
    log.upkeep.flush()
    # The batch begins below the log start offset; its remaining records count.
    log.append_as_follower(memoryview(replicated(10, 5, epoch=6)), NOW_MS)
    log = open_log(directory, was_clean=False)
    assert epoch_entries(log) == [(6, 10)]


def test_epochs_follow_the_log_start(directory: Path) -> None:
    closed(directory)
    log = open_log(directory, log_start_offset=60)
    assert log.log_start_offset == 60
    assert epoch_entries(log) == [(1, 60), (2, 100)]


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("start", [60, 110, 120])
def test_epochs_reach_back_to_an_older_log_start(
    directory: Path, start: int, was_clean: bool
) -> None:
    log = written(directory)
    epochs = epoch_entries(log)
    files = contents(directory)
    log.advance_log_start(Offset(start))
    log.upkeep.close()
    # The death of a process loses the log start offset, and a power loss also the deletions.
    for name in files.keys() - {"leader-epoch-checkpoint"}:
        (directory / name).write_bytes(files[name])
    log = open_log(directory, was_clean=was_clean)
    assert (log.log_start_offset, epoch_entries(log)) == (0, epochs)
    assert log.end_offset_for(0) == (0, 50)
    assert epoch_checkpoint.read_epochs(directory / LEADER_EPOCH_CHECKPOINT).entries == (
        log.leader_epochs.entries
    )


def test_log_that_ends_below_its_start_is_restarted(directory: Path) -> None:
    closed(directory)
    log = open_log(directory, log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert epoch_entries(log) == []
    append(log)
    assert offsets_in(read_all(log)) == [500]


def test_restarted_log_ignores_old_producer_snapshots(directory: Path) -> None:
    log = open_log(directory)
    append(log, [NOW_MS] * 9)
    log.truncate_to(Offset(4))
    log.upkeep.close()
    # The snapshot of a clean shutdown at the log end has the name of the new segment.
    (directory / "00000000000000000004.snapshot").write_bytes(b"useless")
    log = open_log(directory, log_start_offset=4)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    assert not list(directory.glob("*.snapshot"))


def test_a_damaged_segment_without_index_is_served_up_to_the_damage(directory: Path) -> None:
    closed(directory)
    first = min(directory.glob("*.log"))
    data = bytearray(first.read_bytes())
    batches = split(bytes(data))
    data[batches[4].position + 16] = 9
    first.write_bytes(data)
    first.with_suffix(".index").unlink()
    with capture_logs() as captured:
        log = open_log(directory)
        assert offsets_in(read(log, 0, max_bytes=batches[4].position)) == list(range(8))
    # Once by the rebuild of the indexes, and once by the search for producers.
    assert {event["path"] for event in events(captured, "log.damaged")} == {str(first)}
    with pytest.raises(CorruptLogError):
        read(log, 8)
    assert offsets_in(read(log, 119)) == [118, 119]
    assert log.log_end_offset == 120


@pytest.mark.parametrize("was_clean", [True, False])
def test_batches_behind_damage_in_a_closed_segment_are_served(
    directory: Path, was_clean: bool
) -> None:
    closed(directory)
    first = min(directory.glob("*.log"))
    data = bytearray(first.read_bytes())
    batches = split(bytes(data))
    data[batches[4].position + 16] = 9
    first.write_bytes(data)
    log = open_log(directory, was_clean=was_clean, recovery_point=120)
    for offset in (8, 9):
        with pytest.raises(CorruptLogError):
            read(log, offset)
    assert offsets_in(read(log, 0, max_bytes=batches[4].position)) == list(range(8))
    last = batches[-1]
    assert offsets_in(read(log, last.base_offset)) == [last.base_offset, last.last_offset]


def test_start_cleans_up_leftovers_of_a_crash(directory: Path) -> None:
    expected = closed(directory)
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    (directory / f"{bases[0]:020d}.log.deleted").write_bytes(b"old")
    (directory / f"{bases[1]:020d}.log.cleaned").write_bytes(b"half")
    (directory / f"{bases[1]:020d}.index.cleaned").write_bytes(b"half")
    (directory / f"{bases[2]:020d}.log.swap").write_bytes(b"of an unfinished split")
    (directory / f"{bases[1] + 1:020d}.index").write_bytes(b"without a log")
    with capture_logs() as captured:
        open_log(directory).upkeep.close()
    assert len(events(captured, "leftover.removed")) == 5
    assert contents(directory) == expected


def test_unknown_files_are_kept(directory: Path) -> None:
    closed(directory)
    names = [f"{0:020d}.checkpoint", f"{0:020d}.other.deleted", "notes.txt", "00.log"]
    for name in names:
        (directory / name).write_bytes(b"theirs")
    open_log(directory).upkeep.close()
    assert all((directory / name).read_bytes() == b"theirs" for name in names)


def test_a_directory_or_pipe_named_like_a_segment_file_is_ignored(directory: Path) -> None:
    expected = closed(directory)
    names = ["00000000000000009000.log", "00000000000000009000.index.deleted"]
    for name in names:
        (directory / name).mkdir()
    os.mkfifo(directory / "00000000000000009001.log")
    open_log(directory).upkeep.close()
    for name in names:
        (directory / name).rmdir()
    (directory / "00000000000000009001.log").unlink()
    assert contents(directory) == expected


def test_start_finishes_a_complete_swap(directory: Path) -> None:
    """The cleaner had merged the first two segments and crashed before the last renames."""
    log = written(directory)
    bases = [segment.base_offset for segment in log.segments]
    stored = read_all(log)
    log.upkeep.close()
    merged = b"".join((directory / f"{base:020d}.log").read_bytes() for base in bases[:2])
    (directory / f"{0:020d}.log.swap").write_bytes(merged)
    (directory / f"{0:020d}.index.swap").write_bytes(b"")
    (directory / f"{0:020d}.timeindex.swap").write_bytes(b"")
    with capture_logs() as captured:
        log = open_log(directory)
    assert events(captured, "swap.finished")[0]["end_offset"] == bases[2]
    assert [segment.base_offset for segment in log.segments] == [0, *bases[2:]]
    assert read_all(log) == stored
    log.upkeep.close()
    check_files(directory)


def test_swap_index_is_renamed_even_if_its_log_was_renamed_before(directory: Path) -> None:
    expected = closed(directory)
    path = directory / f"{0:020d}.index"
    path.rename(path.with_name(path.name + ".swap"))
    open_log(directory).upkeep.close()
    assert contents(directory) == expected


def test_recovered_log_has_the_files_of_a_clean_shutdown(directory: Path) -> None:
    log = written(directory)
    log.upkeep.flush()
    expected = read_all(log)
    # The process died without closing anything.
    crashed = directory.with_name("crashed-0")
    shutil.copytree(directory, crashed)
    recovered = open_log(crashed, was_clean=False, recovery_point=log.recovery_point)
    assert read_all(recovered) == expected
    recovered.upkeep.close()
    log.upkeep.close()
    assert contents(crashed) == contents(directory)
    check_files(crashed, SMALL.index_interval_bytes)


def test_unsaved_epochs_are_recovered_from_batches_after_a_crash(
    directory: Path,
) -> None:
    """A truncation precedes appends of an older leadership than the truncated one."""
    log = written(directory)
    log.upkeep.flush()
    assert epoch_entries(log) == [(0, 0), (1, 50), (2, 100)]
    log.truncate_to(Offset(50))
    log.append_as_follower(memoryview(replicated(50, 20, epoch=0)), NOW_MS)
    log.append_as_follower(memoryview(replicated(70, 60, epoch=3)), NOW_MS)
    expected = epoch_entries(log)
    assert expected == [(0, 0), (3, 70)]
    assert epoch_entries(open_log(directory, was_clean=False)) == expected


def test_copy_of_hard_links_stays_consistent_while_its_log_is_recovered_and_truncated(
    directory: Path,
) -> None:
    """Both the log and its indexes change in place, so that audits of such a copy find no fault."""
    log = written(directory)
    log.upkeep.close()
    copy = directory.with_name("copy")
    copy.mkdir()
    for path in directory.iterdir():
        os.link(path, copy / path.name)
    log = open_log(directory, was_clean=False)
    base_offset = log.segments[-1].base_offset
    log.truncate_to(Offset(base_offset + 8))
    append(log, [NOW_MS] * 40, epoch=9)
    log.upkeep.close()
    for suffix in (".log", ".index", ".timeindex"):
        name = f"{base_offset:020}{suffix}"
        assert (copy / name).read_bytes() == (directory / name).read_bytes(), name


def test_a_copy_is_disowned_before_recovery_cuts_its_original(tmp_path: Path) -> None:
    """A start after a crash in between would find nothing to cut, and continue the copy."""
    for number in itertools.count():
        directory = tmp_path / str(number)
        log = open_log(directory)
        fill(log, 30)
        path = directory / f"{log.segments[-1].base_offset:020d}.log"
        size_bytes = log.segments[-1].size_bytes - 1
        os.truncate(path, size_bytes)
        (directory / COPIED_TO).write_bytes(b"orders-0.1-future")
        was_killed = dies_within(number, partial(open_log, directory, was_clean=False))
        is_cut, has_copy = path.stat().st_size < size_bytes, (directory / COPIED_TO).exists()
        assert not (is_cut and has_copy)
        if not was_killed:
            assert (is_cut, has_copy) == (True, False)
            return


def test_a_copy_is_disowned_with_segments_behind_a_gap(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 60)
    os.truncate(tmp_path / f"{log.segments[1].base_offset:020d}.log", 0)
    (tmp_path / COPIED_TO).write_bytes(b"orders-0.1-future")
    shorter = open_log(tmp_path, was_clean=False, is_gapless=True)
    assert shorter.log_end_offset == log.segments[1].base_offset
    assert not (tmp_path / COPIED_TO).exists()


def test_an_unshortened_log_keeps_its_copy(tmp_path: Path) -> None:
    fill(open_log(tmp_path), 60)
    (tmp_path / COPIED_TO).write_bytes(b"orders-0.1-future")
    assert open_log(tmp_path, was_clean=False).log_end_offset == 60
    assert (tmp_path / COPIED_TO).exists()

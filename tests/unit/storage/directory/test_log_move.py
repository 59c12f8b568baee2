"""The move of a log to another log dir: the copy, the swap, and crashes at each step."""

import errno
import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from storage.directory import log_directory, log_placement
from storage.directory.logs import Logs
from storage.errors import (
    LogDirFullError,
    LogDirOfflineError,
    OutOfFilesError,
    StorageError,
)
from storage.log.log import Log
from storage.log.log_copying import CHUNK_BYTES, align, append_chunk, missing_chunk
from storage.producers import producer_replay
from storage.producers.producer_entry import RETAINED_BATCHES
from tests.unit.storage.compacting import COMPACTED, clean, put, records_of
from tests.unit.storage.faults import dies_within, failing
from tests.unit.storage.logs import (
    NOW_MS,
    PARTITION,
    SMALL,
    TOPIC_ID,
    append,
    check_files,
    crash,
    create,
    fill,
    log_of,
    offsets_in,
    open_log,
    open_logs,
    read_all,
    replicated,
)
from tests.unit.storage.produced_batches import produced, write


def begin(logs: Logs, batch_count: int = 60) -> Log:
    """Create a log in the first log dir, and an empty copy of it in the second."""
    fill(create(logs), batch_count)
    assert logs.placement.begin_move(PARTITION, logs.table.directories[1], NOW_MS)
    copy = logs.futures.get(PARTITION)
    assert copy is not None
    return copy


def catch_up(copy: Log, original: Log) -> None:
    align(copy, original)
    while copy.log_end_offset < original.log_end_offset:
        append_chunk(copy, missing_chunk(copy, original), NOW_MS)


def homes(tmp_path: Path) -> list[str]:
    return sorted(
        f"{path.parent.name}/{path.name.rpartition('-')[2]}" for path in tmp_path.glob("*/orders*")
    )


def test_copy_replaces_its_original(one: Path, two: Path, tmp_path: Path) -> None:
    logs = open_logs(one, two)
    copy, original = begin(logs), log_of(logs)
    append(original, epoch=7)
    original.leader_epochs.assign(LeaderEpoch(9), original.log_end_offset)
    region = original.read(Offset(0), 10_000, end_offset=Offset(61), min_one_batch=True)
    stored = read_all(original)
    catch_up(copy, original)
    moved = logs.end_move(PARTITION, NOW_MS)
    assert log_of(logs) is moved
    assert moved.directory == two / "orders-0"
    assert read_all(moved) == stored
    assert moved.leader_epochs.entries == original.leader_epochs.entries
    assert (moved.topic_id, moved.recovery_point) == (TOPIC_ID, 61)
    assert logs.table.directory_of(PARTITION) is logs.table.directories[1]
    assert offsets_in(region.read())[0] == 0, "a reader of the old place finishes"
    assert homes(tmp_path) == ["one/delete", "two/0"]
    logs.remove_deleted(NOW_MS, delay_ms=0)
    assert homes(tmp_path) == ["two/0"]
    append(moved, epoch=9)
    logs.close()
    check_files(two / "orders-0")
    logs = open_logs(one, two)
    assert log_of(logs).log_end_offset == 62
    logs.close()


def test_a_copy_knows_each_batch_that_a_producer_may_repeat(
    one: Path, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_replay, "RECALL_BYTES", 0)
    logs = open_logs(one, two)
    original = create(logs)
    for number in range(RETAINED_BATCHES):
        write(original, produced(7, number))
    assert logs.placement.begin_move(PARTITION, logs.table.directories[1], NOW_MS)
    copy = logs.futures.get(PARTITION)
    assert copy is not None
    catch_up(copy, original)
    moved = logs.end_move(PARTITION, NOW_MS)
    repeated = [write(moved, produced(7, number)) for number in range(RETAINED_BATCHES)]
    assert [each.base_offset for each in repeated] == list(range(RETAINED_BATCHES))
    assert moved.log_end_offset == RETAINED_BATCHES
    logs.close()


def test_log_already_in_the_log_dir_does_not_move(one: Path, two: Path, tmp_path: Path) -> None:
    logs = open_logs(one, two)
    begin(logs)
    assert not logs.placement.begin_move(PARTITION, logs.table.directories[1], NOW_MS), (
        "it is on its way"
    )
    assert not logs.placement.begin_move(PARTITION, logs.table.directories[0], NOW_MS), (
        "it stays where it is"
    )
    assert logs.futures.get(PARTITION) is None
    assert not logs.placement.begin_move(PARTITION, logs.table.directories[0], NOW_MS)
    assert homes(tmp_path) == ["one/0", "two/delete"]
    logs.close()


def test_no_move_begins_while_a_log_dir_is_offline(one: Path, two: Path, tmp_path: Path) -> None:
    logs = open_logs(one, two, tmp_path / "three")
    create(logs)
    logs.table.directories[2].health.give_up("broken")
    with pytest.raises(LogDirOfflineError, match="may hold a copy"):
        logs.placement.begin_move(PARTITION, logs.table.directories[1], NOW_MS)
    logs.close()


def test_no_move_begins_to_a_full_disk(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    log = create(logs)
    logs.table.directories[1].health.note_full("no space")
    with pytest.raises(LogDirFullError):
        logs.placement.begin_move(PARTITION, logs.table.directories[1], NOW_MS)
    append(log)
    logs.close()


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_move_frees_the_space_of_a_full_disk(
    one: Path, two: Path, tmp_path: Path, call: str
) -> None:
    logs = open_logs(one, two)
    copy, original = begin(logs), log_of(logs)
    catch_up(copy, original)
    with failing(call, errno.ENOSPC, at=lambda path: one in (path, *path.parents)):
        moved = logs.end_move(PARTITION, NOW_MS)
    logs.remove_deleted(NOW_MS, delay_ms=0)
    assert homes(tmp_path) == ["two/0"]
    append(moved)
    crash(logs)
    logs = open_logs(one, two)
    assert log_of(logs).log_end_offset == 61
    logs.close()


def test_a_refused_move_is_not_resumed_by_the_next_start(
    one: Path, two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lack(_path: Path) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    logs = open_logs(one, two)
    fill(create(logs), 3)
    with monkeypatch.context() as patch:
        patch.setattr(log_directory, "sync_directory", lack)
        with pytest.raises(OutOfFilesError):
            logs.placement.begin_move(PARTITION, logs.table.directories[1], NOW_MS)
    assert homes(tmp_path) == ["one/0", "two/delete"]
    logs.remove_deleted(NOW_MS, delay_ms=0)
    assert homes(tmp_path) == ["one/0"]
    logs.close()


def test_partition_is_created_in_the_requested_log_dir(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    logs.placement.want_home(PARTITION, logs.table.directories[1])
    create(logs)
    assert logs.table.directory_of(PARTITION) is logs.table.directories[1]
    other = TopicPartition("orders", 1)
    logs.placement.want_home(other, logs.table.directories[1])
    logs.table.directories[1].health.give_up("broken")
    create(logs, other)
    assert logs.table.directory_of(other) is logs.table.directories[0]
    logs.close()


def test_oldest_requested_log_dirs_are_dropped_beyond_the_limit(
    one: Path, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_placement, "MAX_WANTED_HOMES", 2)
    logs = open_logs(one, two)
    for index in range(3):
        logs.placement.want_home(TopicPartition("orders", index), logs.table.directories[1])
    assert [each.partition for each in logs.placement._wanted_home] == [1, 2]
    logs.close()


def test_copies_can_be_listed_in_a_thread_while_a_move_begins(one: Path, two: Path) -> None:
    class Entry(tuple[Any, ...]):
        """An entry at which the listing thread is interrupted."""

        __slots__ = ()

        def __iter__(self) -> Iterator[Any]:
            logs.futures._copies[other] = (copy, directory)
            return super().__iter__()

    logs, other = open_logs(one, two), TopicPartition("orders", 1)
    copy, directory = begin(logs), logs.table.directories[1]
    entry: Any = Entry((copy, directory))
    logs.futures._copies[PARTITION] = entry
    assert list(logs.futures) == [copy]
    assert logs.futures._copies.pop(other) == (copy, directory)
    logs.futures._copies[PARTITION] = (copy, directory)
    logs.close()


def test_deleted_segments_of_a_copy_are_removed_during_the_move(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    copy, original = begin(logs), log_of(logs)
    catch_up(copy, original)
    original.advance_log_start(Offset(50))
    align(copy, original)
    assert list(copy.directory.glob("*.log.deleted"))
    for clock_ms in (NOW_MS, NOW_MS + SMALL.file_delete_delay_ms):
        logs.remove_deleted(clock_ms, delay_ms=0)
    assert not list(copy.directory.glob("*.deleted"))
    logs.close()


def test_deleting_a_partition_deletes_its_copy(one: Path, two: Path, tmp_path: Path) -> None:
    logs = open_logs(one, two)
    begin(logs)
    logs.delete(PARTITION)
    assert homes(tmp_path) == ["one/delete", "two/delete"]
    logs.remove_deleted(NOW_MS, delay_ms=0)
    assert homes(tmp_path) == []
    logs.close()


def test_a_partition_is_deleted_although_its_copy_cannot_be_dropped(
    one: Path, two: Path, tmp_path: Path
) -> None:
    logs = open_logs(one, two)
    begin(logs)
    with failing("rename", at=lambda path: path.name.endswith("-future")):
        logs.delete(PARTITION)
    assert logs.get(PARTITION) is None
    new = create(logs, topic_id=TopicId(int=6))
    append(new)
    logs.close()
    assert homes(tmp_path) == ["one/0", "one/delete", "two/future"]
    logs = open_logs(one, two)
    assert logs.futures.get(PARTITION) is None
    assert offsets_in(read_all(log_of(logs))) == [0]
    logs.close()


def test_resumed_copy_ends_at_a_hole_that_a_loss_of_power_has_left(one: Path, two: Path) -> None:
    compacted = replace(SMALL, cleanup_policy=frozenset({"compact"}))
    logs = open_logs(one, two, config=compacted)
    copy, original = begin(logs), log_of(logs)
    catch_up(copy, original)
    [_, lost, *_] = copy.segments
    crash(logs)
    os.truncate(copy.directory / f"{lost.base_offset:020d}.log", 0)
    logs = open_logs(one, two, config=compacted)
    again, original = logs.futures.get(PARTITION), log_of(logs)
    assert again is not None
    align(again, original)
    assert again.log_end_offset == lost.base_offset
    catch_up(again, original)
    assert read_all(again) == read_all(original)
    logs.close()


@pytest.mark.parametrize("is_orderly", [True, False])
def test_start_resumes_an_interrupted_move(one: Path, two: Path, is_orderly: bool) -> None:
    logs = open_logs(one, two)
    copy, original = begin(logs), log_of(logs)
    append_chunk(copy, missing_chunk(copy, original), NOW_MS)
    copied = copy.log_end_offset
    assert 0 < copied < original.log_end_offset
    if is_orderly:
        logs.close()
    else:
        crash(logs)
    logs = open_logs(one, two)
    again, original = logs.futures.get(PARTITION), log_of(logs)
    assert again is not None
    assert again.log_end_offset == copied
    catch_up(again, original)
    moved = logs.end_move(PARTITION, NOW_MS)
    assert offsets_in(read_all(moved)) == list(range(60))
    logs.close()


def test_a_copy_begins_again_after_a_recovery_that_has_shortened_its_original(
    one: Path, two: Path
) -> None:
    logs = open_logs(one, two)
    copy, original = begin(logs), log_of(logs)
    catch_up(copy, original)
    crash(logs)
    last = original.segments[-1]
    os.truncate(original.directory / f"{last.base_offset:020d}.log", last.size_bytes - 1)
    logs = open_logs(one, two)
    again = logs.futures.get(PARTITION)
    assert again is not None
    assert (log_of(logs).log_end_offset, again.log_end_offset) == (59, 0)
    logs.close()


def test_a_copy_begins_again_if_its_original_may_lack_records(one: Path, two: Path) -> None:
    """A loss of power may take whole batches, which recovery does not miss."""
    logs = open_logs(one, two, boot_id="first")
    logs.accept()
    copy, original = begin(logs), log_of(logs)
    catch_up(copy, original)
    crash(logs)
    logs = open_logs(one, two, boot_id="first")
    again = logs.futures.get(PARTITION)
    assert again is not None
    assert again.log_end_offset == 60, "the machine has not restarted"
    crash(logs)
    logs = open_logs(one, two, boot_id="second")
    again = logs.futures.get(PARTITION)
    assert again is not None
    assert again.log_end_offset == 0
    logs.close()


@pytest.mark.parametrize("mark", [None, "", str(NOW_MS), str(NOW_MS + 9)])
def test_a_crash_at_any_step_of_the_swap_loses_nothing(tmp_path: Path, mark: str | None) -> None:
    """The original may have the `mark` of an earlier move, whose last sync has failed."""
    for number in itertools.count():
        root = tmp_path / str(number)
        logs = open_logs(root / "one", root / "two")
        copy, original = begin(logs), log_of(logs)
        stored = read_all(original)
        catch_up(copy, original)
        if mark is not None:
            (original.directory / "moved-here").write_text(mark)
        was_killed = dies_within(number, partial(logs.end_move, PARTITION, NOW_MS))
        crash(logs)
        logs = open_logs(root / "one", root / "two")
        assert read_all(log_of(logs)) == stored
        append(log_of(logs))
        logs.remove_deleted(NOW_MS, delay_ms=0)
        live = [home for home in homes(root) if home.endswith("/0")]
        assert len(live) == 1
        assert not list(root.glob("*/orders-0/moved-here"))
        logs.close()
        if not was_killed:
            break
    assert number > 20, "hardly any step was interrupted"


def test_copy_without_its_original_is_not_served(
    one: Path,
    two: Path,
    tmp_path: Path,
) -> None:
    logs = open_logs(one, two)
    begin(logs)
    logs.close()
    # The original's disk is gone: the copy is kept, but not served.
    (tmp_path / "one").rename(tmp_path / "away")
    (tmp_path / "one").write_text("a file where a directory should be")
    logs = open_logs(one, two)
    assert logs.get(PARTITION) is None
    assert logs.futures.get(PARTITION) is not None
    logs.close()
    assert [home for home in homes(tmp_path) if home.startswith("two")] == ["two/future"]


def go_away(log_dir: Path) -> None:
    """Put a file where a log dir was, as the mount of a broken disk would be."""
    log_dir.rename(log_dir.with_name("away"))
    log_dir.write_text("a file where a directory should be")


def come_back(log_dir: Path) -> None:
    log_dir.unlink()
    log_dir.with_name("away").rename(log_dir)


def test_copy_that_missed_a_cleaning_begins_again(one: Path, two: Path, tmp_path: Path) -> None:
    logs = open_logs(one, two, config=COMPACTED)
    original = create(logs, config=COMPACTED)
    put(original, (b"a", b"1"), (b"b", b"1"))
    assert logs.placement.begin_move(PARTITION, logs.table.directories[1], NOW_MS)
    copy = logs.futures.get(PARTITION)
    assert copy is not None
    catch_up(copy, original)
    logs.close()
    go_away(two)
    logs = open_logs(one, two, config=COMPACTED)
    original = log_of(logs)
    put(original, (b"a", None), (b"c", b"1"))
    original.upkeep.roll(NOW_MS)
    for now_ms in (NOW_MS, NOW_MS + 10 * COMPACTED.delete_retention_ms):
        original.upkeep.prepare_cleaning()
        clean(original, now_ms=now_ms)
    assert [each.key for each in records_of(original)] == [b"b", b"c"]
    logs.close()
    come_back(two)
    logs = open_logs(one, two, config=COMPACTED)
    again = logs.futures.get(PARTITION)
    assert again is not None
    assert again.log_end_offset == 0
    assert homes(tmp_path) == ["one/0", "two/delete", "two/future"]
    catch_up(again, log_of(logs))
    moved = logs.end_move(PARTITION, NOW_MS)
    assert moved.directory.parent == two
    assert [each.key for each in records_of(moved)] == [b"b", b"c"], "the tombstone of a is gone"
    logs.close()


def test_start_resumes_the_move_that_has_replaced_another(
    one: Path, two: Path, tmp_path: Path
) -> None:
    three = tmp_path / "three"
    logs = open_logs(one, two, three)
    begin(logs)
    logs.close()
    # Without the log dir to which the log was moving, it begins to move to another one.
    logs = open_logs(one, three)
    assert logs.placement.begin_move(PARTITION, logs.table.directories[1], NOW_MS)
    copy = logs.futures.get(PARTITION)
    assert copy is not None
    catch_up(copy, log_of(logs))
    logs.close()
    logs = open_logs(one, two, three)
    resumed = logs.futures.get(PARTITION)
    assert resumed is not None
    assert (resumed.directory.parent, resumed.log_end_offset) == (three, 60)
    assert homes(tmp_path) == ["one/0", "three/future", "two/delete"]
    logs.close()


def test_move_that_cannot_begin_again_leaves_the_log_in_its_place(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    copy, original = begin(logs), log_of(logs)
    catch_up(copy, original)
    original.upkeep.prepare_cleaning()
    logs.close()

    def lack(_path: Path) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    with pytest.MonkeyPatch.context() as patch, capture_logs() as captured:
        patch.setattr(log_directory, "sync_directory", lack)
        logs = open_logs(one, two)
    assert "move.not_resumed" in {each["event"] for each in captured}
    assert logs.futures.get(PARTITION) is None
    assert log_of(logs).directory.parent == one
    logs.close()


def test_copy_of_a_deleted_topic_does_not_replace_the_next_one(
    one: Path, two: Path, tmp_path: Path
) -> None:
    logs = open_logs(one, two)
    copy, original = begin(logs), log_of(logs)
    catch_up(copy, original)
    logs.close()
    go_away(two)
    logs = open_logs(one, two)
    logs.delete(PARTITION)
    fill(create(logs, topic_id=TopicId(int=6)), 70, value_bytes=30)
    stored = read_all(log_of(logs))
    logs.close()
    come_back(two)
    logs = open_logs(one, two)
    assert logs.futures.get(PARTITION) is None
    assert read_all(log_of(logs)) == stored
    logs.remove_deleted(NOW_MS, delay_ms=0)
    assert homes(tmp_path) == ["one/0"]
    logs.close()


def test_new_log_does_not_get_the_copy_of_one_in_an_offline_log_dir(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    begin(logs)
    logs.close()
    go_away(one)
    logs = open_logs(one, two)
    assert logs.futures.get(PARTITION) is not None
    # The partition has left this broker meanwhile, and returns.
    create(logs)
    assert logs.futures.get(PARTITION) is None
    logs.close()


def test_duplicate_logs_without_a_move_are_refused(one: Path, two: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "orders-0").mkdir(parents=True)
    with pytest.raises(StorageError, match="remove the outdated copy"):
        open_logs(one, two)


def test_two_directories_of_a_partition_in_one_log_dir_are_both_named(one: Path) -> None:
    # An operator's copy: its number has a leading zero.
    for name in ("orders-0", "orders-00"):
        (one / name).mkdir(parents=True)
    with pytest.raises(StorageError, match=f"lies in {one}/orders-0 and in {one}/orders-00: "):
        open_logs(one)


@pytest.mark.parametrize("first", ["one", "two"])
def test_moved_copy_replaces_the_outdated_log(tmp_path: Path, first: str) -> None:
    other = "two" if first == "one" else "one"
    logs = {}
    for name, count in ((first, 5), (other, 3)):
        logs[name] = open_log(tmp_path / name / "orders-0")
        fill(logs[name], count)
    (tmp_path / first / "orders-0" / "moved-here").touch()
    both = open_logs(tmp_path / "one", tmp_path / "two")
    assert log_of(both).log_end_offset == 5
    assert homes(tmp_path) == sorted([f"{first}/0", f"{other}/delete"])
    both.close()


def marked_on_one(tmp_path: Path) -> None:
    """Write an outdated log to the log dir `two`, and the one that has replaced it to `one`."""
    for name, count in (("one", 5), ("two", 3)):
        fill(open_log(tmp_path / name / "orders-0"), count)
    (tmp_path / "one" / "orders-0" / "moved-here").write_text("1")


def test_mark_of_a_move_stays_until_the_outdated_log_is_durably_gone(
    one: Path, two: Path, tmp_path: Path
) -> None:
    marked_on_one(tmp_path)
    mark = one / "orders-0" / "moved-here"
    synced: list[tuple[Path, list[str], bool]] = []

    def note(path: Path) -> bool:
        synced.append((path, homes(tmp_path), mark.exists()))
        return False

    with failing("fsync", at=note):
        logs = open_logs(one, two)
    assert (two, ["one/0", "two/delete"], True) in synced
    assert not mark.exists()
    logs.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_start_keeps_the_mark_of_a_move_that_it_cannot_make_durable(
    one: Path, two: Path, tmp_path: Path, number: int
) -> None:
    marked_on_one(tmp_path)
    with failing("fsync", number, at=two.__eq__):
        logs = open_logs(one, two)
    assert (one / "orders-0" / "moved-here").exists()
    assert log_of(logs).log_end_offset == 5
    crash(logs)


@pytest.mark.parametrize("first", ["one", "two"])
def test_later_move_wins(tmp_path: Path, first: str) -> None:
    other = "two" if first == "one" else "one"
    for name, count, moved_ms in ((first, 5, 2), (other, 3, 1)):
        fill(open_log(tmp_path / name / "orders-0"), count)
        (tmp_path / name / "orders-0" / "moved-here").write_text(str(moved_ms))
    both = open_logs(tmp_path / "one", tmp_path / "two")
    assert log_of(both).log_end_offset == 5
    both.close()


def test_failure_at_the_target_leaves_the_original_unchanged(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    copy, original = begin(logs), log_of(logs)
    catch_up(copy, original)
    with capture_logs(), failing("rename"), pytest.raises(LogDirOfflineError):
        logs.end_move(PARTITION, NOW_MS)
    assert log_of(logs) is original
    append(original)
    assert logs.table.offline_paths == (two,)
    logs.close()


@pytest.mark.parametrize("mark", [None, "", str(NOW_MS + 9)])
def test_copy_on_a_disk_that_dies_during_the_swap_does_not_replace_the_log_in_use(
    one: Path, two: Path, tmp_path: Path, mark: str | None
) -> None:
    """The original may have the `mark` of an earlier move."""
    logs = open_logs(one, two)
    copy, original = begin(logs), log_of(logs)
    catch_up(copy, original)
    if mark is not None:
        (original.directory / "moved-here").write_text(mark)
    no_sync = failing("fsync", errno.EROFS, at=two.__eq__)
    no_rename = failing("rename", errno.EROFS, at=(two / "orders-0").__eq__)
    with no_sync, no_rename, pytest.raises(LogDirOfflineError):
        logs.end_move(PARTITION, NOW_MS)
    assert homes(tmp_path) == ["one/0", "two/0"]
    append(original)
    stored = read_all(original)
    crash(logs)
    # The disk is repaired.
    logs = open_logs(one, two)
    assert log_of(logs).directory.parent == one
    assert read_all(log_of(logs)) == stored
    assert homes(tmp_path) == ["one/0", "two/delete"]
    logs.close()


def test_copy_that_cannot_be_opened_is_durably_renamed(
    one: Path, two: Path, tmp_path: Path
) -> None:
    logs = open_logs(one, two)
    copy, original = begin(logs), log_of(logs)
    catch_up(copy, original)
    synced: list[tuple[Path, list[str]]] = []

    def note(path: Path) -> bool:
        synced.append((path, homes(tmp_path)))
        return False

    lack = failing("open", errno.EMFILE, at=lambda path: path.parent == two / "orders-0")
    with lack, failing("fsync", at=note), pytest.raises(OutOfFilesError):
        logs.end_move(PARTITION, NOW_MS)
    assert (two, ["one/0", "two/delete"]) in synced
    append(original)
    logs.close()
    logs = open_logs(one, two)
    assert log_of(logs).log_end_offset == 61
    logs.close()


def two_logs(tmp_path: Path) -> tuple[Log, Log]:
    """Return an original, and a copy that has caught up with it."""
    original = open_log(tmp_path / "a" / "orders-0")
    copy = open_log(tmp_path / "b" / "orders-0")
    for epoch in (1, 2, 4):
        fill(original, 20, epoch=epoch)
    catch_up(copy, original)
    assert read_all(copy) == read_all(original)
    return copy, original


def check_follows(copy: Log, original: Log) -> None:
    catch_up(copy, original)
    assert copy.log_start_offset == original.log_start_offset
    assert read_all(copy) == read_all(original)


def test_copy_truncates_records_that_the_original_lost(tmp_path: Path) -> None:
    copy, original = two_logs(tmp_path)
    original.truncate_to(Offset(50))
    check_follows(copy, original)
    # The original is truncated, and then grows beyond the copy under another leader.
    original.truncate_to(Offset(30))
    fill(original, 40, epoch=5)
    check_follows(copy, original)


def lose_and_get_less(original: Log, epoch: int) -> None:
    """Truncate to offset 50; get the records from 55 on again, from a leader that was cleaned."""
    original.truncate_to(Offset(50))
    for offset in (55, 60):
        original.append_as_follower(memoryview(replicated(offset, 5, epoch=epoch)), NOW_MS)


def test_copy_drops_records_that_its_original_fetches_again(tmp_path: Path) -> None:
    """As in a move at rate 0: nothing is copied between the truncation and the fetch."""
    copy, original = two_logs(tmp_path)
    lose_and_get_less(original, epoch=4)
    check_follows(copy, original)
    fill(original, 5, epoch=4)
    before = copy.log_end_offset
    align(copy, original)
    assert copy.log_end_offset == before, "one truncation has one effect"
    check_follows(copy, original)


def test_start_does_not_resume_a_copy_whose_original_was_truncated(one: Path, two: Path) -> None:
    logs = open_logs(one, two)
    copy, original = begin(logs), log_of(logs)
    catch_up(copy, original)
    lose_and_get_less(original, epoch=0)
    crash(logs)
    logs = open_logs(one, two)
    again, original = logs.futures.get(PARTITION), log_of(logs)
    assert again is not None
    check_follows(again, original)
    logs.close()


def test_copy_follows_an_original_without_the_newest_epochs(tmp_path: Path) -> None:
    copy, original = two_logs(tmp_path)
    original.truncate_to(Offset(10))
    original.append_as_follower(memoryview(replicated(10, 3, epoch=3)), NOW_MS)
    check_follows(copy, original)


def test_a_copy_starts_where_the_original_starts(tmp_path: Path) -> None:
    copy, original = two_logs(tmp_path)
    original.advance_log_start(Offset(33))
    check_follows(copy, original)
    append(original, epoch=4)
    original.advance_log_start(original.log_end_offset)
    check_follows(copy, original)
    original.truncate_fully_and_start_at(Offset(7))
    fill(original, 3, epoch=9)
    check_follows(copy, original)


def test_copy_without_common_epochs_is_restarted(tmp_path: Path) -> None:
    copy, original = two_logs(tmp_path)
    original.truncate_fully_and_start_at(Offset(0))
    fill(original, 70, epoch=6)
    check_follows(copy, original)


def test_a_chunk_is_a_whole_number_of_batches(tmp_path: Path) -> None:
    original = open_log(tmp_path / "a" / "orders-0")
    original.update_config(SMALL.__class__(segment_bytes=10 * CHUNK_BYTES))
    for _ in range(5):
        append(original, value_bytes=CHUNK_BYTES // 2)
    copy = open_log(tmp_path / "b" / "orders-0", SMALL.__class__())
    assert 0 < missing_chunk(copy, original).size_bytes <= CHUNK_BYTES
    append(original, value_bytes=2 * CHUNK_BYTES)
    check_follows(copy, original)

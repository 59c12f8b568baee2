"""The disk of a simulated host: a loss of power may undo unsynced changes, and nothing else."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.simulation.world.disk import PAGE_BYTES, Disk, PowerLost
from tests.simulation.world.files import Files

SEEDS = range(100)
State = tuple[tuple[str, bytes], ...]
OLD, NEW = b"o" * 3 * PAGE_BYTES, b"n" * 3 * PAGE_BYTES


@pytest.fixture
def make_disk(tmp_path: Path) -> Iterator[Callable[[int], Disk]]:
    """Return a maker of disks, each of which draws from a seed."""
    files: list[Files] = []
    with pytest.MonkeyPatch.context() as patch:

        def make(seed: int) -> Disk:
            path = tmp_path / str(len(files))
            path.mkdir()
            files.append(Files(Random(seed)))
            disk = files[-1].add_disk(path)
            files[-1].replace_calls(patch)
            return disk

        yield make
    for each in files:
        each.end()


def write(path: Path, data: bytes, *, syncs: bool = True, position: int = 0) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(descriptor, data, position)
    if syncs:
        os.fsync(descriptor)
    os.close(descriptor)
    if syncs:
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def outcomes(make_disk: Callable[[int], Disk], act: Callable[[Path], None]) -> set[State]:
    """Return the names and contents of files after `act` and a loss of power, for many seeds."""
    found = set()
    for seed in SEEDS:
        disk = make_disk(seed)
        act(disk.path)
        disk.crash()
        found.add(tuple((path.name, path.read_bytes()) for path in sorted(disk.path.glob("*"))))
    return found


def test_synced_write_stays(make_disk: Callable[[int], Disk]) -> None:
    assert outcomes(make_disk, lambda path: write(path / "a", OLD)) == {(("a", OLD),)}


def test_unsynced_write_is_kept_lost_or_torn(make_disk: Callable[[int], Disk]) -> None:
    def act(path: Path) -> None:
        write(path / "a", OLD)
        write(path / "a", NEW, syncs=False)

    contents = [state[0][1] for state in outcomes(make_disk, act)]
    assert {OLD, NEW} <= set(contents)
    pages = {content[:PAGE_BYTES] for content in contents}
    assert any(0 < page.count(b"n") < PAGE_BYTES for page in pages)
    assert {len(content) for content in contents} == {len(OLD)}


def test_unsynced_append_keeps_the_synced_part(make_disk: Callable[[int], Disk]) -> None:
    def act(path: Path) -> None:
        write(path / "a", OLD[:5000])
        write(path / "a", NEW, syncs=False, position=5000)

    contents = [state[0][1] for state in outcomes(make_disk, act)]
    assert {content[:5000] for content in contents} == {OLD[:5000]}
    assert {OLD[:5000], OLD[:5000] + NEW} <= set(contents)
    assert any(b"\0" in content for content in contents)


def test_unsynced_truncation_may_come_back_with_its_content(
    make_disk: Callable[[int], Disk],
) -> None:
    def act(path: Path) -> None:
        write(path / "a", OLD)
        os.truncate(path / "a", PAGE_BYTES)
        write(path / "a", NEW[:PAGE_BYTES], syncs=False, position=PAGE_BYTES)

    found = outcomes(make_disk, act)
    first = OLD[:PAGE_BYTES]
    assert {(("a", OLD),), (("a", first),), (("a", first + NEW[:PAGE_BYTES]),)} <= found
    assert all(b"o" not in state[0][1][PAGE_BYTES:] or state == (("a", OLD),) for state in found)


def test_new_file_needs_a_sync_of_its_directory(make_disk: Callable[[int], Disk]) -> None:
    def act(path: Path) -> None:
        with (path / "a").open("wb") as file:
            file.write(OLD)
            file.flush()
            os.fsync(file.fileno())

    assert outcomes(make_disk, act) == {(), (("a", OLD),)}


def test_rename_needs_a_sync_of_its_directory(make_disk: Callable[[int], Disk]) -> None:
    def act(path: Path) -> None:
        write(path / "a", OLD)
        write(path / "b", NEW)
        (path / "b").rename(path / "a")

    assert outcomes(make_disk, act) == {(("a", OLD), ("b", NEW)), (("a", NEW),)}


def test_entries_are_lost_from_a_point_of_time_on(make_disk: Callable[[int], Disk]) -> None:
    def act(path: Path) -> None:
        write(path / "a", b"")
        (path / "a").unlink()
        (path / "b").mkdir()
        (path / "b").rmdir()
        (path / "c").touch()

    found = set()
    for seed in SEEDS:
        disk = make_disk(seed)
        act(disk.path)
        disk.crash()
        found.add("".join(sorted(each.name for each in disk.path.iterdir())))
    assert found == {"a", "", "b", "c"}


def test_removed_file_is_gone_after_a_sync_of_its_directory(
    make_disk: Callable[[int], Disk],
) -> None:
    def act(path: Path) -> None:
        write(path / "a", OLD)
        (path / "a").unlink()
        sync_directory(path)

    assert outcomes(make_disk, act) == {()}


def test_power_is_lost_in_a_call(make_disk: Callable[[int], Disk]) -> None:
    disk = make_disk(1)
    write(disk.path / "a", OLD)
    disk.calls_to_loss = 2
    with pytest.raises(PowerLost):
        write(disk.path / "a", NEW)
    write(disk.path / "a", OLD)


def test_full_disk_refuses_growth_until_there_is_space(make_disk: Callable[[int], Disk]) -> None:
    disk = make_disk(1)
    write(disk.path / "a", OLD)
    disk.free_bytes = 0
    write(disk.path / "a", NEW)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        write(disk.path / "a", NEW, position=1)
    (disk.path / "a").unlink()
    write(disk.path / "b", NEW[:PAGE_BYTES])


def test_broken_directory_fails_every_call(make_disk: Callable[[int], Disk]) -> None:
    disk = make_disk(1)
    (disk.path / "a").mkdir()
    disk.broken = disk.path / "a"
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        write(disk.path / "a" / "b", OLD)
    write(disk.path / "b", OLD)
    disk.heal()
    write(disk.path / "a" / "b", OLD)


def test_disk_out_of_descriptors_opens_no_file(make_disk: Callable[[int], Disk]) -> None:
    disk = make_disk(1)
    disk.has_descriptors = False
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        write(disk.path / "a", OLD)

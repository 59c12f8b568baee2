"""Disks of a simulated world. They know the synced state of files, and they fail on demand.

Files are real files in memory. Each disk records the changes that a loss of power may undo:

- Pages of 4 KiB that changed since the last sync of their file. Each one is kept, lost or torn
  between two sectors, independently of the others. A page beyond the synced size reads as zeros
  if it is lost. The size is any one between the synced size and the last.
- A truncation, until the file is synced. If it is lost, so is everything after the place of the
  cut, because the file system does not reuse blocks before the truncation is durable.
- Directory entries that were created, renamed or removed since the last sync of their directory.
  The file system writes them in order, so a disk loses the last ones, from a point of time on.

This is a little less than ext4 guarantees with `data=ordered`, where a sync also makes every
earlier change of an entry durable, and where a file does not grow before its data is written. XFS
may leave zeros in a file that has grown. POSIX promises no more than the sync calls: an entry of a
new file needs a sync of its directory, and so does a rename.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Final

from tests.simulation.world.process import PROCESS

PAGE_BYTES: Final = 4096
SECTOR_BYTES: Final = 512
KEPT: Final = (0.0, 0.5, 1.0)
"""Share of a file's pages that a loss of power keeps."""
TORN: Final = 0.2
CALLS: Final = (
    *("open", "close", "dup", "listdir", "scandir", "pread", "preadv", "statvfs"),
    *("pwrite", "ftruncate", "truncate", "posix_fallocate", "fsync", "fdatasync"),
    *("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "link"),
)
"""Functions of `os` through which our code reaches its files."""
real: Final = SimpleNamespace(**{name: getattr(os, name) for name in CALLS})


class PowerLost(BaseException):
    """The host has lost its power, so that the running step ends here."""


@dataclass(frozen=True, slots=True)
class Place:
    """A directory entry. The directory is open, so that the place survives a rename of it."""

    directory: int
    descriptor: int
    name: str


class Change:
    """A change of directory entries, as moves; a new entry is a move from the limbo."""

    def __init__(self, *moves: tuple[Place, Place]) -> None:
        self.moves = moves
        self.directories = frozenset(place.directory for move in moves for place in move)
        """Inodes of the directories whose entries have changed."""

    def undo(self) -> None:
        """Move the entries back."""
        for source, target in reversed(self.moves):
            _move(target, source)


class Unsynced:
    """The changes of one file since its last sync."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = real.open(f"/proc/self/fd/{descriptor}", os.O_RDWR)
        self._synced_bytes = self._least_bytes = self.size_bytes
        self._pages: dict[int, bytes] = {}
        """Synced content of each page that has changed; other pages of a hole are zeros."""

    @property
    def size_bytes(self) -> int:
        """Size of the file now."""
        return os.fstat(self._descriptor).st_size

    def will_write(self, begin: int, end: int) -> None:
        """Record the pages of a range."""
        for number in range(begin // PAGE_BYTES, -(-end // PAGE_BYTES)):
            self._record(number)

    def will_cut(self, size_bytes: int) -> None:
        """Record the pages after a new end of the file."""
        self._least_bytes = min(self._least_bytes, size_bytes)
        position = size_bytes
        while (position := self._next_data(position)) < self.size_bytes:
            self._record(position // PAGE_BYTES)
            position = (position // PAGE_BYTES + 1) * PAGE_BYTES

    def _next_data(self, position: int) -> int:
        try:
            return os.lseek(self._descriptor, position, os.SEEK_DATA)
        except OSError:
            return self.size_bytes

    def _record(self, number: int) -> None:
        if number not in self._pages:
            self._pages[number] = self._read(number)

    def _read(self, number: int) -> bytes:
        data: bytes = real.pread(self._descriptor, PAGE_BYTES, number * PAGE_BYTES)
        return data

    def crash(self, chance: Random) -> None:
        """Undo the changes that the loss of power undoes."""
        is_cut = self._least_bytes < self._synced_bytes
        if is_cut and chance.random() < 0.5:
            size_bytes = self._undo_cut()
        else:
            size_bytes = self._end(chance)
            self._pages = {
                number: page[: max(0, self._least_bytes - number * PAGE_BYTES)]
                for number, page in self._pages.items()
            }
        kept = chance.choice(KEPT)
        for number, old in self._pages.items():
            self._write(number, _mixed(old, self._read(number), kept, chance))
        real.ftruncate(self._descriptor, size_bytes)

    def _end(self, chance: Random) -> int:
        size_bytes = self.size_bytes
        base = min(size_bytes, self._least_bytes)
        growth = size_bytes - base
        return base + chance.choice((0, growth, chance.randint(0, growth)))

    def _undo_cut(self) -> int:
        first_number = -(-self._least_bytes // PAGE_BYTES)
        if self.size_bytes > first_number * PAGE_BYTES:
            real.ftruncate(self._descriptor, first_number * PAGE_BYTES)
        for number in [each for each in self._pages if each >= first_number]:
            self._write(number, self._pages.pop(number))
        return self._synced_bytes

    def _write(self, number: int, page: bytes) -> None:
        real.pwrite(self._descriptor, page, number * PAGE_BYTES)

    def close(self) -> None:
        """Forget the changes."""
        real.close(self._descriptor)


def _mixed(old: bytes, new: bytes, kept: float, chance: Random) -> bytes:
    """Return a page after a loss of power."""
    old, new = old.ljust(PAGE_BYTES, b"\0"), new.ljust(PAGE_BYTES, b"\0")
    if kept in (0.0, 1.0) or chance.random() >= TORN:
        return new if chance.random() < kept else old
    cut = chance.randrange(SECTOR_BYTES, PAGE_BYTES, SECTOR_BYTES)
    first, second = chance.choice(((old, new), (new, old)))
    return first[:cut] + second[cut:]


class Disk:
    """The disk of one host: all files below a directory."""

    def __init__(self, path: Path, chance: Random) -> None:
        self.path = path
        self.prefix = f"{path}/"
        self.free_bytes: int | None = None
        """Free space of a full disk; None if there is enough."""
        self.has_descriptors = True
        self.full: Path | None = None
        """A directory without free space, as if it were on a file system of its own."""
        self.broken: Path | None = None
        """A directory for which every call fails."""
        self.calls_to_loss: int | None = None
        """Number of the changing call, from now, in which the power is lost."""
        self.may_lose_power: Callable[[], bool] = lambda: True
        self.lose_power: Callable[[], None] = self.crash
        self.crash_count = 0
        self._chance = chance
        self._unsynced: dict[int, Unsynced] = {}
        self._changes: list[Change] = []
        self._directories: dict[int, int] = {}
        self._limbo = path.with_name(f"{path.name}.limbo")
        real.mkdir(self._limbo)
        self._limbo_count = 0

    def crash(self) -> None:
        """Lose unsynced changes, as far as the seed draws it."""
        self.crash_count += 1
        self.calls_to_loss = None
        for each in self._unsynced.values():
            each.crash(self._chance)
            each.close()
        self._unsynced.clear()
        count = len(self._changes)
        kept_count = self._chance.choice((0, count, self._chance.randint(0, count)))
        for change in reversed(self._changes[kept_count:]):
            change.undo()
        self._changes.clear()

    def replace(self) -> None:
        """Be a new disk, without files and faults."""
        self.crash()
        self.heal()
        for entry in real.listdir(self.path):
            shutil.rmtree(self.path / entry)
        self._changes.clear()

    def heal(self) -> None:
        """End all faults."""
        self.free_bytes = self.full = self.broken = self.calls_to_loss = None
        self.has_descriptors = True

    def check(self, path: str, *, needs_descriptor: bool = False) -> None:
        """Raise the error of a call on `path`, if it fails."""
        process = PROCESS.get()
        if process is not None and process.is_dead:
            raise PowerLost
        if self.broken is not None and path.startswith(str(self.broken)):
            raise _error(errno.EIO, path)
        if needs_descriptor and not self.has_descriptors:
            raise _error(errno.EMFILE, path)

    def check_change(self, path: str, grown_bytes: int = 0) -> None:
        """Do as `check` for a call that changes the disk; lose the power in it if it is the one."""
        self.check(path)
        if self.calls_to_loss is not None:
            self.calls_to_loss -= 1
            if self.calls_to_loss <= 0 and self.may_lose_power():
                self.lose_power()
                raise PowerLost
        if grown_bytes > 0 and self.full is not None and path.startswith(str(self.full)):
            raise _error(errno.ENOSPC, path)
        if self.free_bytes is not None and grown_bytes > 0:
            if grown_bytes > self.free_bytes:
                raise _error(errno.ENOSPC, path)
            self.free_bytes -= grown_bytes

    def unsynced(self, descriptor: int, inode: int) -> Unsynced:
        """Return the changes of an open file."""
        found = self._unsynced.get(inode)
        if found is None:
            found = self._unsynced[inode] = Unsynced(descriptor)
        return found

    def sync(self, inode: int) -> None:
        """Make the content of a file durable, or the entries of a directory."""
        found = self._unsynced.pop(inode, None)
        if found is not None:
            found.close()
        if inode in self._directories:
            self._changes = [each for each in self._changes if inode not in each.directories]

    def place(self, path: str) -> Place:
        """Return the place of a path."""
        parent, name = os.path.split(path)
        descriptor = real.open(parent, os.O_PATH | os.O_DIRECTORY)
        inode = os.fstat(descriptor).st_ino
        known = self._directories.setdefault(inode, descriptor)
        if known != descriptor:
            real.close(descriptor)
        return Place(inode, known, name)

    def add(self, path: str) -> None:
        """Record a new entry."""
        self._changes.append(Change((self._in_limbo(), self.place(path))))

    def remove(self, path: str) -> None:
        """Remove an entry; it goes to the limbo, from where it may come back."""
        place = self.place(path)
        self._free(path)
        self._do((place, self._in_limbo()))

    def rename(self, source: str, target: str) -> None:
        """Rename an entry; one that is replaced goes to the limbo."""
        os.lstat(source)
        move = (self.place(source), self.place(target))
        if os.path.isfile(target) and source != target:  # noqa: PTH113 - a name, not a Path
            self._free(target)
            self._do((move[1], self._in_limbo()), move)
        else:
            self._do(move)

    def _do(self, *moves: tuple[Place, Place]) -> None:
        for source, target in moves:
            _move(source, target)
        self._changes.append(Change(*moves))

    def _free(self, path: str) -> None:
        if self.free_bytes is not None:
            self.free_bytes += os.lstat(path).st_blocks * SECTOR_BYTES

    def _in_limbo(self) -> Place:
        self._limbo_count += 1
        return self.place(f"{self._limbo}/{self._limbo_count}")

    def close(self) -> None:
        """Close the files of the disk."""
        for each in self._unsynced.values():
            each.close()
        for descriptor in self._directories.values():
            real.close(descriptor)


def _move(source: Place, target: Place) -> None:
    real.rename(
        source.name, target.name, src_dir_fd=source.descriptor, dst_dir_fd=target.descriptor
    )


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)

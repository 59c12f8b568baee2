"""The calls of `os` and `io.open`, which reach the disks of the hosts in a simulated world.

A path below the directory of a disk, and a descriptor that was opened by such a path, belong to
that disk; other calls are passed on. A call of a dead process ends the running step.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import IO, Any, Final

import aiofiles.os  # type: ignore[import-untyped,unused-ignore]
import pytest

from tests.simulation.world.disk import CALLS, PAGE_BYTES, Disk, real
from tests.simulation.world.process import PROCESS

TOTAL_PAGES: Final = 2**20


@dataclass(frozen=True, slots=True)
class Open:
    """An open file of a disk."""

    disk: Disk
    inode: int
    path: str


class Files:
    """The files of all hosts, behind the functions of `os` that our code calls."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._disks: list[Disk] = []
        self._files: dict[int, Open] = {}

    def add_disk(self, path: Path) -> Disk:
        """Put a disk below a directory."""
        disk = Disk(path, self._chance)
        self._disks.append(disk)
        return disk

    def replace_calls(self, patch: pytest.MonkeyPatch) -> None:
        """Replace the functions of `os`, and `io.open`."""
        for name in CALLS:
            patch.setattr(os, name, getattr(self, f"_{name}"))
        patch.setattr(io, "open", self._open_stream)
        patch.setattr(aiofiles.os, "remove", self._remove_soon)

    def end(self) -> None:
        """Close the descriptors of all disks."""
        for disk in self._disks:
            disk.close()

    def _find(self, target: Any, dir_fd: int | None = None) -> tuple[Disk | None, str]:
        if isinstance(target, int):
            found = self._files.get(target)
            return (None, "") if found is None else (found.disk, found.path)
        path = os.fspath(target)
        if dir_fd is not None:
            path = f"{Path(f'/proc/self/fd/{dir_fd}').readlink()}/{path}"
        slashed = f"{path}/"
        for disk in self._disks:
            if slashed.startswith(disk.prefix):
                return disk, path
        return None, path

    # Descriptors.

    def _open(
        self, target: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        disk, path = self._find(target, dir_fd)
        if disk is None:
            descriptor: int = real.open(target, flags, mode, dir_fd=dir_fd)
            return descriptor
        disk.check(path, needs_descriptor=True)
        is_new = bool(flags & os.O_CREAT) and not os.path.lexists(path)
        if is_new:
            disk.check_change(path, PAGE_BYTES)
        descriptor = real.open(path, flags & ~os.O_TRUNC, mode)
        self._files[descriptor] = Open(disk, os.fstat(descriptor).st_ino, path)
        if is_new:
            disk.add(path)
        elif flags & os.O_TRUNC:
            os.ftruncate(descriptor, 0)
        return descriptor

    def forget(self, descriptor: int) -> None:
        """Record that a descriptor is about to be closed."""
        self._files.pop(descriptor, None)

    def _close(self, descriptor: int) -> None:
        self.forget(descriptor)
        real.close(descriptor)

    def _dup(self, descriptor: int) -> int:
        found = self._files.get(descriptor)
        if found is not None:
            found.disk.check(found.path, needs_descriptor=True)
        copy: int = real.dup(descriptor)
        if found is not None:
            self._files[copy] = found
        return copy

    def _listdir(self, target: Any = ".") -> Any:
        self.check(target, needs_descriptor=True)
        return real.listdir(target)

    def _scandir(self, target: Any = ".") -> Any:
        self.check(target, needs_descriptor=True)
        return real.scandir(target)

    def _pread(self, descriptor: int, size: int, position: int) -> Any:
        self.check(descriptor)
        return real.pread(descriptor, size, position)

    def _preadv(self, descriptor: int, buffers: Any, position: int, flags: int = 0) -> Any:
        self.check(descriptor)
        return real.preadv(descriptor, buffers, position, flags)

    def check(self, target: Any, *, needs_descriptor: bool = False) -> None:
        """Raise the error of a call that changes nothing, if it fails."""
        disk, path = self._find(target)
        if disk is not None:
            disk.check(path, needs_descriptor=needs_descriptor)

    def _statvfs(self, target: Any) -> Any:
        disk, _ = self._find(target)
        if disk is None or disk.free_bytes is None:
            return real.statvfs(target)
        pages = disk.free_bytes // PAGE_BYTES
        return SimpleNamespace(f_bavail=pages, f_frsize=PAGE_BYTES, f_blocks=TOTAL_PAGES)

    # The content of files.

    def _pwrite(self, descriptor: int, data: Any, position: int) -> Any:
        self.will_write(descriptor, position, position + len(data))
        return real.pwrite(descriptor, data, position)

    def will_write(self, descriptor: int, begin: int, end: int) -> None:
        """Record that a range of an open file is about to change."""
        found = self._files.get(descriptor)
        if found is not None:
            grown_bytes = end - os.fstat(descriptor).st_size
            found.disk.check_change(found.path, grown_bytes)
            found.disk.unsynced(descriptor, found.inode).will_write(begin, end)

    def _posix_fallocate(self, descriptor: int, position: int, size: int) -> None:
        found = self._files.get(descriptor)
        if found is not None:
            grown_bytes = position + size - os.fstat(descriptor).st_size
            found.disk.check_change(found.path, grown_bytes)
            found.disk.unsynced(descriptor, found.inode)
        real.posix_fallocate(descriptor, position, size)

    def _ftruncate(self, descriptor: int, size: int) -> None:
        found = self._files.get(descriptor)
        if found is not None:
            found.disk.check_change(found.path)
            unsynced = found.disk.unsynced(descriptor, found.inode)
            if size < unsynced.size_bytes:
                unsynced.will_cut(size)
        real.ftruncate(descriptor, size)

    def _truncate(self, target: Any, size: int) -> None:
        if isinstance(target, int):
            self._ftruncate(target, size)
            return
        descriptor = self._open(target, os.O_WRONLY)
        try:
            self._ftruncate(descriptor, size)
        finally:
            self._close(descriptor)

    def _fsync(self, descriptor: int) -> None:
        found = self._files.get(descriptor)
        if found is not None:
            found.disk.check_change(found.path)
            found.disk.sync(found.inode)

    _fdatasync = _fsync

    def _open_stream(
        self,
        target: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> IO[Any]:
        assert buffering == -1
        assert closefd
        raw = _Stream(self, target, mode.replace("b", "").replace("t", ""), opener)
        is_reading = "r" in mode and "+" not in mode
        buffered: Any = io.BufferedReader(raw) if is_reading else io.BufferedWriter(raw)
        if "b" in mode:
            return buffered  # type: ignore[no-any-return]
        return io.TextIOWrapper(buffered, encoding, errors, newline)

    # Directory entries.

    def _mkdir(self, target: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        disk, path = self._find(target, dir_fd)
        if disk is not None and not os.path.lexists(path):
            disk.check_change(path, PAGE_BYTES)
        real.mkdir(target, mode, dir_fd=dir_fd)
        if disk is not None:
            disk.add(path)

    def _link(self, source: Any, target: Any) -> None:
        disk, path = self._find(target)
        if disk is not None:
            disk.check_change(path)
        real.link(source, target)
        if disk is not None:
            disk.add(path)

    def _unlink(self, target: Any, *, dir_fd: int | None = None) -> None:
        disk, path = self._find(target, dir_fd)
        if disk is None or stat.S_ISDIR(os.lstat(path).st_mode):
            real.unlink(target, dir_fd=dir_fd)
            return
        disk.check_change(path)
        disk.remove(path)

    _remove = _unlink

    async def _remove_soon(self, path: Any) -> None:
        self._unlink(path)

    def _rmdir(self, target: Any, *, dir_fd: int | None = None) -> None:
        disk, path = self._find(target, dir_fd)
        if disk is None:
            real.rmdir(target, dir_fd=dir_fd)
            return
        if real.listdir(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        disk.check_change(path)
        disk.remove(path)

    def _rename(
        self,
        source: Any,
        target: Any,
        *,
        src_dir_fd: int | None = None,
        dst_dir_fd: int | None = None,
    ) -> None:
        disk, old = self._find(source, src_dir_fd)
        if disk is None:
            real.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            return
        _, new = self._find(target, dst_dir_fd)
        disk.check_change(old)
        disk.rename(old, new)

    _replace = _rename


class _Stream(io.FileIO):
    """A file that `io.open` has opened."""

    def __init__(self, files: Files, target: Any, mode: str, opener: Any) -> None:
        self._files = files
        self._process = PROCESS.get()
        super().__init__(
            target, mode, opener=opener or (lambda path, flags: os.open(path, flags, 0o666))
        )

    def write(self, data: Any) -> int:
        if self._process is not None and self._process.is_dead:
            return len(data)  # The buffer of a dead process, which nobody writes.
        position = os.fstat(self.fileno()).st_size if "a" in self.mode else self.tell()
        self._files.will_write(self.fileno(), position, position + len(data))
        return super().write(data)

    def readinto(self, buffer: Any) -> int:
        self._files.check(self.fileno())
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._files.check(self.fileno())
        return super().readall()

    def close(self) -> None:
        if not self.closed:
            self._files.forget(self.fileno())
        super().close()

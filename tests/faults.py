"""Faults of system calls on files, at a call that the test chooses. Deterministic, in one process.

`injected` patches the functions of `os` and `io.open`, through which all our code opens files. The
n-th call on a file below a directory then fails: with EMFILE if it creates a descriptor, with
ENOSPC if it may allocate space, or with EIO; or it writes fewer bytes than given. EINTR is not
injected, because Python itself retries an interrupted call (PEP 475). Sync calls do nothing: they
would take long and change nothing in these tests.
"""

from __future__ import annotations

import errno
import io
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import IO, Any, Final

import pytest

EVERYDAY_POINTS: Final = 5
"""Calls of one operation that fail in a quick test; the soak tests let each call fail."""


def drawn(count: int, seed: int) -> list[int]:
    """Return at most `EVERYDAY_POINTS` of `count` calls."""
    return random.Random(seed).sample(range(count), min(count, EVERYDAY_POINTS))


class Fault(Enum):
    """The way in which a call fails."""

    NO_DESCRIPTOR = "EMFILE"
    NO_SPACE = "ENOSPC"
    BROKEN = "EIO"
    SHORT = "short write"


OPENING: Final = ("open", "listdir", "scandir", "dup")
WRITING: Final = ("write", "pwrite")
SYNCING: Final = ("fsync", "fdatasync")
GROWING: Final = ("posix_fallocate", "ftruncate", "rename", "replace", "mkdir", "link")
READING: Final = ("read", "pread", "stat", "fstat", "lstat")
REMOVING: Final = ("unlink", "rmdir", "truncate", "utime")
CALLS: Final = {
    Fault.NO_DESCRIPTOR: frozenset(OPENING),
    Fault.NO_SPACE: frozenset((*WRITING, "fsync", *GROWING)),
    Fault.BROKEN: frozenset((*OPENING, *WRITING, *SYNCING, *GROWING, *READING, *REMOVING)),
    Fault.SHORT: frozenset(WRITING),
}
NUMBERS: Final = {
    Fault.NO_DESCRIPTOR: errno.EMFILE,
    Fault.NO_SPACE: errno.ENOSPC,
    Fault.BROKEN: errno.EIO,
}


class Injection:
    """A counter of the calls that a fault may hit; it hits the call with number `at`."""

    def __init__(self, fault: Fault, at: int | None, below: Path) -> None:
        self.count = 0
        self.hit: str | None = None
        """Name of the call that got the fault."""
        self._fault = fault
        self._at = at
        self._below = f"{below}/"

    def is_hit(self, name: str, target: object, directory: int | None = None) -> bool:
        """Count a call, and raise its error if it gets the fault; return whether to write short."""
        if name not in CALLS[self._fault] or not self._is_below(target, directory):
            return False
        number, self.count = self.count, self.count + 1
        if number != self._at:
            return False
        self.hit = name
        if self._fault is Fault.SHORT:
            return True
        code = NUMBERS[self._fault]
        raise OSError(code, os.strerror(code), str(target))

    def _is_below(self, target: object, directory: int | None) -> bool:
        try:
            path = _path_of(target)
            if directory is not None:
                path = f"{_path_of(directory)}/{path}"
        except OSError:
            return False
        return f"{path}/".startswith(self._below)


def _path_of(target: object) -> str:
    if isinstance(target, int):
        return _readlink(f"/proc/self/fd/{target}")
    assert isinstance(target, str | os.PathLike)
    return str(target)


_readlink = os.readlink


@contextmanager
def injected(fault: Fault, at: int | None, below: Path) -> Iterator[Injection]:
    """Inject the fault into the `at`-th call on a file below a directory; None only counts."""
    injection = Injection(fault, at, below)
    with pytest.MonkeyPatch.context() as patch:
        for name in sorted(CALLS[Fault.BROKEN] - {"read"}):
            patch.setattr(os, name, _wrapped(name, injection))
        patch.setattr(io, "open", _opening(injection))
        yield injection


def _wrapped(name: str, injection: Injection) -> Callable[..., Any]:
    real = getattr(os, name)

    def call(target: Any = ".", *arguments: Any, **options: Any) -> Any:
        directory = options.get("dir_fd", options.get("src_dir_fd"))
        if injection.is_hit(name, target, directory):
            data, *rest = arguments
            return real(target, memoryview(data)[: len(data) // 2], *rest)
        if name in SYNCING:
            return None
        return real(target, *arguments, **options)

    return call


class _Raw(io.FileIO):
    """A file whose reads and writes are counted too."""

    def __init__(self, path: Any, mode: str, injection: Injection) -> None:
        self._injection = injection
        super().__init__(path, mode, opener=lambda name, flags: os.open(name, flags, 0o666))

    def write(self, data: Any) -> int:
        if self._injection.is_hit("write", self.fileno()):
            data = memoryview(data)[: len(data) // 2]
        return super().write(data)

    def readinto(self, buffer: Any) -> int:
        self._injection.is_hit("read", self.fileno())
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self._injection.is_hit("read", self.fileno())
        return super().readall()


def _opening(injection: Injection) -> Callable[..., IO[Any]]:
    def call(
        path: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        assert buffering == -1
        raw = _Raw(path, mode.replace("b", "").replace("t", ""), injection)
        is_reading = "r" in mode and "+" not in mode
        buffered: Any = io.BufferedReader(raw) if is_reading else io.BufferedWriter(raw)
        if "b" in mode:
            return buffered  # type: ignore[no-any-return]
        return io.TextIOWrapper(buffered, encoding, errors, newline)

    return call

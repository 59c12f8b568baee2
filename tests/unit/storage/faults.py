"""Calls of the file system that fail, and the death of a process at its n-th change."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHANGES = (
    "rename", "replace", "unlink", "pwrite", "ftruncate", "truncate", "utime", "rmdir", "mkdir",
)  # fmt: skip
SYNCS = ("fsync", "fdatasync")


@contextmanager
def failing(
    call: str,
    number: int = errno.EIO,
    *,
    at: Callable[[Path], bool] = lambda _path: True,
    turn: Callable[[int], bool] = lambda _turn: True,
) -> Iterator[list[int]]:
    """Make a call of `os` fail with error `number`, on files and in turns that are accepted.

    Yield the list of all turns so far.
    """
    real = getattr(os, call)
    turns: list[int] = []

    def fake(target: object, *arguments: object, **more: object) -> object:
        turns.append(len(turns))
        if at(path_of(target)) and turn(turns[-1]):
            raise OSError(number, os.strerror(number))
        return real(target, *arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, fake)
        yield turns


def path_of(target: object) -> Path:
    """Return the path that a call of `os` gets, perhaps as a descriptor."""
    link = Path(f"/proc/self/fd/{target}")
    return link.readlink() if isinstance(target, int) else Path(str(target))


class Died(BaseException):
    """The simulated process has died."""


class Faults:
    """A counter of changes; the process dies before the change number `dies_at`."""

    def __init__(self, dies_at: int | None) -> None:
        self.dies_at = dies_at
        self.count = 0

    def step(self) -> None:
        # A dead process makes no further change, not even while its exception propagates.
        if self.dies_at is not None and self.count >= self.dies_at:
            raise Died
        self.count += 1


@contextmanager
def faulty(dies_at: int | None = None, changes: tuple[str, ...] = CHANGES) -> Iterator[Faults]:
    """Count changes within the block, and die before the change number `dies_at`."""
    faults = Faults(dies_at)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            faults.step()
            return function(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in changes:
            patch.setattr(os, name, counted(getattr(os, name)))
        for name in SYNCS:
            # No test depends on durability, and real syncs would be slow.
            patch.setattr(os, name, lambda *_: faults.step())
        yield faults


def dies_within(dies_at: int, work: Callable[[], object]) -> bool:
    """Whether `work` died at its change number `dies_at`."""
    try:
        with faulty(dies_at):
            work()
    except Died:
        return True
    return False

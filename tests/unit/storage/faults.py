"""Simulated death of a process at its n-th change of the file system."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHANGES = (
    "rename", "replace", "unlink", "pwrite", "ftruncate", "truncate", "utime", "rmdir", "mkdir",
)  # fmt: skip
SYNCS = ("fsync", "fdatasync")


class Died(BaseException):
    """The simulated process has died."""


class Faults:
    """A counter of changes; the process dies before the change number `dies_at`."""

    def __init__(self, dies_at: int | None) -> None:
        self.dies_at = dies_at
        self.count = 0

    def step(self) -> None:
        if self.count == self.dies_at:
            raise Died
        self.count += 1


@contextmanager
def faulty(dies_at: int | None = None) -> Iterator[Faults]:
    """Count changes within the block, and die before the change number `dies_at`."""
    faults = Faults(dies_at)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            faults.step()
            return function(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
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

"""A reserve of disk space: a placeholder file that is removed when the disk is full (edge).

The freed space lets a broker on a full disk write its checkpoints, roll and truncate its logs, shut
down cleanly, and recover at the next start. Bytes on disk: `.ottla-reserve`, of arbitrary content.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

FILE_NAME: Final = ".ottla-reserve"
LEAST_FREE_BYTES: Final = 1024 * 1024
"""Free space that appends require, even without a reserve."""


class SpaceReserve:
    """A file of `size_bytes` in `directory` (0: no reserve). Any thread may use it."""

    def __init__(self, directory: Path, size_bytes: int) -> None:
        self._path = directory / FILE_NAME
        self._directory = directory
        self._size_bytes = size_bytes

    @property
    def is_held(self) -> bool:
        """Whether the space is reserved."""
        if not self._size_bytes:
            return True
        try:
            return self._path.stat().st_size >= self._size_bytes
        except FileNotFoundError:
            return False

    def hold(self) -> bool:
        """Reserve the space if as much again stays free; return whether it is reserved.

        Raises:
            OSError: the disk failed for a reason other than being full.
        """
        needed_bytes = max(self._size_bytes, LEAST_FREE_BYTES)
        if not self.is_held:
            needed_bytes += self._size_bytes
        if free_bytes(self._directory) < needed_bytes:
            return False
        if self.is_held:
            return True
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(descriptor, 0, self._size_bytes)
        except OSError:
            self.release()
            return False
        finally:
            os.close(descriptor)
        return True

    def release(self) -> None:
        """Free the space; do nothing if it is not reserved."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def free_bytes(directory: Path) -> int:
    """Return the number of bytes that this process may still write in `directory`.

    Raises:
        OSError: the disk failed.
    """
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize

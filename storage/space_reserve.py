"""Space that is kept for bad times: a file that takes it, and is removed on a full disk (edge).

With the room that it gives, a broker on a full disk still writes its checkpoints, rolls and
truncates its logs, stops in order, and recovers at the next start. Bytes on disk: `.ottla-reserve`,
whose content does not matter.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

FILE_NAME: Final = ".ottla-reserve"
LEAST_FREE_BYTES: Final = 1024 * 1024
"""What has to be free for appends to go on, even if no reserve is kept."""


class SpaceReserve:
    """A file of `size_bytes` in `directory`; 0 keeps nothing. Any thread may use it."""

    def __init__(self, directory: Path, size_bytes: int) -> None:
        self._path = directory / FILE_NAME
        self._directory = directory
        self._size_bytes = size_bytes

    @property
    def is_held(self) -> bool:
        """Whether the space is taken."""
        if not self._size_bytes:
            return True
        try:
            return self._path.stat().st_size >= self._size_bytes
        except FileNotFoundError:
            return False

    def hold(self) -> bool:
        """Take the space, if as much again is free beside it; return whether it is taken.

        Raises:
            OSError: the disk failed otherwise than by being full.
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
        """Give the space back; does nothing if it is not held."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def free_bytes(directory: Path) -> int:
    """How many bytes this process may still write there.

    Raises:
        OSError: the disk failed.
    """
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize

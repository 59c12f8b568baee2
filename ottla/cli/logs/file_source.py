"""Reads a file for the checks. Edge: opens, reads ahead, closes.

Files are read and never mapped into memory, because the broker that owns them may truncate them
meanwhile.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

READ_AHEAD_BYTES: Final = 1024 * 1024


class FileSource:
    """An open file with a read-ahead window of `READ_AHEAD_BYTES`, which saves system calls."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._size_bytes = os.fstat(self._file.fileno()).st_size
        self._window = memoryview(b"")
        self._window_position = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def size_bytes(self) -> int:
        """Size when the file was opened, or at the last `has_grown_to`."""
        return self._size_bytes

    def has_grown_to(self, size_bytes: int) -> bool:
        """Whether the file has at least this size by now, since a live broker may append."""
        if size_bytes > self._size_bytes:
            self._size_bytes = os.fstat(self._file.fileno()).st_size
        return size_bytes <= self._size_bytes

    def read(self, position: int, size_bytes: int) -> memoryview:
        """Return `size_bytes` bytes from `position`, fewer only at the end; reads ahead."""
        start = position - self._window_position
        if start < 0 or start + size_bytes > len(self._window):
            wanted = max(size_bytes, READ_AHEAD_BYTES)
            self._window = memoryview(os.pread(self._file.fileno(), wanted, position))
            self._window_position = position
            start = 0
        return self._window[start : start + size_bytes]

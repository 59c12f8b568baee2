"""Reads local files for the checks. Edge: lists, opens, reads, closes.

Files are read and never mapped into memory, because the broker that owns them may truncate them
meanwhile.
"""

import os
from pathlib import Path
from typing import Final, Self

from logcheck.replica_files import Entry

# A chunk stays in the processor's cache until it is decoded.
CHUNK_BYTES: Final = 256 * 1024


class FileSource:
    """An open file with random access."""

    chunk_bytes = CHUNK_BYTES

    def __init__(self, file: Path | str) -> None:
        path = Path(file)
        self._file = path.open("rb", buffering=0)
        self.size_bytes = os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read_at(self, position: int, size: int) -> memoryview:
        """Return up to `size` bytes from `position`, fewer at the end of the file."""
        return memoryview(os.pread(self._file.fileno(), size, position))

    def has_grown_to(self, size_bytes: int) -> bool:
        """Whether the file has at least this size by now, since a live broker may append."""
        return size_bytes <= os.fstat(self._file.fileno()).st_size


def list_directory(directory: Path) -> list[Entry]:
    """Return the entries of a directory, sorted by name; their sizes are not read."""
    paths = sorted(directory.iterdir())
    return [Entry(path.name, str(path), path.is_dir(), 0) for path in paths]


def read_bytes(file: str) -> bytes:
    """Return the contents of a small file.

    Raises:
        OSError: the file does not exist or cannot be read.
    """
    return Path(file).read_bytes()

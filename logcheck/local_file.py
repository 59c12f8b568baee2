"""Reads local files for the checks (edge).

Files are read and never mapped into memory, because the broker that owns them may truncate them
meanwhile. No file of another type is waited for: a FIFO or a device is an OSError. Names that are
not UTF-8 contain surrogates (PEP 383).
"""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from types import TracebackType
from typing import Final, Self

from logcheck.batch_walk import Source
from logcheck.replica_files import Entry

# A chunk stays in the processor's cache until it is decoded (`python -m benchmarks audit`).
CHUNK_BYTES: Final = 256 * 1024
# Checkpoints, indexes and snapshots are read at once. Kafka's indexes have 10 MiB by default.
MAX_WHOLE_BYTES: Final = 256 * 1024 * 1024


class FileSource:
    """An open file with random access."""

    chunk_bytes = CHUNK_BYTES

    def __init__(self, file: Path | str) -> None:
        self._file = _open_regular(str(file))
        self.size_bytes = os.fstat(self._file).st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def read_at(self, position: int, size: int) -> memoryview:
        """Return up to `size` bytes from `position`, fewer at the end of the file."""
        return memoryview(os.pread(self._file, size, position))

    def has_grown_to(self, size_bytes: int) -> bool:
        """Whether the file has at least this size by now, since a live broker may append."""
        return size_bytes <= os.fstat(self._file).st_size

    def behind_hole(self, position: int) -> int:
        """Return where a hole at `position` ends, or `position`; a hole reads as zeros."""
        try:
            return os.lseek(self._file, position, os.SEEK_DATA)
        except (AttributeError, OSError) as error:
            if not isinstance(error, OSError) or error.errno != errno.ENXIO:
                return position
            # Only a hole can follow, unless the file became shorter meanwhile.
            end = min(os.fstat(self._file).st_size, self.size_bytes)
            return max(position, end)


def _open_regular(file: str) -> int:
    """Open a regular file.

    Raises:
        OSError: the file does not exist, cannot be read, or is of another type.
    """
    # O_NONBLOCK has no effect on regular files; a FIFO without a writer would block.
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if Path(file).is_symlink():
            raise OSError(errno.ENOLINK, "a symbolic link to a missing file", file) from None
        raise
    mode = os.fstat(opened).st_mode
    if S_ISREG(mode):
        return opened
    os.close(opened)
    if S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), file)
    raise OSError(errno.EINVAL, "neither a file nor a directory", file)


def list_directory(directory: Path | str) -> list[Entry]:
    """Return the entries of a directory, sorted by name; dangling links have no size.

    Raises:
        OSError: the directory does not exist or cannot be read.
    """
    with os.scandir(directory) as entries:
        return sorted(map(_entry, entries), key=lambda entry: entry.name)


def _entry(entry: "os.DirEntry[str]") -> Entry:
    try:
        is_directory, size_bytes = entry.is_dir(), entry.stat().st_size
    except OSError:
        is_directory, size_bytes = False, 0
    return Entry(entry.name, entry.path, is_directory, size_bytes)


def states_in(directory: Path | str) -> dict[str, tuple[int, int]]:
    """Return the inode and the time of the last change of each file, by its name."""
    try:
        with os.scandir(directory) as entries:
            return {
                entry.name: (entry.inode(), entry.stat(follow_symlinks=False).st_mtime_ns)
                for entry in entries
            }
    except OSError:
        return {}


def inodes(states: Mapping[str, tuple[int, int]]) -> set[tuple[str, int]]:
    """Return the names and inodes in `states`, which change when a broker replaces files."""
    return {(name, inode) for name, (inode, _) in states.items()}


def read_bytes(file: str) -> bytes:
    """Return the contents of a small file.

    Raises:
        OSError: the file does not exist, cannot be read, or is larger than MAX_WHOLE_BYTES.
    """
    with FileSource(file) as source:
        return read_whole(source, file)


def read_whole(source: Source, file: str) -> bytes:
    """Return the contents of an open small file.

    Raises:
        OSError: the file cannot be read, or is larger than MAX_WHOLE_BYTES.
    """
    if source.size_bytes > MAX_WHOLE_BYTES:
        raise OSError(errno.EFBIG, f"{source.size_bytes} bytes exceed {MAX_WHOLE_BYTES}", file)
    return bytes(source.read_at(0, source.size_bytes))

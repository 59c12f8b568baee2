"""The bytes of one segment: an append-only file, and regions of it (edge).

Invariant: the bytes below `size_bytes` are complete batches and never change, but a truncation may
remove them. The descriptor lives as long as the `LogFile` is referenced, so that a reader can
finish after the file has been renamed or removed.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from storage.disk.checkpoint import sync_data
from storage.errors import TruncatedRegionError


class LogFile:
    """One `.log` file, open for reading and writing.

    Only the first `size_bytes` bytes count. The file is longer if disk space has been reserved, and
    while a failed append is being undone.
    """

    __slots__ = ("_descriptor", "path", "size_bytes")

    def __init__(self, path: Path, size_bytes: int, *, is_new: bool = False) -> None:
        self._descriptor = -1
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if is_new else 0)
        self._descriptor = os.open(path, flags, 0o644)
        self.path = path
        self.size_bytes = size_bytes

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def fileno(self) -> int:
        """Return the descriptor, for `os.sendfile`; valid while this object is referenced."""
        return self._descriptor

    def reserve(self, size_bytes: int) -> None:
        """Reserve disk space for a file of `size_bytes`; `truncate` frees the unused part."""
        os.posix_fallocate(self._descriptor, 0, size_bytes)

    def append(self, data: memoryview) -> None:
        """Write `data` at the end, completely or not at all.

        Raises:
            OSError: nothing was appended. Bytes that reached the file have been truncated, or lie
                above `size_bytes`, where recovery finds and truncates them.
        """
        end = self.size_bytes
        if os.pwrite(self._descriptor, data, end) != len(data):
            self._write_rest(data, end)
        self.size_bytes = end + len(data)

    def _write_rest(self, data: memoryview, position: int) -> None:
        """Finish a short write; start over, because the count of written bytes may be unknown."""
        written = 0
        try:
            while written < len(data):
                count = os.pwrite(self._descriptor, data[written:], position + written)
                if count == 0:
                    raise OSError(f"{self.path}: no byte written at {position + written}")
                written += count
        except OSError:
            os.ftruncate(self._descriptor, position)
            raise

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return up to `size_bytes` bytes from `position`; fewer only at the end of the file."""
        data = os.pread(self._descriptor, size_bytes, position)
        if len(data) == size_bytes:
            return data
        return self._read_rest(data, position, size_bytes)

    def _read_rest(self, data: bytes, position: int, size_bytes: int) -> bytes:
        parts = [data]
        length = len(data)
        while parts[-1] and length < size_bytes:
            parts.append(os.pread(self._descriptor, size_bytes - length, position + length))
            length += len(parts[-1])
        return b"".join(parts)

    def truncate(self, size_bytes: int) -> None:
        """End the file at `size_bytes`, giving back reserved space."""
        # Lower the size first, so that a reader never relies on bytes that are gone.
        before, self.size_bytes = self.size_bytes, size_bytes
        try:
            os.ftruncate(self._descriptor, size_bytes)
        except OSError:
            self.size_bytes = before
            raise

    def sync(self) -> None:
        """Block until every byte is on disk."""
        sync_data(self._descriptor)


@dataclass(frozen=True, slots=True)
class FileRegion:
    """Complete batches in a file, which can be sent without copying them through this process.

    The region keeps its file open, even if the segment is renamed or removed.
    """

    file: LogFile
    position: int
    size_bytes: int

    def read(self) -> bytes:
        """Return the bytes.

        Raises:
            TruncatedRegionError: a truncation removed some of the bytes; discard the region.
        """
        data = self.file.read(self.position, self.size_bytes)
        if len(data) != self.size_bytes:
            raise TruncatedRegionError(
                f"{self.file.path} ends {self.size_bytes - len(data)} bytes before the end of "
                f"the region of {self.size_bytes} at {self.position}"
            )
        return data

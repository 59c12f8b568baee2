"""The file of an index: entries of two big-endian numbers, sorted by both (edge).

Bytes on disk: consecutive entries. While its segment is active, the file is extended with zeros to
`segment.index.bytes`; when the segment is closed, the file is truncated to its entries.

There are two modes. *Writable*: both columns are in memory, and the file is updated in growing
steps, at the latest when the index is synced or closed. A crash loses only entries that recovery
rebuilds. *Read-only*: nothing is in memory, the columns read the file. They do not use a memory
map, because a failing disk must raise an OSError instead of killing the process.

One thread owns an index. Other threads may only call `sync`.
"""

import os
from array import array
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Final

from storage.disk.checkpoint import sync_data, write_all
from storage.disk.directory_health import FULL_ERRORS
from storage.segment.index_column import PAGE_ENTRIES, Column, FileColumn

PENDING_ENTRIES: Final = 64
"""Number of entries per write, fewer while the index is small. Two writes per batch would double
the cost of an append (benchmarks/micro/test_log_append.py)."""


class PagedFile:
    """The descriptor of an index file, and the last page that was read.

    The columns of an index refer to this object, not to the index, which refers to them: no cycle
    keeps the descriptor of a deleted segment open until garbage is collected. Objects that were
    frozen at the start of a broker never are.
    """

    __slots__ = ("_page", "_page_bytes", "descriptor", "path")

    def __init__(self, path: Path, page_bytes: int) -> None:
        self.descriptor = -1
        """The open file; -1 without one."""
        self.path = path
        self._page_bytes = page_bytes
        # Number and bytes of the last page read. A single value, so that both always agree.
        self._page = (-1, b"")

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def fileno(self) -> int:
        """Return the descriptor, opening the file at first use."""
        if self.descriptor < 0:
            self.descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        return self.descriptor

    def page(self, number: int) -> bytes:
        """Return the bytes of `PAGE_ENTRIES` entries, or of fewer at the end of the file."""
        cached = self._page
        if cached[0] != number:
            size = self._page_bytes
            self._page = cached = (number, os.pread(self.fileno(), size, number * size))
        return cached[1]

    def forget_page(self) -> None:
        """Read the file again at next use."""
        self._page = (-1, b"")


class IndexFile:
    """The entries of one index, `(key, value)` in order of their keys.

    `typecodes` are codes of `array` and `struct`: "i" for 4 bytes, "q" for 8.
    """

    __slots__ = (
        "_entry",
        "_file",
        "_key_array",
        "_lock",
        "_typecodes",
        "_value_array",
        "_write_at_count",
        "_written_count",
        "is_writable",
        "keys",
        "max_entries",
        "path",
        "values",
    )

    keys: Column
    values: Column

    def __init__(self, path: Path, typecodes: str, max_bytes: int) -> None:
        # Held while the file and the count of written entries change together.
        self._lock = Lock()
        self._typecodes = typecodes
        self._entry = Struct(">" + typecodes)
        self._file = PagedFile(path, PAGE_ENTRIES * self._entry.size)
        self.is_writable = False
        """Whether entries can be added."""
        self._written_count = 0
        self._write_at_count = 1
        self.path = path
        self.max_entries = max_bytes // self._entry.size
        self._key_array = self._value_array = array("i")
        self.keys = self.values = self._key_array

    def fileno(self) -> int:
        """Return the descriptor, opening the file at first use."""
        return self._file.fileno()

    def create(self) -> None:
        """Create an empty file, extended to its maximum size, in writable mode.

        An existing file is emptied. Its log is truncated in place too, so that both still agree in
        a copy of hard links.
        """
        self.release()
        if not self.path.is_file() or self.path.is_symlink():
            self.path.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_TRUNC
        self._file.descriptor = os.open(self.path, flags, 0o644)
        os.ftruncate(self._file.descriptor, self.max_entries * self._entry.size)
        self._use_memory(b"")

    def open(self) -> int:
        """Open the existing file read-only; return the size of an incomplete last entry.

        Raises:
            FileNotFoundError: there is no file.
        """
        size = os.fstat(self.fileno()).st_size
        count = size // self._entry.size
        self._use_file(count)
        return size % self._entry.size

    def make_writable(self) -> None:
        """Switch an opened file to writable mode: load its entries and extend it again."""
        if self.is_writable:
            return
        count = len(self.keys)
        data = os.pread(self.fileno(), count * self._entry.size, 0)
        # Extend before any change of state: the disk may be full.
        self._extend()
        self._use_memory(data)

    def append(self, key: int, value: int) -> None:
        """Add an entry; neither number may be less than in the last entry."""
        assert self.is_writable
        self._key_array.append(key)
        self._value_array.append(value)
        if len(self._key_array) >= self._write_at_count:
            self._write_if_there_is_space()

    def read_all(self) -> list[tuple[int, int]]:
        """Return all entries of an open index."""
        self.write_pending()
        data = os.pread(self.fileno(), len(self.keys) * self._entry.size, 0)
        return [(key, value) for key, value in self._entry.iter_unpack(data)]

    def truncate(self, entry_count: int) -> None:
        """Keep the first `entry_count` entries and fill the rest of the file with zeros."""
        assert self.is_writable
        with self._lock:
            del self._key_array[entry_count:]
            del self._value_array[entry_count:]
            if entry_count < self._written_count:
                self._note_written(entry_count)
                os.ftruncate(self.fileno(), entry_count * self._entry.size)
                self._extend()

    def _write_if_there_is_space(self) -> None:
        """Write pending entries; on a full disk they stay pending until the next attempt.

        The batch of the newest entry has been written already and must not fail any more.
        """
        try:
            self.write_pending()
        except OSError as error:
            if error.errno not in FULL_ERRORS:
                raise
            self._write_at_count = len(self.values) + PENDING_ENTRIES

    def write_pending(self) -> None:
        """Write pending entries to the file, without a sync."""
        with self._lock:
            self._write_pending()

    def finish(self) -> None:
        """Write pending entries, truncate the file to its entries and become read-only."""
        with self._lock:
            if self.is_writable:
                self._write_pending()
                os.ftruncate(self.fileno(), self._written_count * self._entry.size)
                self._use_file(self._written_count)

    def sync(self) -> None:
        """Block until every entry is on disk; the only method that any thread may call."""
        with self._lock:
            descriptor = self._descriptor_to_sync()
        if descriptor is None:
            return
        try:
            sync_data(descriptor)
        finally:
            os.close(descriptor)

    def _descriptor_to_sync(self) -> int | None:
        if self._file.descriptor >= 0:
            self._write_pending()
            # The owner may close its own descriptor during the sync.
            return os.dup(self._file.descriptor)
        try:
            return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            # The segment was deleted after the caller found it.
            return None

    def release(self) -> None:
        """Close the descriptor and become read-only; the next use reopens the file."""
        with self._lock:
            self.is_writable = False
            descriptor, self._file.descriptor = self._file.descriptor, -1
            if descriptor >= 0:
                os.close(descriptor)

    def _write_pending(self) -> None:
        # A value is appended after its key, so the values count the complete entries.
        first, last = self._written_count, len(self.values)
        if first == last:
            return
        pack = self._entry.pack
        data = b"".join(pack(self.keys[slot], self.values[slot]) for slot in range(first, last))
        write_all(self.fileno(), data, first * self._entry.size)
        self._note_written(last)

    def _note_written(self, count: int) -> None:
        self._written_count = count
        self._write_at_count = count + min(max(count, 1), PENDING_ENTRIES)

    def _extend(self) -> None:
        # Never below its entries: the limit may have been lowered since they were written.
        entry_count = max(self.max_entries, self._written_count)
        os.ftruncate(self.fileno(), entry_count * self._entry.size)

    def _use_memory(self, data: bytes) -> None:
        entries = list(self._entry.iter_unpack(data))
        self._key_array = array(self._typecodes[0], [entry[0] for entry in entries])
        self._value_array = array(self._typecodes[1], [entry[1] for entry in entries])
        self.keys, self.values = self._key_array, self._value_array
        self._note_written(len(entries))
        self.is_writable = True

    def _use_file(self, count: int) -> None:
        key, value = (Struct(">" + code) for code in self._typecodes)
        self.keys = FileColumn(self._file, key, 0, self._entry.size, count)
        self.values = FileColumn(self._file, value, key.size, self._entry.size, count)
        self._key_array = self._value_array = array("i")
        self._note_written(count)
        self._file.forget_page()
        self.is_writable = False

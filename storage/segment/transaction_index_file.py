"""The transaction index of one segment: a file beside the log (edge over its file).

Bytes on disk: `<base offset>.txnindex`, entries of `transaction_index`. An index without entries
has no file. An entry lies in the segment of the transaction's marker, and is written after the
marker. Invariant: the offsets of markers grow strictly.

The entries in memory are authoritative. An entry that could not be written for lack of space is
written with the next one, and `sync` does not return before it is on disk. One thread owns an
index; other threads may call `sync`. A closed index holds nothing in memory until it is read.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from kafkawire.ids import Offset
from storage.disk.checkpoint import sync_data, sync_directory
from storage.disk.layout import CLEANED_SUFFIX, TRANSACTION_INDEX_SUFFIX, segment_file
from storage.errors import CorruptLogError
from storage.segment.transaction_index import (
    AbortedTransaction,
    check_index,
    find_aborted,
    size_below,
    write_aborted,
)


class TransactionIndexFile:
    """The aborted transactions with markers in one segment; empty until `open` is called."""

    __slots__ = (
        "_data",
        "_directory",
        "_is_new",
        "_lock",
        "_written_bytes",
        "base_offset",
        "size_bytes",
    )

    def __init__(self, directory: Path, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self.size_bytes = 0
        """Size of all entries, written or pending."""
        self._directory = directory
        self._data: bytearray | None = bytearray()
        self._written_bytes = 0
        # Whether the file is new, so that its directory entry may not be on disk.
        self._is_new = False
        # Guards the written size: `sync` may write pending entries in another thread.
        self._lock = Lock()

    @property
    def _path(self) -> Path:
        # Not stored: a path takes a fifteenth of the time to load a segment, and few have one.
        return segment_file(self._directory, self.base_offset, TRANSACTION_INDEX_SUFFIX)

    def open(self) -> None:
        """Open the existing file, if there is one.

        Raises:
            CorruptLogError: it cannot be the index of this segment; rebuild it with `replace`.
        """
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        self._data = None
        self.size_bytes = self._written_bytes = len(data)
        try:
            check_index(data, self.base_offset)
        except ValueError as error:
            raise CorruptLogError(self._path, 0, str(error)) from error

    def load(self) -> None:
        """Keep the entries in memory until `release`, so that `append` need not read the file.

        Raises:
            OSError: the file cannot be read.
            CorruptLogError: the file has lost entries.
        """
        self._load()

    def append(self, transactions: Sequence[AbortedTransaction]) -> None:
        """Add transactions, in the order of their markers; the entries must be in memory.

        Raises:
            OSError: the entries are valid, but not written to the file yet.
        """
        data = self._data
        assert data is not None, "the markers are in the log, so their entries must not be lost"
        with self._lock:
            data += write_aborted(transactions)
            self.size_bytes = len(data)
            self._write_rest()

    def find(self, start_offset: int, end_offset: int, found: list[AbortedTransaction]) -> bool:
        """Add to `found` the transactions that may have offsets in `start_offset`..`end_offset`.

        Returns True if the indexes of later segments have no further ones.
        """
        return find_aborted(self._load(), start_offset, end_offset, found)

    def truncate_to(self, offset: Offset) -> None:
        """Drop the transactions whose markers are at `offset` or above."""
        if self.size_bytes:
            data = self._load()
            with self._lock:
                del data[size_below(data, offset) :]
                self.size_bytes = len(data)
                self._cut_file()

    def replace(self, transactions: Sequence[AbortedTransaction]) -> None:
        """Replace all entries; after a crash the file is either the old one or the new one."""
        data = write_aborted(transactions)
        if self.size_bytes != len(data) or self._load() != data:
            with self._lock:
                self._data = bytearray(data)
                self.size_bytes = self._written_bytes = len(data)
                self._is_new = True
                if data:
                    self._rewrite(data)
                else:
                    self._path.unlink()

    def sync(self) -> None:
        """Block until all entries are on disk; any thread may call this."""
        if not self.size_bytes:
            return
        with self._lock:
            self._write_rest()
            is_new, self._is_new = self._is_new, False
        try:
            self._sync_file()
            if is_new:
                sync_directory(self._directory)
        except FileNotFoundError:
            # The file was truncated, or its segment deleted, concurrently.
            return
        except OSError:
            # The next call has to sync the directory as well.
            with self._lock:
                self._is_new = self._is_new or is_new
            raise

    def write_pending(self) -> None:
        """Write all pending entries to the file, without a sync."""
        with self._lock:
            self._write_rest()

    def release(self) -> None:
        """Free the memory and close the file."""
        with self._lock:
            if self._written_bytes == self.size_bytes and self.size_bytes:
                self._data = None

    def _sync_file(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_data(descriptor)
        finally:
            os.close(descriptor)

    def _load(self) -> bytearray:
        if self._data is None:
            try:
                data = self._path.read_bytes()
            except FileNotFoundError:
                data = b""
            if len(data) < self.size_bytes:
                # Otherwise records of aborted transactions would be served as committed.
                text = f"{len(data)} bytes of {self.size_bytes} are left"
                raise CorruptLogError(self._path, len(data), text)
            self._data = bytearray(data[: self.size_bytes])
        return self._data

    def _write_rest(self) -> None:
        if self._written_bytes == self.size_bytes:
            return
        assert self._data is not None, "pending entries are in memory"
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o644)
        try:
            self._is_new = self._is_new or not self._written_bytes
            while self._written_bytes < self.size_bytes:
                # Released at once, even if the write fails: an error that a caller keeps would
                # also keep the view, and no entry could be added as long as that exists.
                with memoryview(self._data)[self._written_bytes :] as rest:
                    self._written_bytes += os.pwrite(descriptor, rest, self._written_bytes)
        finally:
            os.close(descriptor)

    def _cut_file(self) -> None:
        self._written_bytes = min(self._written_bytes, self.size_bytes)
        if self._written_bytes:
            os.truncate(self._path, self._written_bytes)
        else:
            self._path.unlink(missing_ok=True)

    def _rewrite(self, data: bytes) -> None:
        # The next start removes files with this suffix.
        path = self._path.with_name(self._path.name + CLEANED_SUFFIX)
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            sync_data(file.fileno())
        path.replace(self._path)

"""The transaction index of one segment: a file beside the log (edge over its file).

Bytes on disk: `<base offset>.txnindex`, entries of `transaction_index`; there is no file while
there is no entry. An entry lies in the segment that holds the transaction's marker, and is written
after the marker. Invariant: the offsets of markers grow strictly.

The entries in memory count: one that could not be written, for want of space, is written with the
next one, and `sync` does not return before it is on disk. One thread owns an index; another one may
call `sync`. A closed index holds nothing in memory until it is read.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from kafkawire.ids import Offset
from storage.checkpoint import sync_directory
from storage.data_sync import sync_data
from storage.errors import CorruptLogError
from storage.layout import CLEANED_SUFFIX, TRANSACTION_INDEX_SUFFIX, segment_file
from storage.transaction_index import (
    AbortedTransaction,
    check_index,
    find_aborted,
    size_below,
    write_aborted,
)


class TransactionIndexFile:
    """The aborted transactions whose markers lie in one segment; empty until `open` is called."""

    __slots__ = (
        "_data",
        "_is_new",
        "_lock",
        "_path",
        "_written_bytes",
        "base_offset",
        "size_bytes",
    )

    def __init__(self, directory: Path, base_offset: Offset) -> None:
        self.base_offset = base_offset
        self.size_bytes = 0
        """Of all entries, whether written yet or not."""
        self._path = segment_file(directory, base_offset, TRANSACTION_INDEX_SUFFIX)
        self._data: bytearray | None = bytearray()
        self._written_bytes = 0
        # Whether the name of the file may not be on disk.
        self._is_new = False
        # Guards what was written: `sync` may complete it in another thread.
        self._lock = Lock()

    def open(self) -> None:
        """Take over the existing file, if there is one.

        Raises:
            CorruptLogError: it cannot be the index of this segment; `replace` makes it again.
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

    def append(self, transactions: Sequence[AbortedTransaction]) -> None:
        """Add transactions, in the order of their markers.

        Raises:
            OSError: they count, but are not on file yet.
        """
        data = self._load()
        with self._lock:
            data += write_aborted(transactions)
            self.size_bytes = len(data)
            self._write_rest()

    def find(self, start_offset: int, end_offset: int, found: list[AbortedTransaction]) -> bool:
        """Add to `found` what may have offsets in `start_offset`..`end_offset`.

        Returns whether the indexes of later segments have nothing to add.
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
        """Hold exactly these; the file is the old one or the new one, also after a crash."""
        data = write_aborted(transactions)
        if self.size_bytes != len(data) or self._load() != data:
            with self._lock:
                self._data = bytearray(data)
                self.size_bytes = self._written_bytes = len(data)
                self._is_new = True
                if data:
                    self._write_anew(data)
                else:
                    self._path.unlink()

    def sync(self) -> None:
        """Return when all entries are on disk; any thread may call this."""
        if not self.size_bytes:
            return
        with self._lock:
            self._write_rest()
            is_new, self._is_new = self._is_new, False
        try:
            self._sync_file()
            if is_new:
                sync_directory(self._path.parent)
        except FileNotFoundError:
            # It was cut, or its segment deleted, meanwhile.
            return
        except OSError:
            # The next call has to see to the name as well.
            with self._lock:
                self._is_new = self._is_new or is_new
            raise

    def close(self) -> None:
        """See that all entries are on file."""
        with self._lock:
            self._write_rest()

    def release(self) -> None:
        """Let go of what is in memory and on file."""
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
                # Without it, records of aborted transactions would be served as if they counted.
                text = f"{len(data)} bytes of {self.size_bytes} are left"
                raise CorruptLogError(self._path, len(data), text)
            self._data = bytearray(data[: self.size_bytes])
        return self._data

    def _write_rest(self) -> None:
        if self._written_bytes == self.size_bytes:
            return
        assert self._data is not None, "what is not on file is in memory"
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o644)
        try:
            self._is_new = self._is_new or not self._written_bytes
            while self._written_bytes < self.size_bytes:
                rest = memoryview(self._data)[self._written_bytes :]
                self._written_bytes += os.pwrite(descriptor, rest, self._written_bytes)
                rest.release()
        finally:
            os.close(descriptor)

    def _cut_file(self) -> None:
        self._written_bytes = min(self._written_bytes, self.size_bytes)
        if self._written_bytes:
            os.truncate(self._path, self._written_bytes)
        else:
            self._path.unlink(missing_ok=True)

    def _write_anew(self, data: bytes) -> None:
        # A start removes what has this suffix.
        path = self._path.with_name(self._path.name + CLEANED_SUFFIX)
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            sync_data(file.fileno())
        path.replace(self._path)

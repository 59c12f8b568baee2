"""The new segment that a cleaning writes, under names that end in `.cleaned` (edge).

Invariant: when `finish` returns, the files and their names are on disk.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kafkawire.ids import Offset
from kafkawire.records import BatchHeader, read_header
from storage.config.log_config import LogConfig
from storage.disk.checkpoint import sync_directory
from storage.disk.layout import (
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TRANSACTION_INDEX_SUFFIX,
    segment_file,
)
from storage.disk.space_reserve import free_bytes
from storage.errors import OffsetOverflowError
from storage.segment.log_file import LogFile
from storage.segment.offset_index import MAX_RELATIVE_OFFSET
from storage.segment.segment_index import SegmentIndex
from storage.segment.transaction_index import AbortedTransaction, write_aborted

SYNC_BYTES: Final = 32 * 1024 * 1024
"""Amount of data per sync: syncing a gigabyte at once would delay the syncs of other files."""


class CleanedSegment:
    """A segment that is written once, from its base offset on."""

    def __init__(
        self,
        directory: Path,
        base_offset: Offset,
        config: LogConfig,
        buffer_bytes: int,
        *,
        least_free_bytes: int = 0,
    ) -> None:
        """Create the files, replacing any that an earlier cleaning has left behind.

        Writes leave `least_free_bytes` on the disk.
        """
        remove_cleaned(directory, base_offset)
        self.base_offset = base_offset
        self._directory = directory
        self._buffer_bytes = buffer_bytes
        self._least_free_bytes = least_free_bytes
        path = segment_file(directory, base_offset, LOG_SUFFIX + CLEANED_SUFFIX)
        self._file = LogFile(path, 0, is_new=True)
        self._index = SegmentIndex(directory, base_offset, config, CLEANED_SUFFIX)
        self._index.create()
        # Copies: a view of a batch would keep the whole buffer of its read alive.
        self._pending = bytearray()
        self._synced_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Size of all batches, written or buffered."""
        return self._file.size_bytes + len(self._pending)

    def append(self, batch: memoryview | bytearray) -> int:
        """Append a batch; return the number of bytes that this call wrote to the file.

        Raises:
            OffsetOverflowError: the batch is too far from the base offset.
            OSError: the file cannot be written, or the disk would be left with too little space.
        """
        header = read_header(batch)
        self._add_to_index(header)
        self._pending += batch
        return self._write() if len(self._pending) >= self._buffer_bytes else 0

    def _add_to_index(self, header: BatchHeader) -> None:
        if header.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            raise OffsetOverflowError(f"offset {header.last_offset} in segment {self.base_offset}")
        self._index.add_batch(
            self.size_bytes, header.size_bytes, Offset(header.last_offset), header.max_timestamp_ms
        )

    def _write(self) -> int:
        written = len(self._pending)
        if free_bytes(self._directory) - written < self._least_free_bytes:
            # A full disk would refuse appends, so a cleaning must not fill it.
            reason = f"a cleaned segment must leave {self._least_free_bytes} bytes free"
            raise OSError(errno.ENOSPC, reason, str(self._file.path))
        self._file.append(memoryview(self._pending))
        self._pending = bytearray()
        if self._file.size_bytes - self._synced_bytes >= SYNC_BYTES:
            self._file.sync()
            self._synced_bytes = self._file.size_bytes
        return written

    def finish(self, aborted: Sequence[AbortedTransaction], modified_ns: int) -> None:
        """Complete and sync all files, and set the modification time of the log file."""
        self._write()
        self._index.close()
        self._file.sync()
        self._index.sync()
        self._index.release()
        if aborted:
            self._write_transactions(aborted)
        os.utime(self._file.path, ns=(modified_ns, modified_ns))
        sync_directory(self._directory)

    def _write_transactions(self, aborted: Sequence[AbortedTransaction]) -> None:
        suffix = TRANSACTION_INDEX_SUFFIX + CLEANED_SUFFIX
        with segment_file(self._directory, self.base_offset, suffix).open("wb") as file:
            file.write(write_aborted(aborted))
            file.flush()
            os.fsync(file.fileno())


def remove_cleaned(directory: Path, base_offset: int) -> None:
    """Remove the files of a cleaned segment that will not be used."""
    for suffix in SEGMENT_SUFFIXES:
        segment_file(directory, base_offset, suffix + CLEANED_SUFFIX).unlink(missing_ok=True)


def remove_all_cleaned(directory: Path) -> None:
    """Remove the files of an unfinished cleaning; do nothing if the directory is gone."""
    for path in directory.glob(f"*{CLEANED_SUFFIX}"):
        path.unlink(missing_ok=True)

"""Writer of the log (edge): one segment at a time, one batch per sync.

`append` writes to the page cache; `sync` makes all written batches durable. The methods may be
called from any thread, but only one of them at a time.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog

from coordination.errors import OUT_OF_DESCRIPTORS
from coordination.server.disk import wal
from coordination.server.disk.data_dir import opened_directory, segment_path
from coordination.server.disk.wal import ALLOCATION_STEP_BYTES, SegmentHeader
from coordination.server.state.txns import Entry

SEGMENT_MAX_BYTES: Final = 64 * 1024 * 1024
SEGMENT_MAX_ENTRIES: Final = 100_000

log = structlog.get_logger(__name__)


class WalWriter:
    """Open end of the log."""

    def __init__(self, directory: Path, store_id: bytes, *, last_zxid: int, last_crc: int) -> None:
        """Create a new segment after transaction `last_zxid`."""
        self._directory = directory
        self._store_id = store_id
        self._chain = wal.Chain(store_id, last_crc)
        self._last_zxid = last_zxid
        self._is_roll_late = False
        with opened_directory(directory) as parent:
            self._open_segment(parent, closes_previous=False)

    def _open_segment(self, parent: int, *, closes_previous: bool) -> None:
        header = SegmentHeader(self._store_id, self._last_zxid + 1, self._chain.last_crc)
        path = segment_path(self._directory, header.first_zxid)
        # Renamed only once the header and the allocated space are on disk.
        temporary = path.with_suffix(".tmp")
        file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            if closes_previous:
                self.close()
            _write_all(file, wal.encode_header(header), 0)
            os.posix_fallocate(file, 0, ALLOCATION_STEP_BYTES)
            os.fsync(file)
            temporary.rename(path)
            os.fsync(parent)
        except OSError:
            os.close(file)
            # On a full disk some file systems have allocated a part of the space.
            temporary.unlink(missing_ok=True)
            raise
        self.path, self._file = path, file
        self._position = wal.HEADER_BYTES
        self._allocated_bytes = ALLOCATION_STEP_BYTES
        self._entry_count = 0

    @property
    def is_full(self) -> bool:
        """Whether the segment has reached a limit, so that `roll` is due."""
        return self._position >= SEGMENT_MAX_BYTES or self._entry_count >= SEGMENT_MAX_ENTRIES

    @property
    def entry_count(self) -> int:
        """Number of transactions in the open segment."""
        return self._entry_count

    def append(self, entries: Sequence[Entry]) -> None:
        """Write one batch; it is durable after the next `sync`."""
        payload = wal.encode_entries(entries)
        self._make_room(payload)
        self._write(payload, entries)

    def append_if_room(self, entries: Sequence[Entry]) -> bool:
        """Write one batch unless the segment must grow or roll first; return whether it is written.

        To grow or roll, a segment waits for the disk.
        """
        if self.is_full:
            return False
        payload = wal.encode_entries(entries)
        if self._needed_bytes(payload) > self._allocated_bytes:
            return False
        self._write(payload, entries)
        return True

    def _write(self, payload: bytes, entries: Sequence[Entry]) -> None:
        batch = self._chain.frame(payload)
        _write_all(self._file, batch, self._position)
        self._position += len(batch)
        self._entry_count += len(entries)
        self._last_zxid = entries[-1].zxid

    def _needed_bytes(self, payload: bytes) -> int:
        """Return the size of the file that a batch with `payload` needs."""
        # Leaves space after the batch, so that a seal fits too.
        seal_bytes = wal.BATCH_HEADER_BYTES + len(wal.CLOSING_PAYLOAD)
        return self._position + wal.BATCH_HEADER_BYTES + len(payload) + seal_bytes

    def _make_room(self, payload: bytes) -> None:
        missing_bytes = self._needed_bytes(payload) - self._allocated_bytes
        if missing_bytes > 0:
            steps = -(-missing_bytes // ALLOCATION_STEP_BYTES)
            growth = steps * ALLOCATION_STEP_BYTES
            try:
                os.posix_fallocate(self._file, self._allocated_bytes, growth)
            except OSError:
                # On a full disk some file systems (ext4) have grown the file by a part of it. Such
                # a size is that of a truncated file, with which no coordinator starts.
                os.ftruncate(self._file, self._allocated_bytes)
                raise
            # Otherwise a loss of power could leave another size with a torn batch, as a truncation
            # of the file does.
            os.fsync(self._file)
            self._allocated_bytes += growth

    def sync(self) -> None:
        """Make all written batches durable."""
        os.fdatasync(self._file)

    def seal(self) -> None:
        """Write a seal after the last batch, which must be synced; the seal itself is not."""
        _write_all(self._file, self._chain.seal(), self._position)

    def roll(self) -> bool:
        """Close the segment, whose batches must be synced, and create the next one.

        Return False, with the segment still open, if no descriptor is left for the next one.
        """
        try:
            # All descriptors are opened before anything changes.
            with opened_directory(self._directory) as parent:
                self._open_segment(parent, closes_previous=True)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
            if not self._is_roll_late:
                log.warning("segment.not_rolled", file=str(self.path), error=str(error))
            self._is_roll_late = True
            return False
        self._is_roll_late = False
        return True

    def close(self) -> None:
        """Close the segment for good."""
        try:
            close_segment(self._file, self._chain, self._position)
        finally:
            os.close(self._file)


def finish_segment(path: Path, store_id: bytes, *, end_offset: int, last_crc: int) -> None:
    """Close a segment that a crash left open, and cut off its torn tail."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        close_segment(descriptor, wal.Chain(store_id, last_crc), end_offset)
    finally:
        os.close(descriptor)


def close_segment(file: int, chain: wal.Chain, end_offset: int) -> None:
    """Write the closing seal at `end_offset`, then truncate the file after it."""
    seal = chain.seal(wal.CLOSING_PAYLOAD)
    _write_all(file, seal, end_offset)
    os.fsync(file)
    os.ftruncate(file, end_offset + len(seal))
    os.fsync(file)


def _write_all(file: int, data: bytes, position: int) -> None:
    written = os.pwrite(file, data, position)
    while written < len(data):
        written += os.pwrite(file, data[written:], position + written)

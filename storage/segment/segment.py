"""One segment of a log: a file of batches and its indexes (edge).

Bytes on disk: `<base offset>.log`, `.index`, `.timeindex`, `.txnindex`. An index entry is written
after its batch, so that no entry points past the end of the file.

A segment is *active* while it accepts appends, and *closed* otherwise. The files of a closed
segment look as Kafka leaves them. It keeps nothing in memory, and opens its files on first use.
Indexes that are inconsistent with the log are detected on use, and rebuilt.
"""

from contextlib import suppress
from pathlib import Path
from threading import Lock
from zlib import crc32

import structlog

from kafkawire.ids import Offset
from kafkawire.records import BatchHeader
from storage.config.log_config import LogConfig
from storage.errors import CorruptLogError, OffsetOverflowError
from storage.segment.batch_scan import NO_LIMIT, BatchPlace, find_batch, walk_headers
from storage.segment.log_file import FileRegion, LogFile
from storage.segment.offset_index import MAX_RELATIVE_OFFSET, IndexEntry
from storage.segment.segment_files import SegmentFiles
from storage.segment.segment_index import SegmentIndex
from storage.segment.transaction_index_file import TransactionIndexFile

log = structlog.get_logger(__name__)

__all__ = ["FileRegion", "LogFile", "Segment"]


class Segment:
    """The segment at `base_offset`; one thread owns it, other threads may only call `sync`."""

    __slots__ = (
        "_closed_size_bytes",
        "_created_ms",
        "_file",
        "_file_lock",
        "_first_timestamp_ms",
        "_jitter_ms",
        "_tail_offset",
        "_tail_position",
        "base_offset",
        "files",
        "index",
        "is_active",
        "is_counted",
        "next_offset",
        "transactions",
    )

    def __init__(
        self, directory: Path, base_offset: Offset, size_bytes: int, config: LogConfig, now_ms: int
    ) -> None:
        self.base_offset = base_offset
        self.files = SegmentFiles(directory, base_offset)
        self.index = SegmentIndex(directory, base_offset, config)
        self.transactions = TransactionIndexFile(directory, base_offset)
        """Aborted transactions with markers in this segment; empty until its `open` is called."""
        self.is_active = False
        self.is_counted = False
        """Whether `next_offset` and the maximum timestamp are known."""
        self.next_offset = base_offset
        """Offset of the next append."""
        self._file: LogFile | None = None
        # Compiled code drops the old value of an attribute before it stores the new one: without
        # the lock, `sync` could get a file that `release` is closing.
        self._file_lock = Lock()
        self._closed_size_bytes = size_bytes
        self._created_ms = now_ms
        self._first_timestamp_ms: int | None = None
        self._jitter_ms = _jitter_ms(config, f"{directory.name}/{base_offset}")
        # The newest batch. Consumers that keep up read here, without an index lookup.
        self._tail_offset = NO_LIMIT
        self._tail_position = 0

    @classmethod
    def create(
        cls, directory: Path, base_offset: Offset, config: LogConfig, now_ms: int
    ) -> "Segment":
        """Create an empty, active segment, replacing any existing files.

        Raises:
            OSError: no file of the segment is left, as the next batch may fit in the one before.
        """
        segment = cls(directory, base_offset, 0, config, now_ms)
        try:
            segment._file = segment.files.create_log(config)
            segment.start_indexing()
        except OSError:
            with suppress(OSError):
                segment.files.remove()
            raise
        return segment

    @property
    def file(self) -> LogFile:
        """The `.log` file; first use opens it together with its indexes."""
        return self._file or self._open()

    @property
    def size_bytes(self) -> int:
        """Size of all batches."""
        return self._closed_size_bytes if self._file is None else self._file.size_bytes

    @property
    def first_timestamp_ms(self) -> int:
        """Largest timestamp of the first batch; the segment must not be empty."""
        if self._first_timestamp_ms is None:
            self._first_timestamp_ms = self._read_first_timestamp()
        return self._first_timestamp_ms

    def must_roll(
        self,
        size_bytes: int,
        last_offset: int,
        max_timestamp_ms: int,
        config: LogConfig,
        now_ms: int,
    ) -> bool:
        """Whether a batch of this size, end and timestamp needs a new segment.

        The age of the segment is measured by record timestamps, starting from the first batch. If
        that has none, the clock is used. An empty segment accepts a batch of any size.
        """
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        # Without the properties, because this runs for each batch.
        size = self._closed_size_bytes if self._file is None else self._file.size_bytes
        if size == 0:
            return False
        first_ms = self._first_timestamp_ms
        if first_ms is None:
            first_ms = self.first_timestamp_ms
        waited_ms = max_timestamp_ms - first_ms if first_ms >= 0 else now_ms - self._created_ms
        return (
            size + size_bytes > config.segment_bytes
            or waited_ms > config.max_segment_ms - self._jitter_ms
            or self.index.is_full
        )

    def append(
        self, batch: memoryview, base_offset: Offset, last_offset: Offset, max_timestamp_ms: int
    ) -> None:
        """Write `batch` at the end.

        Raises:
            OffsetOverflowError: the batch is too far from the base offset; the log must roll.
            OSError: nothing was appended.
        """
        if not self.is_active:
            self.activate()
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            raise OffsetOverflowError(f"offset {last_offset} in segment {self.base_offset}")
        assert base_offset >= self.next_offset, "offsets only grow"
        file = self._file
        assert file is not None
        position = file.size_bytes
        file.append(batch)
        self._add_batch(position, len(batch), base_offset, last_offset, max_timestamp_ms)

    def append_all(self, data: memoryview, headers: list[BatchHeader]) -> None:
        """Write several batches, as `append` does, with one write."""
        if not self.is_active:
            self.activate()
        assert headers[0].base_offset >= self.next_offset, "offsets only grow"
        assert self._file is not None
        position = self._file.size_bytes
        self._file.append(data)
        for header in headers:
            self.add_batch(position, header)
            position += header.size_bytes

    def add_batch(self, position: int, header: BatchHeader) -> None:
        """Add a batch at `position` of the log file to the indexes.

        Raises:
            CorruptLogError: its offsets are outside of this segment's range.
        """
        if header.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            path = self.files.open_log(0).path
            raise CorruptLogError(path, position, f"offset {header.last_offset} is too far away")
        self._add_batch(
            position,
            header.size_bytes,
            Offset(header.base_offset),
            Offset(header.last_offset),
            header.max_timestamp_ms,
        )

    def _add_batch(
        self,
        position: int,
        size_bytes: int,
        base_offset: Offset,
        last_offset: Offset,
        max_timestamp_ms: int,
    ) -> None:
        if position == 0:
            self._first_timestamp_ms = max_timestamp_ms
        self.index.add_batch(position, size_bytes, last_offset, max_timestamp_ms)
        self.next_offset = Offset(last_offset + 1)
        self._tail_offset = base_offset
        self._tail_position = position

    def find(self, offset: Offset) -> BatchPlace | None:
        """Return the first batch that ends at or after `offset`; None if all end below it.

        Raises:
            CorruptLogError: the log is damaged.
        """
        # This comes first, because it opens the indexes too.
        file = self._file or self._open()
        if offset >= self._tail_offset:
            return find_batch(file, self._tail_position, file.size_bytes, offset)
        entry = self.index.offsets.lookup(offset)
        if entry.position == 0:
            return find_batch(file, 0, file.size_bytes, offset)
        try:
            return self._find_from(entry, offset)
        except CorruptLogError as error:
            # Damage behind the batch of the entry is damage of the log, not of the index.
            if error.position != entry.position:
                raise
            log.warning("index.damaged", path=str(file.path), error=str(error))
        self.mend_index()
        return find_batch(file, self.index.offsets.lookup(offset).position, file.size_bytes, offset)

    def _find_from(self, entry: IndexEntry, offset: Offset) -> BatchPlace | None:
        """Find a batch, starting with the one at the position of an index entry.

        That batch must not end above the entry's offset. It may end below it, because a Kafka
        follower up to 3.9 writes one entry for several batches.
        """
        file = self.file
        if entry.position >= file.size_bytes:
            raise CorruptLogError(file.path, entry.position, "index entry beyond the end")
        return find_batch(file, entry.position, file.size_bytes, offset, entry.offset)

    def holds(self, region: FileRegion) -> bool:
        """Whether a region that was just read lies in this segment."""
        return self._file is region.file

    def offset_behind(self, region: FileRegion, end_offset: Offset) -> Offset:
        """Return an upper bound of the offsets in `region`, which lies here, by the index.

        The bound is `end_offset`, the end of the segment, if no entry lies behind the region.
        """
        entry = self.index.offsets.first_entry_from(region.position + region.size_bytes)
        return end_offset if entry is None else entry.offset

    def read_header(self, place: BatchPlace) -> BatchHeader:
        """Read the complete header of a batch that `find` has found."""
        return next(walk_headers(self.file, place.position, self.size_bytes))[1]

    def mend_index(self) -> None:
        """Rebuild both indexes, because one of them is inconsistent with the log.

        Raises:
            CorruptLogError: the log is damaged. The indexes stay unchanged, because only they lead
                to the batches behind the damage.
        """
        for _ in walk_headers(self.file, 0, self.size_bytes):
            pass
        self.index_again()

    def index_again(self) -> None:
        """Rebuild both indexes from the log alone.

        Raises:
            CorruptLogError: the log is damaged; the indexes cover the batches before the damage.
        """
        was_active = self.is_active
        self.start_indexing()
        try:
            for position, header in walk_headers(self.file, 0, self.size_bytes):
                self.add_batch(position, header)
        finally:
            if not was_active:
                self.close()
        log.info("index.rebuilt", path=str(self.file.path), entry_count=len(self.index.offsets))

    def start_indexing(self) -> None:
        """Empty the indexes; the caller must add every batch of the log again.

        Raises:
            OSError: the next use opens the files, and rebuilds the indexes.
        """
        self._file = self._file or self.files.open_log(self._closed_size_bytes)
        try:
            self.index.create()
        except OSError:
            self.is_active = self.is_counted = False
            self.release()
            raise
        self.is_active = self.is_counted = True
        self._forget_batches()

    def activate(self) -> None:
        """Make a closed segment ready for appends."""
        self._file = self.file
        self.transactions.load()
        self.index.activate()
        self.is_active = True

    def truncate_to(self, offset: Offset) -> Offset:
        """Drop every batch that holds `offset` or a later one; return the new log end offset.

        That is `offset`, or the base offset of the batch that held it. The segment is active
        afterwards.
        """
        found = self.find(offset)
        if not self.is_active:
            self.activate()
        if found is None:
            return offset
        # Before the log: if the disk is full, this fails while all batches are still there.
        self.index.truncate_to(Offset(found.base_offset))
        self.file.truncate(found.position)
        # Last: as long as the batches are there, readers must know which ones were aborted. After a
        # crash before this, recovery rebuilds the index.
        self.transactions.truncate_to(Offset(found.base_offset))
        self._forget_batches()
        for place in walk_headers(self.file, self.index.rewind(), found.position):
            self.add_batch(*place)
        return Offset(min(offset, found.base_offset))

    def sync(self) -> None:
        """Block until log, indexes and snapshot are on disk; any thread may call this."""
        with self._file_lock:
            file = self._file
        if file is None:
            self.files.sync()
        else:
            file.sync()
            self.index.sync()
            self.transactions.sync()
            self.files.sync_snapshot()

    def close(self) -> None:
        """Stop appending: write the last entry of the time index and truncate files to size.

        Raises:
            OSError: the files are partly closed; close again, or append.
        """
        if self.is_active or self.index.is_writable:
            # First, because an append must make the index that is closed already writable again.
            self.is_active = False
            self.transactions.write_pending()
            self.file.truncate(self.size_bytes)
            self.index.close()

    def release(self) -> None:
        """Close the files of a closed segment until its next use."""
        assert not self.is_active
        self._closed_size_bytes = self.size_bytes
        with self._file_lock:
            self._file = None
        self.index.release()
        self.transactions.release()

    def resume(self) -> None:
        """Find the end of the last segment of a log, and close its files again.

        Raises:
            CorruptLogError: the end of the log is damaged; recovery must truncate it.
        """
        self._file = self.files.open_log(self._closed_size_bytes)
        try:
            if not self._open_index():
                self.index_again()
        finally:
            self.release()

    def _open(self) -> LogFile:
        """Open a closed segment. Batches before a damaged end are served."""
        self._file = file = self.files.open_log(self._closed_size_bytes)
        try:
            if not self._open_index():
                self.index_again()
        except CorruptLogError as error:
            self.is_counted = True
            log.error("log.damaged", path=str(file.path), error=str(error))
        except OSError:
            # The next use reopens all three files, or fails again.
            self.is_active = False
            self.release()
            raise
        return file

    def _open_index(self) -> bool:
        """Open the indexes and count up to the end; False if they are inconsistent with the log."""
        try:
            return self.index.open() and (self.is_counted or self._count())
        except FileNotFoundError:
            return False

    def _count(self) -> bool:
        """Count the batches after the last index entry; False if the indexes are inconsistent."""
        last = self.index.offsets.last_entry()
        start = self.index.rewind()
        try:
            if last:
                self._find_from(last, last.offset)
            for position, header in walk_headers(self.file, start, self.size_bytes):
                if self.index.is_entry_due:
                    return False
                self.add_batch(position, header)
        except CorruptLogError:
            # Either the indexes are wrong or the log is; rebuilding them shows which.
            return False
        self.is_counted = True
        return self.index.ends_with_maximum()

    def _forget_batches(self) -> None:
        self.next_offset = self.base_offset
        self._first_timestamp_ms = None
        self._tail_offset = NO_LIMIT
        self._tail_position = 0

    def _read_first_timestamp(self) -> int:
        _, header = next(walk_headers(self.file, 0, self.size_bytes))
        return header.max_timestamp_ms


def _jitter_ms(config: LogConfig, name: str) -> int:
    """Return a pseudo-random time that is stable for a segment across restarts."""
    limit_ms = min(config.segment_jitter_ms, config.segment_ms)
    return crc32(name.encode()) % limit_ms if limit_ms else 0

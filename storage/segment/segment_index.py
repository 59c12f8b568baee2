"""The two indexes of a segment, and the rule for adding entries (edge over their files).

Invariant: the entries on disk depend only on the batches in the log. Appending, truncating,
closing, reopening and rebuilding all lead to the same entries.
"""

from pathlib import Path

from kafkawire.ids import Offset
from kafkawire.sentinels import NO_TIMESTAMP
from storage.config.log_config import LogConfig
from storage.disk.layout import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_file
from storage.segment.offset_index import OffsetIndex
from storage.segment.time_index import TimeIndex


class SegmentIndex:
    """The offset index and time index of one segment; other threads may only call `sync`."""

    __slots__ = (
        "_bytes_since_entry",
        "base_offset",
        "interval_bytes",
        "is_full",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offsets",
        "times",
    )

    def __init__(
        self, directory: Path, base_offset: Offset, config: LogConfig, state: str = ""
    ) -> None:
        """`state` is the second suffix of the files; empty for a live segment."""
        max_bytes = config.segment_index_bytes
        self.base_offset = base_offset
        self.offsets = OffsetIndex(
            segment_file(directory, base_offset, OFFSET_INDEX_SUFFIX + state),
            base_offset,
            max_bytes,
        )
        self.times = TimeIndex(
            segment_file(directory, base_offset, TIME_INDEX_SUFFIX + state), base_offset, max_bytes
        )
        self.is_full = False
        """Whether an index has no room for the next entry, so that the segment must be closed."""
        self.max_timestamp_ms = NO_TIMESTAMP
        """The largest timestamp of the batches added so far."""
        self.max_timestamp_offset = base_offset
        """The last offset of the first batch with that timestamp."""
        self.interval_bytes = config.index_interval_bytes
        self._bytes_since_entry = 0

    @property
    def is_entry_due(self) -> bool:
        """Whether the next batch gets an entry."""
        return self._bytes_since_entry > self.interval_bytes

    @property
    def is_writable(self) -> bool:
        """Whether a file has not been closed; a failed `close` may leave one of them."""
        return self.offsets.file.is_writable or self.times.file.is_writable

    def add_batch(
        self, position: int, size_bytes: int, last_offset: Offset, max_timestamp_ms: int
    ) -> None:
        """Add a batch that has been written to the log at `position`."""
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = last_offset
        if self._bytes_since_entry > self.interval_bytes:
            self._append_entries(last_offset, position)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes

    def _append_entries(self, last_offset: Offset, position: int) -> None:
        # Even beyond the limit: only an index rebuilt under a lowered limit can exceed it.
        self.offsets.append(last_offset, position)
        self.times.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
        self._check_room()

    def _check_room(self) -> None:
        self.is_full = self.offsets.is_full or self.times.is_full

    def create(self) -> None:
        """Create both files empty, or empty the existing ones."""
        self._forget_batches()
        self.offsets.file.create()
        self.times.create()
        self._check_room()

    def open(self) -> bool:
        """Open the existing files; return whether they look like an index.

        Raises:
            FileNotFoundError: one of them is missing.
        """
        has_whole_entries = self.offsets.file.open() == 0 and self.times.file.open() == 0
        return has_whole_entries and self._is_plausible()

    def _is_plausible(self) -> bool:
        """Whether the last entries are consistent with the first ones; costs two reads."""
        for index in (self.offsets.file, self.times.file):
            if len(index.keys) > 1 and not (
                index.keys[0] < index.keys[-1] and 0 <= index.values[0] <= index.values[-1]
            ):
                return False
        return True

    def activate(self) -> None:
        """Make the opened files writable."""
        self.offsets.file.make_writable()
        self.times.make_writable()
        self.times.truncate_after(self._last_indexed())
        self._check_room()

    def rewind(self) -> int:
        """Reset to the last entry; return the position from which batches must be added again."""
        self._forget_batches()
        slot = self.times.slot_of(self._last_indexed())
        if slot >= 0:
            self.max_timestamp_ms, self.max_timestamp_offset = self.times.entry(slot)
        last = self.offsets.last_entry()
        return last.position if last else 0

    def has_room_for(self, entry_count: int) -> bool:
        """Whether `entry_count` more entries fit without closing the segment."""
        files = (self.offsets.file, self.times.file)
        return all(len(file.keys) + entry_count < file.max_entries for file in files)

    def ends_with_maximum(self) -> bool:
        """Whether the time index ends with the maximum, as `close` leaves it.

        Leaders of older releases of Kafka have written the offset of the record instead of the last
        one of its batch. A wrong offset is detected on use.
        """
        last = self.times.last_entry()
        if last is None:
            return self.max_timestamp_ms == NO_TIMESTAMP
        return (
            last.timestamp_ms == self.max_timestamp_ms and last.offset <= self.max_timestamp_offset
        )

    def truncate_to(self, offset: Offset) -> None:
        """Drop the entries of batches that hold `offset` or a later one; call `rewind` next."""
        self.offsets.truncate_to(offset)
        self.times.truncate_after(self._last_indexed())
        self._check_room()

    def close(self) -> None:
        """Write the maximum as the last entry of the time index and truncate files to size."""
        # Otherwise it has its last entry: `activate` has failed between the two files.
        if self.times.file.is_writable:
            self.times.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
        self.offsets.file.finish()
        self.times.file.finish()

    def release(self) -> None:
        """Close the descriptors of closed indexes until their next use."""
        self.offsets.file.release()
        self.times.file.release()

    def sync(self) -> None:
        """Block until all entries are on disk; any thread may call this."""
        self.offsets.file.sync()
        self.times.file.sync()

    def _last_indexed(self) -> Offset:
        last = self.offsets.last_entry()
        return last.offset if last else Offset(self.base_offset - 1)

    def _forget_batches(self) -> None:
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset
        self._bytes_since_entry = 0

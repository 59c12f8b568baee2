"""The time index of a segment: a sparse map from time to offset (edge over its file).

An entry (timestamp, offset) means that no record up to `offset` is later than `timestamp`, and that
the batch ending with `offset` was the first to reach it. An entry is written together with an entry
of the offset index if the maximum has risen since the last one, and once more when the segment is
closed. The last entry of a closed segment is therefore its maximum.
Invariant: timestamps grow strictly, offsets never shrink. Bytes on disk: timestamp 8, relative
offset 4. Source: KIP-33.
"""

from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from kafkawire.ids import Offset
from kafkawire.sentinels import NO_TIMESTAMP
from storage.segment.index_file import IndexFile


class TimeIndexEntry(NamedTuple):
    """The running maximum of timestamps, and the last offset of the batch that reached it."""

    timestamp_ms: int
    offset: Offset


class TimeIndex:
    """The time index of one segment."""

    __slots__ = ("_last_timestamp_ms", "base_offset", "file")

    def __init__(self, path: Path, base_offset: Offset, max_bytes: int) -> None:
        self.base_offset = base_offset
        self.file = IndexFile(path, "qi", max_bytes)
        # A copy in memory, because every entry of the offset index needs it.
        self._last_timestamp_ms = NO_TIMESTAMP

    def __len__(self) -> int:
        return len(self.file.keys)

    @property
    def is_full(self) -> bool:
        """Whether the segment must be closed; one slot is reserved for the closing entry."""
        file = self.file
        return len(file.keys) >= file.max_entries - 1

    def create(self) -> None:
        """Create an empty file in writable mode."""
        self.file.create()
        self._remember_last()

    def make_writable(self) -> None:
        """Load the entries of an opened index, and extend its file again."""
        self.file.make_writable()
        self._remember_last()

    def maybe_append(self, timestamp_ms: int, offset: Offset) -> None:
        """Add an entry if the maximum has risen since the last one."""
        if timestamp_ms > self._last_timestamp_ms:
            self.file.append(timestamp_ms, offset - self.base_offset)
            self._last_timestamp_ms = timestamp_ms

    def lookup(self, timestamp_ms: int) -> TimeIndexEntry:
        """Return the last entry at or below `timestamp_ms`.

        A time before the first entry returns the head of the segment, with no timestamp.
        """
        slot = bisect_right(self.file.keys, timestamp_ms) - 1
        if slot < 0:
            return TimeIndexEntry(NO_TIMESTAMP, self.base_offset)
        return self.entry(slot)

    def entry(self, slot: int) -> TimeIndexEntry:
        """Return the entry in `slot`; negative slots count from the end."""
        offset = Offset(self.base_offset + self.file.values[slot])
        return TimeIndexEntry(self.file.keys[slot], offset)

    def last_entry(self) -> TimeIndexEntry | None:
        """Return the last entry, or None when there is none."""
        return self.entry(-1) if len(self.file.keys) else None

    def slot_of(self, offset: Offset) -> int:
        """Return the slot of the last entry at or below `offset`, or -1."""
        return bisect_right(self.file.values, offset - self.base_offset) - 1

    def truncate_after(self, offset: Offset) -> None:
        """Drop the entries above `offset`, the last one in the offset index.

        When a closed segment becomes active again, this also drops the closing entry. The file then
        equals the result of a rebuild from the log.
        """
        self.file.truncate(self.slot_of(offset) + 1)
        self._remember_last()

    def _remember_last(self) -> None:
        last = self.last_entry()
        self._last_timestamp_ms = last.timestamp_ms if last else NO_TIMESTAMP

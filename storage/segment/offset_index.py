"""The offset index of a segment: a sparse map from offset to byte position (edge over its file).

A batch gets an entry when more than `index.interval.bytes` have been appended since the last entry.
The entry holds the batch's **last** offset and the position where the batch **starts**.
Invariant: offsets and positions grow strictly. Bytes on disk: relative offset 4, position 4.
"""

from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Final, NamedTuple

from kafkawire.ids import Offset
from storage.segment.index_file import IndexFile

MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class IndexEntry(NamedTuple):
    """Position of a batch, and its last offset."""

    offset: Offset
    position: int


class OffsetIndex:
    """The offset index of one segment."""

    __slots__ = ("_last_slot", "base_offset", "file")

    def __init__(self, path: Path, base_offset: Offset, max_bytes: int) -> None:
        self.base_offset = base_offset
        self.file = IndexFile(path, "ii", max_bytes)
        self._last_slot = 0

    def __len__(self) -> int:
        return len(self.file.keys)

    @property
    def is_full(self) -> bool:
        """Whether the index has no room for another entry, so that the segment must be closed."""
        file = self.file
        return len(file.keys) >= file.max_entries

    def append(self, offset: Offset, position: int) -> None:
        """Add the entry of the batch that was just appended."""
        self.file.append(offset - self.base_offset, position)

    def lookup(self, target: Offset) -> IndexEntry:
        """Return the last entry at or below `target`, where a scan for it starts.

        A target before the first entry starts at the head of the segment.
        """
        file = self.file
        base_offset = self.base_offset
        slot = bisect_right(file.keys, target - base_offset) - 1
        if slot < 0:
            self._last_slot = 0
            return IndexEntry(base_offset, 0)
        self._last_slot = slot
        return IndexEntry(Offset(base_offset + file.keys[slot]), file.values[slot])

    def lookup_position(self, position: int) -> IndexEntry:
        """Return the last entry at or below a byte position, or the head of the segment."""
        slot = bisect_right(self.file.values, position) - 1
        return self.entry(slot) if slot >= 0 else IndexEntry(self.base_offset, 0)

    def last_entry_in(
        self, first_position: int, limit: int, interval_bytes: int
    ) -> IndexEntry | None:
        """Return the last entry with a position above `first_position` and up to `limit`.

        This finds the end of a region right after the lookup of its start: it searches only the
        entries after that start that can lie within the region.
        """
        values = self.file.values
        first = self._last_slot
        if first >= len(values) or values[first] > first_position:
            # Another lookup came in between.
            first = 0
        entry_count = (limit - first_position) // (interval_bytes + 1) + 2
        slot = bisect_right(values, limit, first, min(first + entry_count, len(values))) - 1
        return self.entry(slot) if slot >= 0 and values[slot] > first_position else None

    def first_entry_from(self, position: int) -> IndexEntry | None:
        """Return the first entry at `position` or a later one."""
        slot = bisect_left(self.file.values, position)
        return self.entry(slot) if slot < len(self.file.values) else None

    def entry(self, slot: int) -> IndexEntry:
        """Return the entry in `slot`; negative slots count from the end."""
        offset = Offset(self.base_offset + self.file.keys[slot])
        return IndexEntry(offset, self.file.values[slot])

    def last_entry(self) -> IndexEntry | None:
        """Return the last entry, or None when there is none."""
        return self.entry(-1) if len(self.file.keys) else None

    def truncate_to(self, offset: Offset) -> None:
        """Drop the entries of batches that hold `offset` or a later one."""
        self.file.truncate(bisect_left(self.file.keys, offset - self.base_offset))

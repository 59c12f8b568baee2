"""Where in a segment an offset is: a sparse map from offset to byte position (edge over its file).

An entry is written with a batch when more than `index.interval.bytes` have been appended since the
last entry; it names the batch's **last** offset and the position where the batch **starts**.
Invariant: offsets and positions grow strictly. Bytes on disk: relative offset 4, position 4.
"""

from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Final, NamedTuple

from kafkawire.ids import Offset
from storage.index_file import IndexFile

MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class IndexEntry(NamedTuple):
    """The batch that starts at `position` ends with `offset`."""

    offset: Offset
    position: int


class OffsetIndex:
    """The offset index of one segment."""

    __slots__ = ("base_offset", "file")

    def __init__(self, path: Path, base_offset: Offset, max_bytes: int) -> None:
        self.base_offset = base_offset
        self.file = IndexFile(path, "ii", max_bytes)

    def __len__(self) -> int:
        return len(self.file.keys)

    @property
    def is_full(self) -> bool:
        """Whether no entry fits any more, so that the segment must be closed."""
        return len(self.file.keys) >= self.file.max_entries

    def append(self, offset: Offset, position: int) -> None:
        """Add the entry of the batch that was just appended."""
        self.file.append(offset - self.base_offset, position)

    def lookup(self, target: Offset) -> IndexEntry:
        """Return the last entry at or below `target`, where a scan for it starts.

        A target before the first entry starts at the head of the segment.
        """
        slot = bisect_right(self.file.keys, target - self.base_offset) - 1
        if slot < 0:
            return IndexEntry(self.base_offset, 0)
        return self.entry(slot)

    def lookup_position(self, position: int) -> IndexEntry:
        """Return the last entry whose batch starts at or below `position` in the file."""
        slot = bisect_right(self.file.values, position) - 1
        if slot < 0:
            return IndexEntry(self.base_offset, 0)
        return self.entry(slot)

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

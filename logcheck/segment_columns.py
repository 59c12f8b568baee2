"""The batches of a segment in flat columns, for lookups by offset or position (decision)."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from kafkawire.records import BatchHeader


def last_gap_below(segments: Sequence["SegmentColumns"], end_offset: int) -> int:
    """Return the end of the last missing offsets below `end_offset`; 0 if none are missing."""
    gap_end = next_offset = 0
    for segment in segments:
        for base_offset, last_offset in zip(
            segment.base_offsets, segment.last_offsets, strict=True
        ):
            if base_offset >= end_offset:
                return gap_end
            if base_offset > next_offset:
                gap_end = base_offset
            next_offset = last_offset + 1
    return gap_end


class SegmentColumns:
    """Position, offsets and running maximum timestamp of every batch, in file order."""

    def __init__(self, base_offset: int, file: str) -> None:
        self.base_offset = base_offset
        self.file = file
        # Flat columns: a segment of 1 GiB may hold a million batches.
        self.positions = array("q")
        self.base_offsets = array("q")
        self.last_offsets = array("q")
        self.newest_so_far = array("q")
        self.end_position = 0
        self.damaged_positions: set[int] = set()

    def add(self, position: int, header: BatchHeader) -> None:
        """Append a batch."""
        newest_ms = self.newest_timestamp_ms
        if header.max_timestamp_ms > newest_ms:
            newest_ms = header.max_timestamp_ms
        self.extend([position, header.base_offset, header.last_offset, newest_ms])

    def extend(self, rows: list[int]) -> None:
        """Append batches, each as position, first and last offset, maximum timestamp so far."""
        self.positions.fromlist(rows[::4])
        self.base_offsets.fromlist(rows[1::4])
        self.last_offsets.fromlist(rows[2::4])
        self.newest_so_far.fromlist(rows[3::4])

    @property
    def newest_timestamp_ms(self) -> int:
        """The largest timestamp of the segment, or -1."""
        return self.newest_so_far[-1] if self.newest_so_far else -1

    @property
    def next_offset(self) -> int:
        """The offset after the last batch (exclusive)."""
        return self.last_offsets[-1] + 1 if self.last_offsets else self.base_offset

    def damage_at(self, position: int) -> None:
        """Mark `position` as damaged; checks do not trust anything that depends on it."""
        self.damaged_positions.add(position)

    @property
    def damaged_from(self) -> int | None:
        """Position of the first damage; None if all of the segment is sound."""
        return min(self.damaged_positions, default=None)

    def batch_at(self, position: int) -> int | None:
        """Return the slot of the batch that begins at `position`."""
        slot = bisect_left(self.positions, position)
        is_there = slot < len(self.positions) and self.positions[slot] == position
        return slot if is_there else None

    def batch_with(self, offset: int) -> int | None:
        """Return the slot of the batch whose offset range includes `offset`."""
        slot = bisect_left(self.last_offsets, offset)
        is_there = slot < len(self.last_offsets) and self.base_offsets[slot] <= offset
        return slot if is_there else None

    def first_behind(self, offset: int) -> int:
        """Return the first slot with a last offset above `offset`; the slot count if none has."""
        return bisect_right(self.last_offsets, offset)

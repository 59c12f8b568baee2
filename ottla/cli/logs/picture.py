"""Batches of a segment in columns, for the checks of its indexes. Decision: no I/O."""

from array import array
from bisect import bisect_left, bisect_right

from kafkawire.records import BatchHeader


class SegmentBatches:
    """Position, offsets and maximum timestamp of every batch, in the order of the file."""

    def __init__(self) -> None:
        # Flat columns save memory: a segment of 1 GiB may hold a million batches.
        self.positions = array("q")
        self._base_offsets = array("q")
        self._last_offsets = array("q")
        self._newest_so_far = array("q")

    def add(self, position: int, header: BatchHeader) -> None:
        """Add the next batch of the file, which starts at `position`."""
        newest = self.newest_timestamp_ms
        self.positions.append(position)
        self._base_offsets.append(header.base_offset)
        self._last_offsets.append(header.last_offset)
        self._newest_so_far.append(max(newest, header.max_timestamp_ms))

    @property
    def newest_timestamp_ms(self) -> int:
        """Maximum timestamp of the segment, or -1 if it is empty."""
        return self._newest_so_far[-1] if self._newest_so_far else -1

    def batch_at(self, position: int) -> int | None:
        """Return the slot of the batch that starts exactly at `position`, or None."""
        slot = bisect_left(self.positions, position)
        is_there = slot < len(self.positions) and self.positions[slot] == position
        return slot if is_there else None

    def batch_with(self, offset: int) -> int | None:
        """Return the slot of the batch whose range contains `offset`, or None."""
        slot = bisect_right(self._base_offsets, offset) - 1
        return slot if slot >= 0 and offset <= self._last_offsets[slot] else None

    def last_offset(self, slot: int) -> int:
        """Return the last offset (inclusive) of the batch in this slot."""
        return self._last_offsets[slot]

    def newest_at(self, slot: int) -> int:
        """Return the maximum timestamp of the batches up to and including `slot`."""
        return self._newest_so_far[slot]

    def newest_before(self, slot: int) -> int:
        """Return the maximum timestamp of the batches before `slot`, or -1."""
        return self._newest_so_far[slot - 1] if slot else -1

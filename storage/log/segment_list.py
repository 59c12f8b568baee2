"""The segments of one log in order of their base offsets (decision).

Invariant: base offsets grow strictly, and only the last segment may accept appends.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence

from kafkawire.ids import Offset
from storage.segment.segment import Segment


def _base_offset(segment: Segment) -> Offset:
    return segment.base_offset


class SegmentList:
    """Segments, searchable by offset."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._segments = sorted(segments, key=_base_offset)

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def first(self) -> Segment:
        """The oldest segment."""
        return self._segments[0]

    @property
    def last(self) -> Segment:
        """The newest segment."""
        return self._segments[-1]

    def at(self, slot: int) -> Segment:
        """Return the segment in `slot`, counted from the oldest one."""
        return self._segments[slot]

    def add(self, segment: Segment) -> None:
        """Add a segment at the end."""
        insort(self._segments, segment, key=_base_offset)

    def replace(self, segment: Segment) -> None:
        """Replace all segments by `segment`."""
        self._segments = [segment]

    def splice(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace `old`, which must be neighbours, by `new`."""
        slot, end = self._segments.index(old[0]), self._segments.index(old[-1]) + 1
        assert self._segments[slot:end] == list(old), "neighbours, in order"
        self._segments = [*self._segments[:slot], new, *self._segments[end:]]

    def from_offset(self, offset: int) -> list[Segment]:
        """Return the segment whose range holds `offset`, or the first one, and all after it.

        Any thread may call this.
        """
        # Looked up once: a slot in this list may be another segment's in the next one.
        segments = self._segments
        slot = bisect_right(segments, offset, key=_base_offset) - 1
        return segments[max(slot, 0) :]

    def drop_oldest(self, count: int) -> None:
        """Remove the `count` oldest segments. Other threads read the list: one must remain."""
        assert count < len(self._segments), "a log has a segment"
        self._segments = self._segments[count:]

    def drop_newest(self, count: int) -> None:
        """Remove the `count` newest segments; as `drop_oldest`."""
        assert count < len(self._segments), "a log has a segment"
        self._segments = self._segments[: len(self._segments) - count]

    def above(self, offset: int) -> list[Segment]:
        """Return the segments that begin above `offset`."""
        return self._segments[bisect_right(self._segments, offset, key=_base_offset) :]

    def below(self, offset: int) -> list[Segment]:
        """Return the segments that end at or below `offset`, never the last one."""
        slot = bisect_right(self._segments, offset, key=_base_offset) - 1
        return self._segments[: max(slot, 0)]

    def end_of(self, segment: Segment) -> Offset:
        """Return the end (exclusive) of the range of `segment`, which is not the last one."""
        slot = bisect_left(self._segments, segment.base_offset, key=_base_offset)
        return self._segments[slot + 1].base_offset

"""Segments of a partition, and their place on a line of time (decision)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MIN_BAR_SHARE: Final = 0.004
"""Width of the narrowest bar, as a part of the whole line."""
MIN_HEIGHT_SHARE: Final = 0.12


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The log file of a segment. Times are in ms since the epoch, None if no record has one."""

    base_offset: int
    next_base_offset: int | None
    """The base offset of the next segment; None for the active one."""
    size_bytes: int
    first_ms: int | None
    written_ms: int
    """Time of the last write to the file."""

    @property
    def is_active(self) -> bool:
        """Whether the segment is being written."""
        return self.next_base_offset is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A segment on the line: `left` and `width` are parts of the line, `height` of the tallest."""

    segment: Segment
    left: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The bars of all segments, and the ends of the line in ms since the epoch."""

    bars: tuple[Bar, ...]
    start_ms: int
    end_ms: int


def timeline(segments: Sequence[Segment]) -> Timeline | None:
    """Return the line of time; None if no segment has a time.

    A bar begins at the first record of its segment, and ends at the first record of the next one
    or at the last write. A segment without a time begins where the one before it ends.
    """
    known = [each.first_ms for each in segments if each.first_ms is not None]
    if not known:
        return None
    start_ms = min(known)
    end_ms = max(*known, segments[-1].written_ms, start_ms + 1)
    largest = max(each.size_bytes for each in segments) or 1
    bars = []
    for position, segment in enumerate(segments):
        begin = segment.first_ms if segment.first_ms is not None else start_ms
        later = [each.first_ms for each in segments[position + 1 :] if each.first_ms is not None]
        until = later[0] if later else end_ms
        left = min((begin - start_ms) / (end_ms - start_ms), 1 - MIN_BAR_SHARE)
        width = max((until - begin) / (end_ms - start_ms), MIN_BAR_SHARE)
        bars.append(
            Bar(
                segment=segment,
                left=left,
                width=min(width, 1 - left),
                height=max(segment.size_bytes / largest, MIN_HEIGHT_SHARE),
            )
        )
    return Timeline(bars=tuple(bars), start_ms=start_ms, end_ms=end_ms)

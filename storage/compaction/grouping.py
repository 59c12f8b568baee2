"""The choice of segments that a cleaning merges into one (decision).

Cleaning shrinks segments. Neighbours are merged as long as a single segment could hold them even if
they did not shrink. Source: Cleaner.groupSegmentsBySize of Kafka 3.9.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from storage.compaction.job import SourceSegment
from storage.segment.offset_index import MAX_RELATIVE_OFFSET

MAX_GROUP_SEGMENTS: Final = 32
"""Kafka has no such limit. Here one step of the broker's event loop renames the files of a group,
at about 0.1 ms per segment. The next cleaning merges the segments that are left over."""


class MeasuredSegment(NamedTuple):
    """A segment and the sizes of its indexes."""

    segment: SourceSegment
    index_bytes: int
    time_index_bytes: int


def group_segments(
    segments: Iterable[MeasuredSegment], *, segment_bytes: int, segment_index_bytes: int
) -> list[list[MeasuredSegment]]:
    """Partition `segments` into runs of neighbours, each to be merged into one segment."""
    groups: list[list[MeasuredSegment]] = []
    for segment in segments:
        if groups and _has_room(groups[-1], segment, segment_bytes, segment_index_bytes):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _has_room(
    group: list[MeasuredSegment], added: MeasuredSegment, segment_bytes: int, index_bytes: int
) -> bool:
    both = [*group, added]
    first, last = group[0].segment, added.segment
    return (
        len(both) <= MAX_GROUP_SEGMENTS
        and sum(each.segment.size_bytes for each in both) <= segment_bytes
        and sum(each.index_bytes for each in both) <= index_bytes
        and sum(each.time_index_bytes for each in both) <= index_bytes
        # An empty segment has no offsets; its range may be of any length.
        and (last.size_bytes == 0 or last.end_offset - 1 - first.base_offset <= MAX_RELATIVE_OFFSET)
    )

"""Segments cut into byte ranges that can be decoded independently (edge).

A cut is made at an entry of the offset index, because a batch begins there. Since an index may be
wrong, it is used only if its entries grow, and a cut is made only at a sound batch with the offsets
of the entry. The decoder of a range reports a range that does not end where the next one begins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from analytics.file_store import OpenFile, read_bytes
from logcheck.batch_walk import Batch, Walk
from logcheck.finding import Check, Finding
from logcheck.index_entries import read_entries
from logcheck.offset_index_check import ENTRY
from logcheck.replica_files import ReplicaFiles, SegmentFiles

RANGE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRange:
    """A part of one segment: the batches that begin in `start..end` (exclusive)."""

    topic: str
    partition: int
    replica: str
    file: str
    start: int
    end: int
    first_offset: int
    """Lower bound of the offsets in the range (inclusive)."""


def cut_replicas(
    replicas: Sequence[ReplicaFiles], range_bytes: int = RANGE_BYTES
) -> list[SegmentRange]:
    """Return the ranges of all segments, cut near `range_bytes` where the index is sound."""
    return [
        SegmentRange(
            topic=replica.topic,
            partition=replica.partition,
            replica=replica.replica,
            file=segment.log,
            start=start,
            end=end,
            first_offset=offset,
        )
        for replica in replicas
        for segment in replica.segments
        for start, end, offset in _cuts(segment, range_bytes)
    ]


def first_offsets(
    replica: ReplicaFiles, start: int, end: int, range_bytes: int = RANGE_BYTES
) -> list[int]:
    """Return the first offset of each range of the segments with `start..end` (exclusive).

    The indexes of other segments are not read: a stream asks for the newest offsets of a long log.
    """
    segments = tuple(
        segment
        for segment, following in pairwise([*replica.segments, None])
        if segment is not None and segment.base_offset < end
        if following is None or following.base_offset > start
    )
    ranges = cut_replicas([replace(replica, segments=segments)], range_bytes)
    return [each.first_offset for each in ranges]


def _cuts(segment: SegmentFiles, range_bytes: int) -> Iterator[tuple[int, int, int]]:
    places = [(0, segment.base_offset), *_sound_entries(segment, range_bytes)]
    for (start, offset), (end, _) in pairwise([*places, (segment.size_bytes, 0)]):
        yield start, end, offset


def _sound_entries(segment: SegmentFiles, range_bytes: int) -> list[tuple[int, int]]:
    """Return the cuts as (position, base offset); none if the index cannot be trusted."""
    if segment.index is None or segment.size_bytes <= range_bytes:
        return []
    findings: list[Finding] = []
    try:
        data = read_bytes(segment.index)
        entries = read_entries(data, ENTRY, segment.index, Check.OFFSET_INDEX, findings.append)
        is_growing = all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(entries))
        if findings or not is_growing:
            return []
        cuts = []
        with OpenFile(segment.log) as source:
            reach = range_bytes
            for relative, position in entries:
                if position < reach:
                    continue
                base_offset = _sound_batch(source, segment, position, relative)
                if base_offset is None:
                    return []
                cuts.append((position, base_offset))
                reach = position + range_bytes
        return cuts
    except OSError:
        # The decoder reads the whole segment and reports the error.
        return []


def _sound_batch(
    source: OpenFile, segment: SegmentFiles, position: int, relative: int
) -> int | None:
    """Return the base offset of the sound batch at `position`, None unless it fits the entry."""
    walk = Walk(source, segment.log, lambda _: None)
    for item in walk.items(position, position + 1):
        if isinstance(item, Batch) and item.header.base_offset <= segment.base_offset + relative:
            return item.header.base_offset
    return None

"""Edge: segments cut into ranges of bytes that can be decoded apart, and hard-linked copies.

A cut is made at an entry of the offset index, because a batch begins there; but an index may be
wrong. So one is used only if its entries grow, and a cut only if a sound batch with the entry's
offsets stands there. Whoever decodes a range says so when it does not end where the next begins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from analytics.batch_walk import Batch, Walk
from analytics.checks.index_bytes import read_entries
from analytics.checks.offset_index import ENTRY
from analytics.file_store import OpenFile, read_bytes
from analytics.finding import Check, Finding
from analytics.task import ReplicaFiles, SegmentFiles

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
    """No record of the range is below."""


def cut_replicas(
    replicas: Sequence[ReplicaFiles], range_bytes: int = RANGE_BYTES
) -> list[SegmentRange]:
    """The ranges of all segments, none much larger than `range_bytes` where an index allows."""
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


def _cuts(segment: SegmentFiles, range_bytes: int) -> Iterator[tuple[int, int, int]]:
    places = [(0, segment.base_offset), *_sound_entries(segment, range_bytes)]
    for (start, offset), (end, _) in pairwise([*places, (segment.size_bytes, 0)]):
        yield start, end, offset


def _sound_entries(segment: SegmentFiles, range_bytes: int) -> list[tuple[int, int]]:
    """(position, base offset) where to cut; none if the index cannot be trusted."""
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
        # Read as a whole, the segment says itself what is wrong with it.
        return []


def _sound_batch(
    source: OpenFile, segment: SegmentFiles, position: int, relative: int
) -> int | None:
    """The base offset of the batch at `position`, if there is one that fits the entry."""
    walk = Walk(source, segment.log, lambda _: None)
    for item in walk.items(position, position + 1):
        if isinstance(item, Batch) and item.header.base_offset <= segment.base_offset + relative:
            return item.header.base_offset
    return None

"""S6: every entry of a `.timeindex` is the maximum timestamp up to its offset (decision).

Timestamps grow strictly, offsets do not go back, and the last entry of a sealed segment is the
maximum of the segment.
"""

from bisect import bisect_left
from collections.abc import Sequence
from struct import Struct
from typing import Final

from logcheck.finding import Check, Damage, Finder, Report
from logcheck.index_entries import read_entries
from logcheck.segment_columns import SegmentColumns

ENTRY: Final = Struct(">qi")


def read_time_index(data: bytes, file: str, report: Report) -> list[tuple[int, int]]:
    """Return the entries as (timestamp, relative offset); report damage to their layout."""
    # The first record of a segment may have the timestamp 0.
    return read_entries(data, ENTRY, file, Check.TIME_INDEX, report, may_begin_with_zero=True)


def check_time_index(
    entries: Sequence[tuple[int, int]],
    file: str,
    segment: SegmentColumns,
    report: Report,
    *,
    is_active: bool,
    first_slot: int = 0,
) -> None:
    """Report the entries from slot `first_slot` that would mislead a search by time."""

    finder = Finder(Check.TIME_INDEX, report)

    def find(damage: Damage, slot: int, offset: int | None, expected: str, found: str) -> None:
        finder.find(damage, file, slot * ENTRY.size, offset, expected, found)

    damaged_from = segment.damaged_from
    before_ms, before_offset = -1, -1
    is_in_order = True
    if 0 < first_slot <= len(entries):
        before_ms, relative = entries[first_slot - 1]
        before_offset = segment.base_offset + relative
    for slot, (timestamp_ms, relative) in enumerate(entries[first_slot:], first_slot):
        offset = segment.base_offset + relative
        if timestamp_ms <= before_ms or offset < before_offset:
            expected = f"beyond {before_ms} ms at offset {before_offset}"
            found = f"{timestamp_ms} ms at {offset}"
            find(Damage.TIME_NOT_INCREASING, slot, offset, expected, found)
            is_in_order = False
            continue
        before_ms, before_offset = timestamp_ms, offset
        batch = segment.batch_with(offset)
        if batch is None:
            if damaged_from is None:
                find(Damage.TIME_OFFSET, slot, offset, "an offset of the segment", str(offset))
        elif damaged_from is not None and segment.positions[batch] > damaged_from:
            # The damaged part may contain the maximum.
            continue
        elif segment.newest_so_far[batch] != timestamp_ms:
            expected = f"{segment.newest_so_far[batch]} ms, the maximum up to the offset"
            find(Damage.TIME_MAXIMUM, slot, offset, expected, f"{timestamp_ms} ms")
            is_in_order = False
        elif batch and segment.newest_so_far[batch - 1] >= timestamp_ms:
            first = segment.last_offsets[_first_that_reaches(segment, timestamp_ms)]
            find(Damage.TIME_OFFSET, slot, offset, f"offset {first}", f"offset {offset}")
    newest = segment.newest_timestamp_ms
    # An entry for the timestamp 0 looks like padding.
    is_due = not is_active and newest > 0 and before_ms < newest
    if damaged_from is None and is_in_order and is_due:
        found = f"{before_ms} ms" if entries else "no entry"
        expected = f"{newest} ms, the segment's maximum"
        find(Damage.TIME_LAST_ENTRY, len(entries), None, expected, found)


def _first_that_reaches(segment: SegmentColumns, timestamp_ms: int) -> int:
    return bisect_left(segment.newest_so_far, timestamp_ms)

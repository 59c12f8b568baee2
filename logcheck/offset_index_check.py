"""S5: a scan from the position of any `.index` entry finds the offset of the entry (decision).

Two shapes satisfy this. In the first, an entry names the last offset of its batch (Ottla, and Kafka
since 3.9.1). In the second, an entry stands for an append, and names the last offset of some later
batch before the next entry (Kafka up to 3.9.0, where a follower or the cleaner appends many batches
at once). The second shape is accepted unless the check is strict.

Source: KAFKA-806.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from logcheck.finding import Check, Damage, Finder, Report
from logcheck.index_entries import read_entries
from logcheck.segment_columns import SegmentColumns

ENTRY: Final = Struct(">ii")
PER_BATCH: Final = "per batch"
PER_APPEND: Final = "per append"


def read_offset_index(data: bytes, file: str, report: Report) -> list[tuple[int, int]]:
    """Return the entries as (relative offset, position); report damage to their layout."""
    return read_entries(data, ENTRY, file, Check.OFFSET_INDEX, report)


def check_offset_index(
    entries: Sequence[tuple[int, int]],
    file: str,
    segment: SegmentColumns,
    report: Report,
    *,
    is_strict: bool = False,
    first_slot: int = 0,
) -> str:
    """Report the faulty entries from slot `first_slot`; return the shape of the others."""

    finder = Finder(Check.OFFSET_INDEX, report)

    def find(damage: Damage, slot: int, offset: int, expected: str, found: str) -> None:
        finder.find(damage, file, slot * ENTRY.size, offset, expected, found)

    shape = PER_BATCH
    before_offset, before_position = -1, -1
    if 0 < first_slot <= len(entries):
        relative, before_position = entries[first_slot - 1]
        before_offset = segment.base_offset + relative
    for slot, (relative, position) in enumerate(entries[first_slot:], first_slot):
        offset = segment.base_offset + relative
        if offset <= before_offset or position <= before_position:
            expected = f"beyond offset {before_offset} at byte {before_position}"
            found = f"offset {offset}, byte {position}"
            find(Damage.INDEX_NOT_INCREASING, slot, offset, expected, found)
            continue
        before_offset, before_position = offset, position
        batch = segment.batch_at(position)
        if batch is None:
            if not _is_excused(segment, position):
                expected, found = "the first byte of a batch", f"byte {position}"
                find(Damage.INDEX_POSITION, slot, offset, expected, found)
            continue
        last_offset = segment.last_offsets[batch]
        if last_offset == offset:
            continue
        end = entries[slot + 1][1] if slot + 1 < len(entries) else segment.end_position
        if not is_strict and _is_last_of_some(segment, offset, batch, end):
            shape = PER_APPEND
        elif not (segment.damaged_positions and segment.batch_with(offset) is None):
            # Else the entry names the end of a damaged batch, which was reported before.
            find(Damage.INDEX_OFFSET, slot, offset, f"offset {last_offset}", f"offset {offset}")
    return shape


def _is_last_of_some(segment: SegmentColumns, offset: int, first: int, end_position: int) -> bool:
    """Whether `offset` ends a batch after slot `first` that begins before `end_position`."""
    batch = segment.batch_with(offset)
    return (
        batch is not None
        and batch > first
        and segment.last_offsets[batch] == offset
        and segment.positions[batch] < end_position
    )


def _is_excused(segment: SegmentColumns, position: int) -> bool:
    """Whether damage that was reported before hides the batch at `position`."""
    if position in segment.damaged_positions:
        return True
    return bool(segment.damaged_positions) and position >= segment.end_position

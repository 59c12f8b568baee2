"""Checks a `.index` file against its segment. Decision: no I/O.

An entry says: offsets from mine on are found by scanning from my position. Two shapes satisfy it.
Ours (and Kafka's from 3.9.1) names the last offset of the batch that starts at the position. Kafka
up to 3.9.0 wrote one entry per append, so that a follower's entry, or the cleaner's, names an
offset in a later batch of the same append. Source: KAFKA-806.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ottla.cli.logs.finding import Damage, Finding, Report
from ottla.cli.logs.index_entries import OFFSET_ENTRY, read_entries
from ottla.cli.logs.picture import SegmentPicture

PER_BATCH: Final = "one entry per batch"
PER_APPEND: Final = "one entry per append (Kafka up to 3.9.0)"


@dataclass(frozen=True, slots=True)
class OffsetIndexEntry:
    """Offsets from `offset` on are found from `position` on."""

    offset: int
    position: int


def read_offset_index(
    data: bytes, file: str, base_offset: int, report: Report
) -> list[OffsetIndexEntry]:
    """Return the entries; report those that do not grow, in offset and in position."""
    entries = [
        OffsetIndexEntry(base_offset + relative, position)
        for relative, position in read_entries(data, OFFSET_ENTRY, file, report)
    ]
    for slot, (entry, following) in enumerate(pairwise(entries), start=1):
        if following.offset <= entry.offset or following.position <= entry.position:
            text = f"{following} follows {entry}"
            report(_finding(Damage.NOT_INCREASING, file, slot, following, text))
    return entries


def check_offset_index(
    entries: list[OffsetIndexEntry], picture: SegmentPicture, file: str, report: Report
) -> str:
    """Report the entries that would lead a reader astray; return the shape of the others."""
    shape = PER_BATCH
    for slot, entry in enumerate(entries):
        batch = picture.batch_at(entry.position)
        if batch is None:
            text = f"no batch starts at byte {entry.position} of the segment"
            report(_finding(Damage.NO_BATCH_AT_POSITION, file, slot, entry, text))
        elif picture.last_offset(batch) != entry.offset:
            end = entries[slot + 1].position if slot + 1 < len(entries) else None
            if _is_within(picture, entry, end):
                shape = PER_APPEND
            else:
                text = (
                    f"the batch at byte {entry.position} ends at offset "
                    f"{picture.last_offset(batch)}"
                )
                report(_finding(Damage.WRONG_OFFSET, file, slot, entry, text))
    return shape


def _is_within(picture: SegmentPicture, entry: OffsetIndexEntry, end_position: int | None) -> bool:
    """Whether the entry's offset lies in a batch from its position up to the next entry's."""
    batch = picture.batch_with(entry.offset)
    if batch is None:
        return False
    position = picture.positions[batch]
    return entry.position <= position and (end_position is None or position < end_position)


def _finding(damage: Damage, file: str, slot: int, entry: OffsetIndexEntry, text: str) -> Finding:
    return Finding(
        damage=damage,
        file=file,
        position=slot * OFFSET_ENTRY.size,
        offset=entry.offset,
        text=text,
    )

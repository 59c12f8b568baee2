"""Checks a `.index` file against its segment. Decision: no I/O.

An entry promises that a scan from its position finds its offset and all later ones. Two shapes
keep this promise. An entry of Ottla, or of Kafka from 3.9.1, contains the last offset of the batch
at its position. Kafka up to 3.9.0 wrote one entry per append; such an entry of a follower or of the
cleaner contains an offset in a later batch of the same append. Source: KAFKA-806.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ottla.cli.logs.finding import Damage, Finding, Report
from ottla.cli.logs.index_entries import OFFSET_ENTRY, read_entries
from ottla.cli.logs.picture import SegmentBatches

PER_BATCH: Final = "one entry per batch"
PER_APPEND: Final = "one entry per append (Kafka up to 3.9.0)"


@dataclass(frozen=True, slots=True)
class OffsetIndexEntry:
    """An entry: a scan from `position` finds `offset` and all later offsets."""

    offset: int
    position: int


def read_offset_index(
    data: bytes, file: str, base_offset: int, report: Report
) -> list[OffsetIndexEntry]:
    """Return the entries; report entries whose offset or position does not increase."""
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
    entries: list[OffsetIndexEntry], batches: SegmentBatches, file: str, report: Report
) -> str:
    """Report entries that would mislead a reader; return the shape of the valid entries."""
    shape = PER_BATCH
    for slot, entry in enumerate(entries):
        batch = batches.batch_at(entry.position)
        if batch is None:
            text = f"no batch starts at byte {entry.position} of the segment"
            report(_finding(Damage.NO_BATCH_AT_POSITION, file, slot, entry, text))
        elif batches.last_offset(batch) != entry.offset:
            end = entries[slot + 1].position if slot + 1 < len(entries) else None
            if _is_within(batches, entry, end):
                shape = PER_APPEND
            else:
                text = (
                    f"the batch at byte {entry.position} ends at offset "
                    f"{batches.last_offset(batch)}"
                )
                report(_finding(Damage.WRONG_OFFSET, file, slot, entry, text))
    return shape


def _is_within(batches: SegmentBatches, entry: OffsetIndexEntry, end_position: int | None) -> bool:
    """Whether a batch from the entry's position up to the next entry's contains its offset."""
    batch = batches.batch_with(entry.offset)
    if batch is None:
        return False
    position = batches.positions[batch]
    return entry.position <= position and (end_position is None or position < end_position)


def _finding(damage: Damage, file: str, slot: int, entry: OffsetIndexEntry, text: str) -> Finding:
    return Finding(
        damage=damage,
        file=file,
        position=slot * OFFSET_ENTRY.size,
        offset=entry.offset,
        text=text,
    )

"""Checks a `.timeindex` file against its segment. Decision: no I/O.

An entry promises that no record up to its offset is newer than its timestamp. The last entry of an
inactive segment holds the segment's maximum timestamp.
"""

from dataclasses import dataclass
from itertools import pairwise

from ottla.cli.logs.finding import Damage, Finding, Report
from ottla.cli.logs.index_entries import TIME_ENTRY, read_entries
from ottla.cli.logs.picture import SegmentBatches


@dataclass(frozen=True, slots=True)
class TimeIndexEntry:
    """An entry: the batch that contains `offset` is the first to reach `timestamp_ms`."""

    timestamp_ms: int
    offset: int


def read_time_index(
    data: bytes, file: str, base_offset: int, report: Report
) -> list[TimeIndexEntry]:
    """Return the entries; report timestamps that do not increase and offsets that decrease."""
    entries = [
        TimeIndexEntry(timestamp_ms, base_offset + relative)
        for timestamp_ms, relative in read_entries(data, TIME_ENTRY, file, report)
    ]
    for slot, (entry, following) in enumerate(pairwise(entries), start=1):
        if following.timestamp_ms <= entry.timestamp_ms or following.offset < entry.offset:
            text = f"{following} follows {entry}"
            report(_finding(Damage.NOT_INCREASING, file, slot, following.offset, text))
    return entries


def check_time_index(
    entries: list[TimeIndexEntry],
    batches: SegmentBatches,
    file: str,
    report: Report,
    *,
    is_active: bool,
) -> None:
    """Report the entries that would mislead a search by time.

    The last entries of an active segment are not written yet, so its maximum may be missing.
    """
    for slot, entry in enumerate(entries):
        batch = batches.batch_with(entry.offset)
        if batch is None:
            text = "no batch of the segment contains this offset"
            report(_finding(Damage.WRONG_OFFSET, file, slot, entry.offset, text))
        elif batches.newest_at(batch) != entry.timestamp_ms:
            text = (
                f"timestamp {entry.timestamp_ms}, the newest so far is {batches.newest_at(batch)}"
            )
            report(_finding(Damage.WRONG_TIMESTAMP, file, slot, entry.offset, text))
        elif batches.newest_before(batch) >= entry.timestamp_ms:
            text = f"timestamp {entry.timestamp_ms} was reached before this offset"
            report(_finding(Damage.WRONG_OFFSET, file, slot, entry.offset, text))
    newest = batches.newest_timestamp_ms
    last = entries[-1].timestamp_ms if entries else -1
    if not is_active and last < newest:
        text = f"the last entry is {last}, but the segment's newest record is {newest}"
        report(_finding(Damage.MISSING_LAST_ENTRY, file, len(entries), None, text))


def _finding(damage: Damage, file: str, slot: int, offset: int | None, text: str) -> Finding:
    return Finding(
        damage=damage, file=file, position=slot * TIME_ENTRY.size, offset=offset, text=text
    )

"""Checks a `.timeindex` file against its segment. Decision: no I/O.

An entry says: up to my offset, nothing is newer than my timestamp. The last entry of a segment that
is no longer written holds the segment's maximum.
"""

from dataclasses import dataclass
from itertools import pairwise

from ottla.cli.logs.finding import Damage, Finding, Report
from ottla.cli.logs.index_entries import TIME_ENTRY, read_entries
from ottla.cli.logs.picture import SegmentPicture


@dataclass(frozen=True, slots=True)
class TimeIndexEntry:
    """The batch that holds `offset` is the first to reach `timestamp_ms`."""

    timestamp_ms: int
    offset: int


def read_time_index(
    data: bytes, file: str, base_offset: int, report: Report
) -> list[TimeIndexEntry]:
    """Return the entries; report timestamps that do not grow and offsets that go back."""
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
    picture: SegmentPicture,
    file: str,
    report: Report,
    *,
    is_active: bool,
) -> None:
    """Report the entries that would lead a search by time astray.

    An active segment's last entries are still to come, so a missing maximum is right there.
    """
    for slot, entry in enumerate(entries):
        batch = picture.batch_with(entry.offset)
        if batch is None:
            text = "no batch of the segment holds this offset"
            report(_finding(Damage.WRONG_OFFSET, file, slot, entry.offset, text))
        elif picture.newest_at(batch) != entry.timestamp_ms:
            text = (
                f"timestamp {entry.timestamp_ms}, the newest so far is {picture.newest_at(batch)}"
            )
            report(_finding(Damage.WRONG_TIMESTAMP, file, slot, entry.offset, text))
        elif picture.newest_before(batch) >= entry.timestamp_ms:
            text = f"timestamp {entry.timestamp_ms} was reached before this offset"
            report(_finding(Damage.WRONG_OFFSET, file, slot, entry.offset, text))
    newest = picture.newest_timestamp_ms
    last = entries[-1].timestamp_ms if entries else -1
    if not is_active and last < newest:
        text = f"the last entry is {last}, the segment's newest record {newest}"
        report(_finding(Damage.MISSING_LAST_ENTRY, file, len(entries), None, text))


def _finding(damage: Damage, file: str, slot: int, offset: int | None, text: str) -> Finding:
    return Finding(
        damage=damage, file=file, position=slot * TIME_ENTRY.size, offset=offset, text=text
    )

"""Decision: S9, what compaction had to keep is there, and nothing else is.

A table of the reference (an uncompacted replica, a producer's ledger, an earlier snapshot) knows
the last record of each key. In the compacted log each such record is at its offset with its value;
a tombstone may be gone once its time is over; below the cleaner's point no record is left whose
key has a later one there.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from analytics.checks.log_view import LogView, ReadRecord
from analytics.checks.uniqueness import show_key
from analytics.finding import Check, Finder, Report, Severity
from analytics.task import MAX_OFFSET
from kafkawire.columns_scanner import KeyTable, Mismatch, SoundBatch
from kafkawire.records import BatchHeader, TimestampType


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Between which offsets, and how, a reference can judge a log."""

    start: int
    """Below, the reference knows nothing (inclusive)."""
    end: int
    """Records from here on are not judged."""
    log_start: int
    """Below, the log under audit need hold nothing."""
    superseded_from: int = MAX_OFFSET
    """A record from here on is newer than the reference, and excuses the older one's absence."""
    superseded_until: int = MAX_OFFSET
    """A record from here on excuses nothing: no cleaner has read it."""
    stale_below: int = MAX_OFFSET
    """An older record is wrong only if its key's last one is below this offset."""
    tombstones_after_ms: int
    """Tombstones of later records must still be there."""
    is_decided: bool = True
    """Whether what is missing is an error; else it may have been deleted or cleaned since."""


class ReferenceTable:
    """An observer of the reference log that keeps the last record of each key."""

    def __init__(
        self, table: KeyTable, end_offset: int, aborted: Iterable[tuple[int, int, int]]
    ) -> None:
        """`aborted` are (producer id, first offset, last offset) of aborted transactions."""
        self.table = table
        self._end_offset = end_offset
        self._aborted = list(aborted)

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header = batch.header
        if header.is_control or header.base_offset >= self._end_offset:
            return
        if header.is_transactional and is_aborted(header, self._aborted):
            return
        append_ms = (
            header.max_timestamp_ms
            if header.timestamp_type is TimestampType.LOG_APPEND_TIME
            else None
        )
        self.table.note(
            batch.section,
            header.record_count,
            header.base_offset,
            header.base_timestamp_ms,
            append_ms,
            self._end_offset,
        )


def is_aborted(header: BatchHeader, aborted: Iterable[tuple[int, int, int]]) -> bool:
    """Whether a transactional batch belongs to one of the `aborted` transactions."""
    return any(
        producer_id == header.producer_id and first <= header.base_offset <= last
        for producer_id, first, last in aborted
    )


_MATCH_LIMIT: Final = 1 << 20


class PreservationCheck:
    """An observer of the log under audit that holds it against a reference's table."""

    def __init__(
        self,
        table: KeyTable,
        bounds: Bounds,
        limit: int,
        report: Report,
        read_reference: ReadRecord,
        *,
        is_reference_damaged: Callable[[int], bool] = lambda _: False,
        only_missing: bool = False,
    ) -> None:
        """`only_missing` says nothing of records that the reference does not have."""
        self._is_reference_damaged = is_reference_damaged
        self._only_missing = only_missing
        self._read_reference = read_reference
        self._table = table
        self._bounds = bounds
        self._limit = limit
        self._report = report
        self._mismatches: list[tuple[int, int, int]] = []
        self._unlisted = 0

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header, bounds = batch.header, self._bounds
        is_judged = header.base_offset < bounds.end
        is_newer = (
            header.last_offset >= bounds.superseded_from
            and header.base_offset < bounds.superseded_until
        )
        if header.is_control or not (is_judged or is_newer):
            return
        found = self._table.match(
            batch.section,
            header.record_count,
            header.base_offset,
            bounds.start,
            bounds.superseded_from,
            bounds.stale_below,
            _MATCH_LIMIT,
        )
        if found and header.last_offset >= bounds.end:
            found = [each for each in found if each[1] < bounds.end]
        if found and len(self._mismatches) < self._limit:
            self._mismatches += found
        else:
            self._unlisted += len(found)

    def doubt(self) -> None:
        """Have what is missing be a warning: the log may be cleaned further than was known."""
        self._bounds = replace(self._bounds, is_decided=False)

    def conclude(self, log: LogView) -> dict[str, Any]:
        """Report what is missing, changed or should be gone."""
        lost = {
            offset: is_tombstone
            for offset, _, is_tombstone in self._table.unseen(
                self._bounds.tombstones_after_ms, self._limit * 4
            )
            if max(self._bounds.log_start, self._bounds.start) <= offset < self._bounds.end
            and not log.is_damaged(offset)
        }
        for kind, offset, last in self._mismatches:
            self._judge(kind, offset, last, lost, log)
        for offset, is_tombstone in sorted(lost.items()):
            record = self._read_reference(offset)
            key = "a key" if record is None else f"key {show_key(record[0])}"
            what = "tombstone_gone_early" if is_tombstone else "lost_key"
            check = Check.TOMBSTONES if is_tombstone else Check.PRESERVATION
            expected = f"the last {'tombstone' if is_tombstone else 'value'} of {key}"
            severity = Severity.ERROR if self._bounds.is_decided else Severity.WARNING
            self._find(what, offset, expected, "no record", log, check, severity)
        if self._unlisted and not self._only_missing:
            expected, found = "the reference's records", f"{self._unlisted} more that differ"
            self._find("more_mismatches", self._mismatches[-1][1], expected, found, log)
        return {"reference_keys": self._table.key_count}

    def _judge(
        self,
        kind: int,
        offset: int,
        last: int,
        lost: dict[int, bool],
        log: LogView,
    ) -> None:
        if kind in (Mismatch.NEWER, Mismatch.UNKNOWN_KEY) and self._is_reference_damaged(offset):
            # The reference had it where it cannot be read any more.
            lost.pop(last, None)
            return
        record = log.read_record(offset)
        key = "its key" if record is None else f"key {show_key(record[0])}"
        is_last_kept = record is not None and self._table.is_seen(record[0])
        if kind == Mismatch.OTHER_VALUE:
            expected = f"the reference's value of {key}"
            self._find("changed_value", offset, expected, "another value", log)
        elif kind == Mismatch.OLDER and not is_last_kept:
            lost.pop(last, None)
            expected = f"{key} at offset {last}, its last record"
            self._find("stale_value", offset, expected, f"an older record at {offset}", log)
        elif kind == Mismatch.NEWER and not is_last_kept and not self._only_missing:
            lost.pop(last, None)
            expected = f"{key} at offset {last}"
            self._find("moved_record", offset, expected, f"its record at {offset}", log)
        elif kind in (Mismatch.NEWER, Mismatch.UNKNOWN_KEY) and not self._only_missing:
            expected = f"no record of {key} at this offset"
            self._find("unknown_record", offset, expected, "one that nobody wrote", log)
        # An older record beside its key's last one is a duplicate: S8 names it.

    def _find(
        self,
        what: str,
        offset: int,
        expected: str,
        found: str,
        log: LogView,
        check: Check = Check.PRESERVATION,
        severity: Severity = Severity.ERROR,
    ) -> None:
        file, position = log.place_of(offset)
        Finder(check, self._report).find(what, file, position, offset, expected, found, severity)

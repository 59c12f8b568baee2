"""S9: the compacted log contains every record that compaction must keep, and no other (decision).

A table of the reference (an uncompacted replica, a producer's ledger, an earlier snapshot) contains
the last record of each key. The compacted log must have each of these records at its offset with
its value. A tombstone may be gone once its time is over. Below the cleaner's point, no record
remains whose key has a later record there.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kafkawire.columns_loops import SoundBatch
from kafkawire.key_table_loops import Mismatch
from kafkawire.native import KeyTable
from kafkawire.records import BatchHeader, TimestampType
from logcheck.finding import Check, Damage, Finder, Report, Severity
from logcheck.log_view import LogView, ReadRecord
from logcheck.transaction_ranges import Transaction, TransactionRanges
from logcheck.uniqueness import show_key

MAX_OFFSET: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The offsets between which a reference is compared with a log, and the rules for it."""

    start: int
    """First offset of the reference (inclusive)."""
    end: int
    """End of the compared offsets (exclusive)."""
    log_start: int
    """Log start offset of the log under audit (inclusive)."""
    superseded_from: int = MAX_OFFSET
    """First offset newer than the reference. A record from here may supersede a missing one."""
    superseded_until: int = MAX_OFFSET
    """End of the offsets that may supersede a missing record: no cleaner has read beyond it."""
    stale_below: int = MAX_OFFSET
    """An older record is stale only if its key's last record is below this offset."""
    tombstones_after_ms: int
    """Tombstones with a later timestamp must still exist."""
    compares_time: bool = True
    """Whether the reference has the timestamps of the log."""
    is_decided: bool = True
    """Whether a missing record is an error; else it may have been deleted or cleaned since."""


class ReferenceTable:
    """An observer of the reference log that keeps the last record of each key."""

    def __init__(self, table: KeyTable, end_offset: int, aborted: Iterable[Transaction]) -> None:
        """Records of the `aborted` transactions are not kept."""
        self.table = table
        self._end_offset = end_offset
        self._aborted = TransactionRanges(aborted)

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header = batch.header
        if header.is_control or header.base_offset >= self._end_offset:
            return
        if header.is_transactional and self._aborted.covers(header.producer_id, header.base_offset):
            return
        self.table.note(
            batch.section,
            header.record_count,
            header.base_offset,
            header.base_timestamp_ms,
            _append_time(header),
            self._end_offset,
        )


def _append_time(header: BatchHeader) -> int | None:
    """Return the timestamp of all records if the broker assigned it, else None."""
    is_assigned = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    return header.max_timestamp_ms if is_assigned else None


_MATCH_LIMIT: Final = 1 << 20
Certainty = Callable[[Collection[int]], Mapping[int, Severity]]
"""A function that returns the certainty that the records at some offsets must not be missing."""


class PreservationCheck:
    """An observer of the log under audit that compares it with a reference's table."""

    def __init__(
        self,
        table: KeyTable,
        bounds: Bounds,
        limit: int,
        report: Report,
        read_reference: ReadRecord,
        *,
        is_reference_damaged: Callable[[int], bool] = lambda _: False,
        is_undecided: Callable[[int], bool] = lambda _: False,
        only_missing: bool = False,
        certainty: Certainty | None = None,
    ) -> None:
        """A record `is_undecided` if the reference does not know whether it was aborted.

        With `only_missing`, records that the reference lacks are not reported. Without
        `certainty`, each missing record is an error.
        """
        self._certainty = certainty or (lambda _: {})
        self._is_reference_damaged = is_reference_damaged
        self._is_undecided = is_undecided
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
            header.base_timestamp_ms,
            _append_time(header),
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

    def skip_missing(self) -> None:
        """Report no missing records: a cleaner has passed the end, so that others decide it."""
        self._bounds = replace(self._bounds, end=self._bounds.start)

    def missing(self, log: LogView) -> dict[int, bool]:
        """Return the missing records: the offset of each, and whether it is a tombstone."""
        start = max(self._bounds.log_start, self._bounds.start)
        unseen = self._table.unseen(self._bounds.tombstones_after_ms, self._limit * 4)
        return {
            offset: is_tombstone
            for offset, _, is_tombstone in unseen
            if start <= offset < self._bounds.end
            and not log.is_damaged(offset)
            and not self._is_undecided(offset)
        }

    def conclude(self, log: LogView) -> dict[str, Any]:
        """Report missing, changed and superfluous records."""
        lost = self.missing(log)
        stale = {last for kind, _, last in self._mismatches if kind == Mismatch.OLDER}
        severities = self._certainty(lost.keys() | stale) if lost or stale else {}
        for kind, offset, last in self._mismatches:
            severity = severities.get(last, Severity.ERROR)
            self._judge(kind, offset, last, lost, log, severity)
        for offset, is_tombstone in sorted(lost.items()):
            record = self._read_reference(offset)
            key = "a key" if record is None else f"key {show_key(record[0])}"
            missing = Damage.TOMBSTONE_GONE_EARLY if is_tombstone else Damage.LOST_KEY
            check = Check.TOMBSTONES if is_tombstone else Check.PRESERVATION
            expected = f"the last {'tombstone' if is_tombstone else 'value'} of {key}"
            severity = severities.get(offset, Severity.ERROR)
            if severity is Severity.ERROR and not self._bounds.is_decided:
                severity = Severity.WARNING
            self._find(missing, offset, expected, "no record", log, check, severity)
        if self._unlisted and not self._only_missing:
            expected, found = "the reference's records", f"{self._unlisted} more that differ"
            self._find(Damage.MORE_MISMATCHES, self._mismatches[-1][1], expected, found, log)
        return {"reference_keys": self._table.key_count}

    def _judge(
        self,
        kind: int,
        offset: int,
        last: int,
        lost: dict[int, bool],
        log: LogView,
        severity: Severity,
    ) -> None:
        """Report a mismatch; `severity` is that of the missing record at `last`."""
        if kind in (Mismatch.NEWER, Mismatch.UNKNOWN_KEY) and self._is_reference_damaged(offset):
            # The record may lie in a damaged part of the reference.
            lost.pop(last, None)
            return
        record = log.read_record(offset)
        key = "its key" if record is None else f"key {show_key(record[0])}"
        is_last_kept = record is not None and self._table.is_seen(record[0])
        if kind == Mismatch.OTHER_VALUE:
            expected = f"the reference's value of {key}"
            self._find(Damage.CHANGED_VALUE, offset, expected, "another value", log)
        elif kind == Mismatch.OTHER_TIME:
            if self._bounds.compares_time:
                expected = f"the reference's timestamp of {key}"
                self._find(Damage.CHANGED_TIMESTAMP, offset, expected, "another timestamp", log)
        elif kind == Mismatch.OLDER and not is_last_kept:
            lost.pop(last, None)
            expected = f"{key} at offset {last}, its last record"
            found = f"an older record at {offset}"
            self._find(Damage.STALE_VALUE, offset, expected, found, log, severity=severity)
        elif kind == Mismatch.NEWER and not is_last_kept and not self._only_missing:
            lost.pop(last, None)
            expected = f"{key} at offset {last}"
            self._find(Damage.MOVED_RECORD, offset, expected, f"its record at {offset}", log)
        elif kind in (Mismatch.NEWER, Mismatch.UNKNOWN_KEY) and not self._only_missing:
            expected = f"no record of {key} at this offset"
            self._find(
                Damage.UNKNOWN_RECORD, offset, expected, "a record that was never written", log
            )
        # An older record beside its key's last one is a duplicate, which S8 reports.

    def _find(
        self,
        damage: Damage,
        offset: int,
        expected: str,
        found: str,
        log: LogView,
        check: Check = Check.PRESERVATION,
        severity: Severity = Severity.ERROR,
    ) -> None:
        file, position = log.place_of(offset)
        Finder(check, self._report).find(damage, file, position, offset, expected, found, severity)

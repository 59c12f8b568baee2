"""S9: the compacted log contains every record that compaction must keep, and no other (decision).

A table of the reference (an uncompacted replica, a producer's ledger, an earlier snapshot) contains
the last record of each key. The compacted log must have each of these records at its offset with
its value. A tombstone may be gone once its time is over. Below the cleaner's point, no record
remains whose key has a later record there.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from kafkawire.columns_loops import SoundBatch, walk_fields
from kafkawire.key_table_loops import Mismatch
from kafkawire.native import KeyTable
from kafkawire.records import BATCH_HEADER_BYTES, BatchBuilder, BatchHeader
from kafkawire.records_header import CONTROL_BIT, LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT
from kafkawire.sentinels import MAX_OFFSET
from logcheck.finding import Check, Damage, Finder, Report, Severity
from logcheck.leftover_records import Survivors
from logcheck.log_view import LogView, ReadRecord, RunObserver
from logcheck.transaction_ranges import Transaction, TransactionRanges
from logcheck.uniqueness import show_key
from logcheck.unseen_record import Kind, Severities, UnseenRecords


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
    due_tombstones_ms: range
    """Tombstones with these timestamps must still exist."""
    compares_time: bool = True
    """Whether the reference has the timestamps of the log."""
    may_lack_headers: bool = False
    """Whether the reference may not know the headers of its records."""
    is_decided: bool = True
    """Whether a missing record is an error; else it may have been deleted or cleaned since."""


class ReferenceTable(RunObserver):
    """An observer of the reference log that keeps the last record of each key."""

    def __init__(self, table: KeyTable, end_offset: int, aborted: Iterable[Transaction]) -> None:
        """Records of the `aborted` transactions are not kept."""
        self.table = table
        self._end_offset = end_offset
        self._aborted = TransactionRanges(aborted)

    def on_run(self, batches: Sequence[SoundBatch]) -> None:
        """See `log_view.RunObserver`."""
        for batch in batches:
            if batch.header.base_offset >= self._end_offset:
                return
            if not batch.header.attributes & CONTROL_BIT:
                self._add(batch)

    def _add(self, batch: SoundBatch) -> None:
        header = batch.header
        if header.attributes & TRANSACTIONAL_BIT and self._aborted.covers(
            header.producer_id, header.base_offset
        ):
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
    return header.max_timestamp_ms if header.attributes & LOG_APPEND_TIME_BIT else None


_MATCH_LIMIT: Final = 1 << 20
Certainty = Callable[[UnseenRecords], Severities]
"""A function that returns the certainty that records must not be missing."""
FindSurvivors = Callable[[UnseenRecords], Survivors]
"""A function that reads the log again, for older records of keys whose tombstone is missing."""
Settle = Callable[["PreservationCheck"], None]
"""A function that passes the log to `PreservationCheck.settled`, as its transactions are known."""


class PreservationCheck(RunObserver):
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
        forgotten_until: Callable[[], int] = lambda: 0,
        only_missing: bool = False,
        certainty: Certainty | None = None,
        find_survivors: FindSurvivors | None = None,
        void: Iterable[Transaction] = (),
        settle: Settle | None = None,
    ) -> None:
        """A record `is_undecided` if the reference does not know whether it was aborted.

        With `only_missing`, records that the reference lacks are not reported. Without
        `certainty`, each missing record is an error. `find_survivors` is for bounds whose
        `stale_below` hides older records. At most `limit` findings of one damage and severity are
        listed. Nothing below `forgotten_until` is reported, which is known only after the pass over
        the log. The records of the `void` transactions of the log supersede nothing, as they are
        aborted or open. If others may be, `settle` decides about all that are newer than the
        reference.
        """
        self._forgotten_until = forgotten_until
        self._certainty = certainty
        self._void = TransactionRanges(void)
        self._settle = settle
        self._has_unsettled = False
        self._find_survivors = find_survivors
        self._is_reference_damaged = is_reference_damaged
        self._is_undecided = is_undecided
        self._only_missing = only_missing
        self._read_reference = read_reference
        self._table = table
        self._bounds = bounds
        self._limit = limit
        self._report = report
        self._mismatches: dict[int, list[tuple[int, int]]] = {}
        """By kind: the offset of a record, and the reference's offset of its key."""
        self._unlisted_count = self._last_unlisted = 0
        self._explained: set[int] = set()
        """Offsets of the reference whose key may have a later record in a damaged part of it."""

    def on_run(self, batches: Sequence[SoundBatch]) -> None:
        """See `log_view.RunObserver`."""
        bounds = self._bounds
        if batches[0].header.base_offset >= max(bounds.end, bounds.superseded_until):
            return
        for batch in batches:
            header = batch.header
            is_judged = header.base_offset < bounds.end
            is_newer = (
                header.last_offset >= bounds.superseded_from
                and header.base_offset < bounds.superseded_until
            )
            if (is_judged or is_newer) and not header.attributes & CONTROL_BIT:
                if not header.attributes & TRANSACTIONAL_BIT:
                    self._compare(batch)
                elif self._settle is None or header.base_offset < bounds.superseded_from:
                    self._compare_transactional(batch, self._void)
                else:
                    self._has_unsettled = True

    def settled(self, void: Iterable[Transaction]) -> RunObserver:
        """Return an observer that compares the transactions which are newer than the reference."""
        return _Settled(self._bounds, TransactionRanges(void), self._compare_transactional)

    def _compare_transactional(self, batch: SoundBatch, void: TransactionRanges) -> None:
        is_void = void.covers(batch.header.producer_id, batch.header.base_offset)
        self._compare(batch, is_void=is_void)

    def _compare(self, batch: SoundBatch, *, is_void: bool = False) -> None:
        """Compare the records of a batch; void ones differ from no record and supersede none."""
        header, bounds = batch.header, self._bounds
        with_headers: set[int] = set()
        for kind, offset, last in self._table.match(
            batch.section,
            header.record_count,
            header.base_offset,
            header.base_timestamp_ms,
            _append_time(header),
            bounds.start,
            MAX_OFFSET if is_void else bounds.superseded_from,
            bounds.stale_below,
            _MATCH_LIMIT,
        ):
            if offset < bounds.end and not is_void:
                if kind == Mismatch.OTHER_VALUE and bounds.may_lack_headers:
                    with_headers.add(offset)
                else:
                    self._add(kind, offset, last)
        if with_headers:
            self._compare_values(batch, with_headers)

    def _compare_values(self, batch: SoundBatch, offsets: Collection[int]) -> None:
        """Compare the records at the `offsets` once more, without their headers."""
        header = batch.header
        for fields in walk_fields(batch.section, header.record_count):
            offset = header.base_offset + fields.offset_delta
            if offset in offsets:
                builder = BatchBuilder()
                builder.append(header.base_timestamp_ms, fields.key, fields.value)
                plain = memoryview(builder.build())[BATCH_HEADER_BYTES:]
                time_ms, bounds = header.base_timestamp_ms, (offset, MAX_OFFSET, 0)
                for kind, _, last in self._table.match(plain, 1, offset, time_ms, None, *bounds, 1):
                    if kind == Mismatch.OTHER_VALUE:
                        self._add(kind, offset, last)

    def _add(self, kind: int, offset: int, last: int) -> None:
        """Keep a mismatch, unless it is none under the rules of this comparison."""
        if kind in (Mismatch.NEWER, Mismatch.UNKNOWN_KEY):
            if self._is_reference_damaged(offset):
                self._explained.add(last)
                return
            if self._only_missing:
                return
        if kind == Mismatch.OTHER_TIME and not self._bounds.compares_time:
            return
        listed = self._mismatches.setdefault(kind, [])
        if len(listed) < self._limit:
            listed.append((offset, last))
        elif kind != Mismatch.OLDER:
            # The last record beside an older one is missing, which is reported in any case.
            self._unlisted_count += 1
            self._last_unlisted = offset

    def skip_missing(self) -> None:
        """Report no missing records: a cleaner has passed the end, so that others decide it."""
        self._bounds = replace(self._bounds, end=self._bounds.start)

    def missing(self, log: LogView) -> UnseenRecords:
        """Return the missing records, and the gone tombstones whose time is over."""
        start = max(self._bounds.log_start, self._bounds.start, self._forgotten_until())

        def is_known(offset: int) -> bool:
            return not (
                offset in self._explained or log.is_damaged(offset) or self._is_undecided(offset)
            )

        rows = self._table.unseen(start, self._bounds.end)
        return UnseenRecords(rows, self._bounds.due_tombstones_ms, is_known)

    def conclude(self, log: LogView) -> dict[str, Any]:
        """Report missing, changed and superfluous records."""
        unseen = self.missing(log)
        if self._settle is not None and self._has_unsettled and unseen.offsets:
            self._settle(self)
            unseen = self.missing(log)
        survivors = self._survivors(unseen)
        severities, has_stale = None, bool(survivors) or Mismatch.OLDER in self._mismatches
        if self._certainty is not None and (unseen.has_due or has_stale):
            severities = self._certainty(unseen)
        replaced: set[int] = set()
        start = self._forgotten_until()
        for kind, mismatches in sorted(self._mismatches.items()):
            for offset, last in mismatches:
                if offset < start:
                    continue
                if kind != Mismatch.OLDER:
                    replaced.update(self._judge(kind, offset, last, log))
                elif unseen.kind_at(last) is not None:
                    replaced.add(last)
                    self._report_stale(offset, last, log, _severity(severities, last))
                # Else it is a duplicate of its key's last record, which S8 reports.
        if self._unlisted_count and self._last_unlisted >= start:
            self._report_unlisted(log)
        self._report_survivors(survivors, severities, log)
        self._report_missing(unseen, severities, replaced, log)
        return {"reference_keys": self._table.key_count}

    def _judge(self, kind: int, offset: int, last: int, log: LogView) -> Collection[int]:
        """Report a mismatch; return the missing record that it replaces, if any."""
        record = log.read_record(offset)
        key = "its key" if record is None else f"key {show_key(record[0])}"
        is_last_kept = record is not None and self._table.is_seen(record[0])
        if kind == Mismatch.OTHER_VALUE:
            expected = f"the reference's value of {key}"
            self._find(Damage.CHANGED_VALUE, offset, expected, "another value", log)
        elif kind == Mismatch.OTHER_TIME:
            expected = f"the reference's timestamp of {key}"
            self._find(Damage.CHANGED_TIMESTAMP, offset, expected, "another timestamp", log)
        elif kind == Mismatch.NEWER and not is_last_kept:
            expected = f"{key} at offset {last}"
            self._find(Damage.MOVED_RECORD, offset, expected, f"its record at {offset}", log)
            return (last,)
        else:
            expected = f"no record of {key} at this offset"
            self._find(
                Damage.UNKNOWN_RECORD, offset, expected, "a record that was never written", log
            )
        return ()

    def _report_stale(self, offset: int, last: int, log: LogView, severity: Severity) -> None:
        record = log.read_record(offset)
        key = "its key" if record is None else f"key {show_key(record[0])}"
        expected = f"{key} at offset {last}, its last record"
        found = f"an older record at {offset}"
        self._find(Damage.STALE_VALUE, offset, expected, found, log, severity=severity)

    def _survivors(self, unseen: UnseenRecords) -> Sequence[tuple[int, int]]:
        """Return older records that are last in the log, each with its key's missing tombstone."""
        if self._find_survivors is None or not unseen.expired:
            return ()
        return list(self._find_survivors(unseen).pairs())

    def _report_survivors(
        self, survivors: Sequence[tuple[int, int]], severities: Severities | None, log: LogView
    ) -> None:
        """Report deleted keys that came back, unless they have a later record."""
        if severities is not None:
            missing = severities.certain
            survivors = [each for each in survivors if missing.kind_at(each[1]) is not None]
        for offset, last in survivors[: self._limit]:
            self._report_stale(offset, last, log, Severity.WARNING)
        if len(survivors) > self._limit:
            file, _ = log.place_of(survivors[self._limit][0])
            Finder(Check.PRESERVATION, self._report).find_more(
                Damage.STALE_VALUE,
                file,
                len(survivors) - self._limit,
                "the tombstones of keys",
                "more older records",
                Severity.WARNING,
            )

    def _report_missing(
        self,
        unseen: UnseenRecords,
        severities: Severities | None,
        replaced: Collection[int],
        log: LogView,
    ) -> None:
        """Report the missing records; no number of notes hides the errors among them."""
        counts: Counter[tuple[Kind, Severity]] = Counter()
        certain, start = () if severities is None else severities.certain, self._forgotten_until()
        # A certain one may be no last record in the table, which may have a later, aborted one.
        others = (each for each in certain if each[0] >= start and unseen.kind_at(each[0]) is None)
        for offset, kind in chain(unseen, others):
            if kind is not Kind.EXPIRED and offset not in replaced:
                severity = _severity(severities, offset)
                if severity is Severity.ERROR and not self._bounds.is_decided:
                    severity = Severity.WARNING
                counts[kind, severity] += 1
                if counts[kind, severity] <= self._limit:
                    self._report_lost(offset, kind, log, severity)
        for (kind, severity), count in counts.items():
            if count > self._limit:
                file, _ = log.place_of(log.first_offset)
                check, damage = _LOST[kind]
                more = count - self._limit
                Finder(check, self._report).find_more(
                    damage, file, more, "the last records of keys", "more missing", severity
                )

    def _report_lost(self, offset: int, kind: Kind, log: LogView, severity: Severity) -> None:
        record = self._read_reference(offset)
        key = "a key" if record is None else f"key {show_key(record[0])}"
        what = "tombstone" if kind is Kind.TOMBSTONE else "value"
        check, damage = _LOST[kind]
        expected = f"the last {what} of {key}"
        self._find(damage, offset, expected, "no record", log, check, severity)

    def _report_unlisted(self, log: LogView) -> None:
        file, _ = log.place_of(self._last_unlisted)
        Finder(Check.PRESERVATION, self._report).find_more(
            Damage.MORE_MISMATCHES,
            file,
            self._unlisted_count,
            "the reference's records",
            "more that differ",
        )

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


class _Settled(RunObserver):
    """An observer of another pass over the log, for the transactions newer than the reference."""

    def __init__(
        self,
        bounds: Bounds,
        void: TransactionRanges,
        compare: Callable[[SoundBatch, TransactionRanges], None],
    ) -> None:
        self._start = bounds.superseded_from
        self._end = max(bounds.end, bounds.superseded_until)
        self._void = void
        self._compare = compare

    def on_run(self, batches: Sequence[SoundBatch]) -> None:
        """See `log_view.RunObserver`."""
        for batch in batches:
            header = batch.header
            is_newer = self._start <= header.base_offset < self._end
            if is_newer and header.is_transactional and not header.is_control:
                self._compare(batch, self._void)


_LOST: Final = {
    Kind.VALUE: (Check.PRESERVATION, Damage.LOST_KEY),
    Kind.TOMBSTONE: (Check.TOMBSTONES, Damage.TOMBSTONE_GONE_EARLY),
}


def _severity(severities: Severities | None, offset: int) -> Severity:
    return Severity.ERROR if severities is None else severities.of(offset)

"""S4 and S9: the last record of each key of one log must exist in another one (composition).

A record that is missing from a log is judged by the records that its cleaner, or the cleaner of
another replica, may have removed it for. The logs are read again for that.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from heapq import merge

from kafkawire.sentinels import MAX_OFFSET
from logcheck.leftover_records import Leftovers, Successors, Survivors
from logcheck.log_scan import LogScan
from logcheck.preservation import (
    Bounds,
    Certainty,
    FindSurvivors,
    PreservationCheck,
    ReferenceTable,
)
from logcheck.replica import KeyComparison, Replica
from logcheck.transaction_ranges import Transaction
from logcheck.unseen_record import Severities, Spans, UnseenRecords


@dataclass(frozen=True)
class Pair:
    """Two logs of a partition, the second of which may lack records of the first."""

    expected: Replica
    found: Replica
    diverged: int
    """The offset from which one of them must be truncated."""
    keys: KeyComparison

    def find_lost(self, until: int, due_tombstones_ms: range = range(0)) -> LogScan:
        """Report each key's last record below `until` in `expected` that `found` lacks.

        By default one of them may have removed any tombstone. Return the pass over `found`.
        """
        expected, found = self.expected, self.found
        bounds = Bounds(
            start=max(expected.scan.first_offset, found.scan.first_offset),
            end=until,
            log_start=found.scan.first_offset,
            superseded_from=until,
            superseded_until=superseded_until(found),
            # Cleaners may leave different older records.
            stale_below=0,
            due_tombstones_ms=due_tombstones_ms,
            # Else `found` may have received, applied and removed a tombstone that `expected` lacks,
            # or its replica has died while it emptied its log.
            is_decided=found.digest.cleaned_until <= expected.scan.log_end_offset
            and expected.is_end_committed
            and found.scan.batch_count > 0,
        )
        check = self._check(
            bounds,
            until,
            self._aborted,
            self._void(found),
            certainty=partial(self.certainty, bounds),
            find_survivors=partial(self._survivors, bounds.start),
        )
        again = self.keys.read_again(found, check)
        check.conclude(found.scan)
        return again

    def certainty(self, bounds: Bounds, unseen: UnseenRecords) -> Severities:
        """Return the certainty that records of `expected` must not be missing in `found`.

        An error if `expected` has no later record of the key either. A note if the cleaner of
        another replica may have removed the record before `found` copied it; a warning if `found`
        then copied other records from a leader that had not cleaned them, or if the later record is
        in a transaction whose marker only that cleaner had.
        """
        likely = certain = self._missing(bounds, self._void(self.expected), self._void(self.found))
        if likely.offsets and (self.expected.open_transactions() or self.found.open_transactions()):
            certain = self._missing(bounds, self._aborted, self._aborted)
        doubtful = (each for each in likely.offsets if certain.kind_at(each) is None)
        return Severities(certain, array("q", merge(self._contradicted(unseen, certain), doubtful)))

    def _missing(
        self, bounds: Bounds, void: list[Transaction], void_in_found: list[Transaction]
    ) -> UnseenRecords:
        """Return the records without a later one that is not `void`, anywhere in either log."""
        widest = replace(bounds, superseded_until=MAX_OFFSET)
        check = self._check(widest, self.diverged, void, void_in_found)
        self.keys.read_again(self.found, check)
        return check.missing(self.found.scan)

    def settle(self, check: PreservationCheck) -> None:
        """Let `check` compare the transactions that are newer than its reference."""
        self.keys.read_again(self.found, check.settled(self._void(self.found)))

    def _contradicted(self, unseen: UnseenRecords, certain: UnseenRecords) -> Sequence[int]:
        """Return the missing records that no other cleaner removed before `found` copied them."""
        explained = (offset for offset in unseen.offsets if not certain.is_due(offset))
        spans = Spans(array("q", explained))
        if not spans.offsets:
            return ()
        for log in (self.expected, self.found):
            table = self.keys.make_table()
            table.load(unseen.rows)
            self.keys.read_again(log, Successors(table, self._void(log), spans))
        if not spans.has_any:
            return ()
        leftovers = Leftovers(self.keys.make_table(), self._void(self.found), spans)
        self.keys.read_again(self.found, leftovers)
        return leftovers.contradicted()

    def _survivors(self, start_offset: int, unseen: UnseenRecords) -> Survivors:
        """Return the older records in `found` of keys whose tombstone it lacks."""
        start = max(start_offset, self.found.scan.forgotten_until)
        return self.keys.survivors(self.found, self._void(self.found), start, unseen)

    @cached_property
    def _aborted(self) -> list[Transaction]:
        """The aborted transactions of both logs; a marker that must be cut decides nothing."""
        keys = self.keys
        aborted = [*keys.aborted(self.expected), *keys.aborted(self.found)]
        return [each for each in aborted if each[2] < self.diverged]

    def _void(self, log: Replica) -> list[Transaction]:
        """Return the transactions of a log whose records supersede nothing."""
        return [*self._aborted, *log.open_transactions()]

    def _check(
        self,
        bounds: Bounds,
        table_until: int,
        void: list[Transaction],
        void_in_found: list[Transaction],
        *,
        certainty: Certainty | None = None,
        find_survivors: FindSurvivors | None = None,
    ) -> PreservationCheck:
        """Return the check of `found` with the last records of `expected` below `table_until`.

        The `void` transactions of `expected` supersede nothing, nor do others in `found`.
        """
        expected, keys = self.expected, self.keys
        table = keys.make_table()
        keys.read_again(expected, ReferenceTable(table, table_until, void))
        return PreservationCheck(
            table,
            bounds,
            keys.finding_limit,
            self.found.report,
            expected.scan.read_record,
            is_reference_damaged=expected.scan.is_damaged,
            is_undecided=expected.undecided(self.diverged),
            only_missing=True,
            certainty=certainty,
            find_survivors=find_survivors,
            void=void_in_found,
        )


def superseded_until(log: Replica) -> int:
    """Return the end of the records for which a cleaner has probably removed older ones.

    A cleaner does not read the active segment, but the cleaner of another replica may have read the
    same records before this one copied them. It then left traces.
    """
    active = log.scan.files.active_base_offset
    return MAX_OFFSET if log.digest.cleaned_until > active else active

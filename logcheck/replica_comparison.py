"""S4: two replicas of a partition below all high watermarks (composition).

An end that one of them must still truncate is not compared. Batches are equal byte by byte, unless
a cleaner of either replica explains the difference: it removes whole batches, removes records from
a batch, or gives it a delete horizon. Each difference of another kind is an error. If cleaners
explain any, the logs are read again, and the last record of each key in one replica must exist in
the other, or a later record of the key.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from logcheck.batch_digest import BatchDigest, Difference, find_differences
from logcheck.diverged_end import diverged_from, forgotten_until
from logcheck.finding import Check, Damage, Finder, Finding, Report, Severity
from logcheck.history import COMPACT
from logcheck.log_scan import LogScan
from logcheck.lost_record import Pair
from logcheck.producer_batches import compare_producers
from logcheck.replica import KeyComparison, Replica


@dataclass(frozen=True, slots=True)
class ComparedRange:
    """The compared offsets: by keys from `start` to `by_keys_until`, by batches to `end`."""

    start: int
    by_keys_until: int
    end: int


def common_end(replicas: Sequence[Replica]) -> int:
    """Return the end of the offsets that all replicas have (exclusive)."""
    return min(replica.end_offset for replica in replicas)


def most_complete(replicas: Sequence[Replica]) -> Replica:
    """Return the replica with the latest end, with which the others are compared.

    It has the record for which a cleaner removed an older one, even if the copy of that cleaner's
    log ends before this record.
    """
    return max(replicas, key=lambda replica: replica.scan.log_end_offset)


def divergence(one: LogScan, other: LogScan) -> int:
    """Return the offset from which one of the logs must still be truncated."""
    start = max(one.forgotten_until, other.forgotten_until)
    runs = ([run for run in log.epochs.runs if run.last_offset >= start] for log in (one, other))
    return diverged_from(next(runs), one.files, next(runs), other.files)


def skip_forgotten(
    check: Check, damage: Damage, expected: LogScan, log: LogScan, report: Report
) -> None:
    """Let `log` begin behind the batches that it or the other one keeps for good, and report it.

    Compaction alone never moves the log start, so that a leader forgets no epoch.
    """
    if log.history.cleanup_policy == COMPACT:
        return
    runs = expected.epochs.runs, expected.files, log.epochs.runs, log.files
    offset = forgotten_until(*runs)
    if offset > max(expected.first_offset, log.first_offset):
        log.forgotten_until = offset
        text = "the same leader epochs, or a log start in a checkpoint"
        found = "batches of other leader epochs below, as before a log start that was not stored"
        place = *log.place_of(offset), offset
        Finder(check, report).find(damage, *place, text, found, Severity.WARNING)


def compare_pair(
    expected: Replica,
    found: Replica,
    end: int,
    keys: KeyComparison,
    *,
    with_batches: bool = True,
) -> ComparedRange:
    """Report the differences below `end`; without `with_batches` those between keys alone."""
    report = found.report if with_batches else _ignore
    kind = Check.REPLICAS, Damage.REPLICA_DIFFERS
    report_later_start(Check.REPLICAS, found.scan, expected.scan, report)
    report_later_start(Check.REPLICAS, expected.scan, found.scan, report)
    skip_forgotten(*kind, expected.scan, found.scan, report)
    start = max(expected.scan.first_offset, found.scan.first_offset)
    diverged = divergence(expected.scan, found.scan)
    if diverged < end:
        report_divergence(*kind, found.scan, diverged, report)
        end = diverged
    explained = Explained(*kind)
    for difference in undamaged_differences(expected, found, start, end):
        lacking = found if difference.is_lacking_after else expected
        severity = difference_severity(difference, lacking)
        if severity is Severity.ERROR or difference.offset >= lacking.scan.log_end_offset:
            # Without a high watermark, a short log may have an end that it must still truncate.
            is_committed = expected.is_end_committed and found.is_end_committed
            certainty = severity or Severity.ERROR if is_committed else Severity.WARNING
            report(difference.finding(*kind, certainty))
        else:
            explained.add(difference, severity)
    if explained.until:
        until = min(explained.until, diverged)
        scans = [
            Pair(expected, judged(found, expected.digest), diverged, keys).find_lost(until),
            Pair(found, judged(expected, found.digest), diverged, keys).find_lost(until),
        ]
        explained.conclude((found if explained.is_lacking_after else expected).scan, scans, report)
    points = (each.scan.files.cleaner_point or 0 for each in (expected, found))
    until = max(explained.until, *points)
    compare_producers(
        expected.producers,
        expected.scan,
        found.producers,
        found.scan,
        min(until, end),
        partial(is_skipped, expected.scan, found.scan),
        report,
    )
    return ComparedRange(start, min(max(explained.until, start), end), end)


def undamaged_differences(
    expected: Replica, found: Replica, start: int, end: int
) -> Iterator[Difference]:
    """Yield the differences between two logs that lie in no damaged part of either."""
    for difference in find_differences(expected.digest, found.digest, start, end):
        if not is_skipped(expected.scan, found.scan, difference.offset):
            yield difference


def is_skipped(one: LogScan, other: LogScan, offset: int) -> bool:
    """Whether the logs cannot be compared at `offset`, which is damaged or forgotten in one."""
    is_forgotten = offset < max(one.forgotten_until, other.forgotten_until)
    return is_forgotten or one.is_damaged(offset) or other.is_damaged(offset)


def difference_severity(difference: Difference, lacking: Replica) -> Severity | None:
    """Return the certainty that the difference is wrong; None below the cleaner's point."""
    if not difference.may_be_cleaning:
        return Severity.ERROR
    if difference.offset >= lacking.scan.log_end_offset:
        # A power loss removes batches that were not flushed. A follower removes all of them if its
        # leader has deleted them, and may die before it has lowered its checkpoints.
        is_flushed = difference.offset < (lacking.scan.files.recovery_point or 0)
        is_error = is_flushed and lacking.scan.batch_count
        return Severity.ERROR if is_error else Severity.WARNING
    return lacking.scan.history.missing(difference.offset)


def report_later_start(check: Check, log: LogScan, other: LogScan, report: Report) -> None:
    """Report a log that begins after the other one."""
    if log.first_offset > other.first_offset and log.files.segments:
        severity = log.history.begins_later(log.files.first_base_offset)
        place = log.files.segments[0].log, 0, log.first_offset
        expected = f"offset {other.first_offset}, the start of {other.files.directory}"
        found = f"a log from offset {log.first_offset}"
        Finder(check, report).find(Damage.BEGINS_LATER, *place, expected, found, severity)


def report_divergence(
    check: Check, damage: Damage, log: LogScan, offset: int, report: Report
) -> None:
    """Report that `log` or the other one must still be truncated to `offset`."""
    place = *log.place_of(offset), offset
    expected, found = "the same leader epochs", "an end that a replica must still truncate"
    Finder(check, report).find(damage, *place, expected, found, Severity.NOTE)


def judged(replica: Replica, other: BatchDigest) -> Replica:
    """Return `replica`, whose missing records are judged by the traces of cleaners in another."""
    return replace(replica, report=partial(report_loss, replica.report, other.cleaned_until))


def report_loss(report: Report, cleaned_until: int, finding: Finding) -> None:
    """Report a missing record; only as a warning if a cleaner may have judged it differently.

    Below `cleaned_until`, the other log has traces of a cleaner behind the record. That cleaner may
    have removed a tombstone which ended the record, before the other replica could copy it. And the
    retention of tombstones may have been shorter before.
    """
    is_ended = (0 if finding.offset is None else finding.offset) < cleaned_until
    is_unsure = finding.damage is Damage.TOMBSTONE_GONE_EARLY or is_ended
    is_warning = is_unsure and finding.severity is Severity.ERROR
    report(replace(finding, severity=Severity.WARNING) if is_warning else finding)


def _ignore(_: Finding) -> None:
    pass


class Explained:
    """The differences that a cleaner may have made; those beyond its checkpoint are one finding."""

    def __init__(self, check: Check, damage: Damage) -> None:
        self.until = 0
        """The end of the last one (exclusive)."""
        self._check = check
        self._damage = damage
        self._first: Difference | None = None
        self._last_offset = 0
        self._count = 0

    @property
    def is_lacking_after(self) -> bool:
        """Whether the second log lacks the records of the first difference."""
        return self._first is None or self._first.is_lacking_after

    def add(self, difference: Difference, severity: Severity | None) -> None:
        """Add a difference, which is not reported if it has no severity.

        A new delete horizon alone is none: the cleaner also sets it in the rest of a segment, of
        which it has cleaned only the beginning.
        """
        self.until = difference.last_offset + 1
        if severity is not None and not difference.is_new_horizon:
            self._first = self._first or difference
            self._last_offset = difference.offset
            self._count += 1

    def conclude(self, lacking: LogScan, scans: Sequence[LogScan], report: Report) -> None:
        """Report the differences of the log `lacking`; `scans` have read the records of both."""
        if self._first is None:
            return
        seen = [each.offsets.missing for each in scans if each.offsets.missing is not None]
        is_unlikely = any(each.has_record_without_key(self._last_offset + 1) for each in seen)
        is_unlikely = is_unlikely and not any(each.has_traces for each in seen)
        offset = self._first.offset
        severity = lacking.history.missing(offset, is_compaction_unlikely=is_unlikely)
        finding = self._first.finding(self._check, self._damage, severity or Severity.NOTE)
        report(finding.counted(self._count - 1))

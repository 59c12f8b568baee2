"""S4: two replicas of a partition below all high watermarks (composition).

An end that one of them must still truncate is not compared. Batches are equal byte by byte, unless
a cleaner of either replica explains the difference: it removes whole batches, removes records from
a batch, or gives it a delete horizon. Each difference of another kind is an error. If cleaners
explain any, the logs are read again, and the last record of each key in one replica must exist in
the other, or a later record of the key.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from kafkawire.native import KeyTable
from logcheck.batch_digest import BatchDigest, Difference, find_differences
from logcheck.divergence import diverged_from
from logcheck.finding import Check, Damage, Finder, Finding, Report, Severity
from logcheck.log_scan import LogScan, OpenSource
from logcheck.preservation import MAX_OFFSET, Bounds, Confirm, PreservationCheck, ReferenceTable
from logcheck.producer_batches import ProducerBatches, compare_producers
from logcheck.producer_files import read_aborted
from logcheck.replica_files import ReadBytes

MakeTable = Callable[[], KeyTable]
"""A function that returns an empty table of keys."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica after a pass over its log."""

    scan: LogScan
    digest: BatchDigest
    producers: ProducerBatches
    report: Report

    @property
    def is_end_committed(self) -> bool:
        """Whether a checkpoint says up to which offset the log is committed."""
        return self.scan.files.high_watermark is not None

    @property
    def end_offset(self) -> int:
        """The end of the offsets that every replica must have (exclusive)."""
        return self.scan.files.committed_end(self.scan.log_end_offset)

    def undecided(self) -> Callable[[int], bool]:
        """Return whether the record at an offset belongs to a transaction without a marker."""
        is_batch_undecided = self.producers.undecided()

        def is_undecided(offset: int) -> bool:
            base_offset = self.scan.base_offset_of(offset)
            return base_offset is not None and is_batch_undecided(base_offset)

        return is_undecided


@dataclass(frozen=True, slots=True)
class KeyComparison:
    """The files and the limit that a comparison of keys needs."""

    open_source: OpenSource
    read_bytes: ReadBytes
    make_table: MakeTable
    finding_limit: int


@dataclass(frozen=True, slots=True)
class ComparedRange:
    """The compared offsets: by keys from `start` to `by_keys_until`, by batches to `end`."""

    start: int
    by_keys_until: int
    end: int


def common_end(replicas: Sequence[Replica]) -> int:
    """Return the end of the offsets that all replicas have (exclusive)."""
    return min(replica.end_offset for replica in replicas)


def divergence(one: LogScan, other: LogScan) -> int:
    """Return the offset from which one of the logs must still be truncated."""
    return diverged_from(one.epochs.runs, one.files, other.epochs.runs, other.files)


def compare_pair(
    expected: Replica,
    found: Replica,
    end: int,
    keys: KeyComparison,
    *,
    with_batches: bool = True,
) -> ComparedRange:
    """Report the differences below `end`; without `with_batches` those between keys alone."""
    start = max(expected.scan.first_offset, found.scan.first_offset)
    report = found.report if with_batches else _ignore
    diverged = divergence(expected.scan, found.scan)
    if diverged < end:
        report_divergence(Check.REPLICAS, Damage.REPLICA_DIFFERS, found.scan, diverged, report)
        end = diverged
    report_later_start(Check.REPLICAS, found.scan, expected.scan, report)
    report_later_start(Check.REPLICAS, expected.scan, found.scan, report)
    explained = Explained(Check.REPLICAS, Damage.REPLICA_DIFFERS)
    for difference in undamaged_differences(expected, found, start, end):
        lacking = found if difference.is_lacking_after else expected
        severity = _severity(difference, lacking)
        if severity is Severity.ERROR or difference.offset >= lacking.scan.log_end_offset:
            # Without a high watermark, a short log may have an end that it must still truncate.
            is_committed = expected.is_end_committed and found.is_end_committed
            certainty = severity or Severity.ERROR if is_committed else Severity.WARNING
            report(difference.finding(Check.REPLICAS, Damage.REPLICA_DIFFERS, certainty))
        else:
            explained.add(difference, severity)
    if explained.until:
        until = min(explained.until, diverged)
        scans = [
            find_lost(expected, found, until, diverged, keys),
            find_lost(found, expected, until, diverged, keys),
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
        lambda offset: expected.scan.is_damaged(offset) or found.scan.is_damaged(offset),
        report,
    )
    return ComparedRange(start, min(max(explained.until, start), end), end)


def undamaged_differences(
    expected: Replica, found: Replica, start: int, end: int
) -> Iterator[Difference]:
    """Yield the differences between two logs that lie in no damaged part of either."""
    for difference in find_differences(expected.digest, found.digest, start, end):
        offset = difference.offset
        if not (expected.scan.is_damaged(offset) or found.scan.is_damaged(offset)):
            yield difference


def _severity(difference: Difference, lacking: Replica) -> Severity | None:
    """Return the certainty that the difference is wrong; None below the cleaner's point."""
    if not difference.may_be_cleaning:
        return Severity.ERROR
    if difference.offset >= lacking.scan.log_end_offset:
        # A power loss removes batches that were not flushed.
        is_flushed = difference.offset < (lacking.scan.files.recovery_point or 0)
        return Severity.ERROR if is_flushed else Severity.WARNING
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


def find_lost(
    expected: Replica,
    found: Replica,
    until: int,
    diverged: int,
    keys: KeyComparison,
    tombstones_after_ms: int = MAX_OFFSET,
) -> LogScan:
    """Report each key's last record below `until` in `expected` that `found` lacks.

    One of the logs may have to be truncated to `diverged`. By default one of them may have removed
    any tombstone. Return the pass over `found`.
    """
    bounds = Bounds(
        start=max(expected.scan.first_offset, found.scan.first_offset),
        end=until,
        log_start=found.scan.first_offset,
        superseded_from=until,
        superseded_until=superseded_until(found),
        # Cleaners may leave different older records.
        stale_below=0,
        tombstones_after_ms=tombstones_after_ms,
        # Else `found` may have received, applied and removed a tombstone that `expected` lacks.
        is_decided=found.digest.cleaned_until <= expected.scan.log_end_offset
        and expected.is_end_committed,
    )
    confirm = partial(confirm_lost, expected, found, bounds, diverged, keys)
    check = _key_check(expected, found, bounds, keys, until, confirm)
    again = _scan_again(found, keys)
    again.run([check])
    check.conclude(found.scan)
    return again


def superseded_until(log: Replica) -> int:
    """Return the end of the records for which a cleaner has probably removed older ones.

    A cleaner does not read the active segment, but the cleaner of another replica may have read the
    same records before this one copied them. It then left traces.
    """
    active = log.scan.files.active_base_offset
    return MAX_OFFSET if log.digest.cleaned_until > active else active


def confirm_lost(
    expected: Replica, found: Replica, bounds: Bounds, diverged: int, keys: KeyComparison
) -> Collection[int]:
    """Return the last records of `expected` below the bounds' end that `found` neither has nor
    supersedes.
    """
    widest = replace(bounds, superseded_until=MAX_OFFSET)
    check = _key_check(expected, found, widest, keys, diverged, None)
    _scan_again(found, keys).run([check])
    return check.missing(found.scan).keys()


def _key_check(
    expected: Replica,
    found: Replica,
    bounds: Bounds,
    keys: KeyComparison,
    table_until: int,
    confirm: Confirm | None,
) -> PreservationCheck:
    """Return the check of `found` with the last records of `expected` below `table_until`."""
    table = keys.make_table()
    aborted = read_aborted(expected.scan.files, keys.read_bytes, _ignore)
    _scan_again(expected, keys).run([ReferenceTable(table, table_until, aborted)])
    return PreservationCheck(
        table,
        bounds,
        keys.finding_limit,
        found.report,
        expected.scan.read_record,
        is_reference_damaged=expected.scan.is_damaged,
        is_undecided=expected.undecided(),
        only_missing=True,
        confirm=confirm,
    )


def _scan_again(replica: Replica, keys: KeyComparison) -> LogScan:
    """Return another pass over the replica, which repeats no finding."""
    history = replica.scan.history
    return LogScan(replica.scan.files, _ignore, keys.open_source, history=history)

"""The reference of a compaction audit: an uncompacted replica, read into a table (composition)."""

from functools import partial

from analytics.coverage import BY_BATCHES, BY_KEYS, Compared
from analytics.file_store import OpenFile, read_bytes
from analytics.task import AuditTask
from kafkawire.native import KeyTable
from kafkawire.sentinels import MAX_OFFSET
from logcheck.batch_digest import BatchDigest
from logcheck.finding import Check, Damage, Finding, Report, Severity
from logcheck.finding_list import FindingList
from logcheck.history import history_of
from logcheck.kept_producers import LastBatches, check_last_batches, check_markers
from logcheck.log_scan import LogScan
from logcheck.log_view import Observer
from logcheck.lost_record import Pair
from logcheck.preservation import Bounds, PreservationCheck, ReferenceTable
from logcheck.producer_batches import ProducerBatches, compare_producers
from logcheck.producer_files import read_aborted
from logcheck.producer_replay import ProducerReplay
from logcheck.replica import KeyComparison, Replica
from logcheck.replica_comparison import (
    Explained,
    common_end,
    difference_severity,
    divergence,
    is_skipped,
    judged,
    report_divergence,
    report_later_start,
    report_loss,
    skip_forgotten,
    undamaged_differences,
)
from logcheck.replica_files import ReplicaFiles
from logcheck.transaction_replay import TransactionColumns, TransactionReplay
from logcheck.unseen_record import Severities, UnseenRecords


class Reference:
    """The reference log, read once for all checks that compare a log with it."""

    def __init__(self, task: AuditTask, files: ReplicaFiles, log: ReplicaFiles, report: Report):
        """Read all of `files`, the reference of `log`. Only the first shard reports its faults."""
        rules = task.rules
        self._rules = rules
        self._log = log
        self._check: PreservationCheck | None = None
        self.compared: list[Compared] = []
        own = FindingList(files, rules.finding_limit)
        history = history_of(files, rules.cleanup_policy)
        self.scan = LogScan(files, own.report, OpenFile, history=history)
        self._report = report
        self._make_table = partial(KeyTable, rules.key_limit, task.shard, task.shard_count)
        self.table = self._make_table()
        self._producers, self._transactions = LastBatches(), TransactionColumns()
        self._batches = ProducerBatches()
        self.digest = BatchDigest(log.cleaner_point or 0)
        self._replica = Replica(self.scan, self.digest, self._batches, _ignore)
        self._keys = KeyComparison(OpenFile, read_bytes, self._make_table, rules.finding_limit)
        self._found: Replica | None = None
        aborted = read_aborted(files, read_bytes, own.report)
        observers: list[Observer] = [ReferenceTable(self.table, log.cleaner_point or 0, aborted)]
        observers += [self.digest, self._batches]
        if task.shard == 0:
            observers.append(self._producers)
        if task.has_transactions:
            observers.append(self._transactions)
        self.scan.run(observers)
        if task.shard == 0:
            for finding in own.rows():
                report(finding)

    def check(self, report: Report) -> PreservationCheck:
        """Return the check that compares the log with the reference's keys."""
        log, point = self._log, self._log.cleaner_point or 0
        end = min(self.scan.log_end_offset, point)
        bounds = Bounds(
            start=self.scan.first_offset,
            end=end,
            log_start=max(log.first_base_offset, log.log_start or 0),
            # A cleaner may have passed the point, and removed a record for any later one.
            superseded_from=end if point else MAX_OFFSET,
            superseded_until=log.active_base_offset,
            # Else the log may have received, applied and removed a tombstone since.
            is_decided=point <= self.scan.log_end_offset,
            due_tombstones_ms=self._rules.due_tombstones_ms,
        )
        start = max(bounds.start, bounds.log_start)
        self.compared.append(Compared(Check.PRESERVATION, BY_KEYS, start, bounds.end))
        limit = self._rules.finding_limit
        read, is_damaged = self.scan.read_record, self.scan.is_damaged
        self._check = PreservationCheck(
            self.table,
            bounds,
            limit,
            partial(report_loss, report, 0),
            read,
            is_reference_damaged=is_damaged,
            is_undecided=self._replica.undecided(),
            forgotten_until=self._forgotten_until,
            certainty=partial(self._certainty, bounds),
            void=read_aborted(log, read_bytes, _ignore),
            settle=lambda check: self._pair().settle(check),
        )
        return self._check

    def compare_batches(self, batches: ProducerBatches, log: LogScan, report: Report) -> None:
        """Compare the producers of the batches and the markers in the cleaned part of the log."""
        until = min(self._log.cleaner_point or 0, self.scan.log_end_offset, self._diverged(log))
        expected = self._batches, self.scan
        skipped = partial(is_skipped, self.scan, log)
        compare_producers(*expected, batches, log, until, skipped, report)

    def compare_producers(self, replay: ProducerReplay, log: LogScan, report: Report) -> None:
        """Report the last batches of producers that are missing."""
        end, now_ms = self._shared_end(log), self._rules.now_ms
        check_last_batches(self._producers, replay, log, end, now_ms, report)

    def compare_markers(self, replay: TransactionReplay, log: LogScan, report: Report) -> None:
        """Report the missing markers."""
        kept_after_ms = self._rules.now_ms - self._rules.delete_retention_ms
        end = self._shared_end(log)
        check_markers(self._transactions, replay, log, end, kept_after_ms, report)

    def _shared_end(self, log: LogScan) -> int:
        return min(log.log_end_offset, self._diverged(log))

    def _diverged(self, log: LogScan) -> int:
        return divergence(self.scan, log)

    def compare_uncleaned(
        self, digest: BatchDigest, batches: ProducerBatches, scan: LogScan, *, with_batches: bool
    ) -> None:
        """Compare the log from its cleaner's point on with the reference, batch by batch.

        If a cleaner has passed the point, all keys are compared once more, up to the last of its
        traces. Without `with_batches` the differences between keys alone are reported.
        """
        report = self._report if with_batches else _ignore
        reference, log = self._replica, Replica(scan, digest, batches, self._report)
        self._found = log
        kind = Check.UNCLEANABLE, Damage.REWRITTEN_BATCH
        report_later_start(Check.UNCLEANABLE, scan, self.scan, report)
        skip_forgotten(*kind, self.scan, scan, report)
        start = max(self._log.cleaner_point or 0, self.scan.first_offset, scan.first_offset)
        end, diverged = common_end([reference, log]), self._diverged(scan)
        if diverged < end:
            report_divergence(*kind, scan, diverged, report)
            end = diverged
        self.compared.append(Compared(Check.UNCLEANABLE, BY_BATCHES, start, end))
        explained = Explained(Check.UNCLEANABLE, Damage.CLEANED_BEYOND_CHECKPOINT)
        for difference in undamaged_differences(reference, log, start, end):
            severity = scan.history.missing(difference.offset)
            is_removal = difference.is_lacking_after and difference.may_be_cleaning
            if severity is Severity.ERROR or not is_removal:
                lacking = difference_severity(difference, log) if is_removal else None
                is_committed = reference.is_end_committed and log.is_end_committed
                certainty = lacking or Severity.ERROR if is_committed else Severity.WARNING
                report(difference.finding(*kind, certainty))
            else:
                explained.add(difference, severity)
        if not explained.until:
            return
        if self._check is not None:
            self._check.skip_missing()
        until = min(explained.until, diverged)
        again = Pair(reference, judged(log, reference.digest), diverged, self._keys).find_lost(
            until, self._rules.due_tombstones_ms
        )
        explained.conclude(scan, [again], report)

    def _forgotten_until(self) -> int:
        """Return the log start that only the epochs of both logs show."""
        return 0 if self._found is None else self._found.scan.forgotten_until

    def _certainty(self, bounds: Bounds, unseen: UnseenRecords) -> Severities:
        """Return the certainty that records of the reference must not be missing."""
        return self._pair().certainty(bounds, unseen)

    def _pair(self) -> Pair:
        assert self._found is not None, "the log is compared before the checks conclude"
        return Pair(self._replica, self._found, self._diverged(self._found.scan), self._keys)


def _ignore(_: Finding) -> None:
    pass

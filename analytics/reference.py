"""Composition: the reference of a compaction audit: an uncompacted replica, read into a table."""

from analytics.checks.preservation import Bounds, PreservationCheck, ReferenceTable
from analytics.coverage import BY_BATCHES, BY_KEYS, Compared
from analytics.file_store import OpenFile, read_bytes
from analytics.finding_list import FindingList
from analytics.task import AuditTask
from kafkawire.native import KeyTable
from logcheck.batch_digest import BatchDigest, IsDamaged, compare_digests, compare_dirty
from logcheck.finding import Check, Damage, Report
from logcheck.history import history_of
from logcheck.log_scan import LogScan
from logcheck.log_view import LogView, Observer
from logcheck.producer_batches import ProducerBatches, compare_producers
from logcheck.producer_files import ReferenceReplays, read_aborted
from logcheck.producer_replay import ProducerReplay
from logcheck.replica_files import ReplicaFiles
from logcheck.transaction_check import TransactionReplay


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
        self.table = KeyTable(rules.key_limit, task.shard, task.shard_count)
        self.replays = ReferenceReplays(ProducerReplay(), TransactionReplay(), ProducerBatches())
        self.digest = BatchDigest(log.cleaner_point or 0)
        aborted = read_aborted(files, read_bytes, own.report)
        observers: list[Observer] = [ReferenceTable(self.table, log.cleaner_point or 0, aborted)]
        if task.shard == 0:
            observers += [*self.replays, self.digest]
        self.scan.run(observers)
        if task.shard == 0:
            for finding in own.rows():
                report(finding)

    def check(self, report: Report) -> PreservationCheck:
        """Return the check that compares the log with the reference's keys."""
        log = self._log
        bounds = Bounds(
            start=self.scan.first_offset,
            end=min(self.scan.log_end_offset, log.cleaner_point or 0),
            log_start=max(log.first_base_offset, log.log_start or 0),
            tombstones_after_ms=self._rules.now_ms - self._rules.delete_retention_ms,
        )
        start = max(bounds.start, bounds.log_start)
        self.compared.append(Compared(Check.PRESERVATION, BY_KEYS, start, bounds.end))
        limit = self._rules.finding_limit
        read, is_damaged = self.scan.read_record, self.scan.is_damaged
        self._check = PreservationCheck(
            self.table, bounds, limit, report, read, is_reference_damaged=is_damaged
        )
        return self._check

    def compare_producers(self, batches: ProducerBatches, log: LogView, report: Report) -> None:
        """Compare the producers of the batches and the markers in the cleaned part of the log."""
        until = min(self._log.cleaner_point or 0, self.scan.log_end_offset)
        expected = self.replays.batches, self.scan
        compare_producers(*expected, batches, log, until, self._is_damaged_in(log), report)

    def _is_damaged_in(self, log: LogView) -> IsDamaged:
        """Return a test of an offset: whether it may lie in a damaged part of either log."""
        return lambda offset: log.is_damaged(offset) or self.scan.is_damaged(offset)

    def compare_uncleaned(self, digest: BatchDigest, log: LogView, report: Report) -> None:
        """Compare the uncleaned part of the log with the reference, batch by batch.

        If a cleaner has passed the log's checkpoint, missing records become warnings.
        """
        start = max(self._log.cleaner_point or 0, self.scan.first_offset, log.first_offset)
        active, watermark = self._log.active_base_offset, self._log.high_watermark
        # No cleaner rewrites the active segment, nor a batch above the high watermark.
        uncleanable_from = active if watermark is None else min(active, watermark)
        bound = max(start, uncleanable_from)
        end = min(self.scan.log_end_offset, log.log_end_offset)
        self.compared.append(Compared(Check.UNCLEANABLE, BY_BATCHES, start, end))

        place = self.digest, digest, self._is_damaged_in(log)
        compare_digests(Check.UNCLEANABLE, Damage.REWRITTEN_BATCH, *place, bound, end, report)
        is_cleaned_further = compare_dirty(*place, start, min(bound, end), report)
        if is_cleaned_further and self._check is not None:
            self._check.allow_further_cleaning()

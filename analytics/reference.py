"""Composition: the reference of a compaction audit: an uncompacted replica, read into a table."""

from analytics.checks.batch_digest import BatchDigest
from analytics.checks.log_view import LogView, Observer
from analytics.checks.preservation import Bounds, PreservationCheck, ReferenceTable
from analytics.checks.producers import ProducerReplay
from analytics.checks.transactions import Aborted, TransactionLog, read_txnindex
from analytics.file_store import read_bytes
from analytics.finding import Check, Report
from analytics.finding_list import FindingList
from analytics.log_scan import LogScan, unreadable
from analytics.task import MAX_OFFSET, AuditTask, ReplicaFiles
from kafkawire.columns_scanner import KeyTable


class Reference:
    """The reference log, read once for all checks that hold another log against it."""

    def __init__(self, task: AuditTask, files: ReplicaFiles, log: ReplicaFiles, report: Report):
        """Read all of `files`, the reference of `log`; what is wrong in it is reported once."""
        rules = task.rules
        self._rules = rules
        self._log = log
        own = FindingList(log.topic, log.partition, files.replica, rules.finding_limit)
        self.scan = LogScan(files, own.report)
        self.table = KeyTable(rules.key_limit, task.shard, task.shard_count)
        self.producers = ProducerReplay()
        self.transactions = TransactionLog()
        self.digest = BatchDigest(uncleanable_from(log))
        aborted = read_aborted(files, own.report)
        observers: list[Observer] = [ReferenceTable(self.table, MAX_OFFSET, aborted)]
        if task.shard == 0:
            observers += [self.producers, self.transactions, self.digest]
        self.scan.run(observers)
        if task.shard == 0:
            for finding in own.rows():
                report(finding)

    def check(self, report: Report) -> PreservationCheck:
        """The check that holds the log against the reference's keys."""
        log = self._log
        bounds = Bounds(
            start=self.scan.first_offset,
            end=self.scan.log_end_offset,
            log_start=max(first_base(log), log.log_start or 0),
            cleaned_until=log.cleaner_point or 0,
            tombstones_after_ms=self._rules.now_ms - self._rules.delete_retention_ms,
        )
        limit = self._rules.finding_limit
        return PreservationCheck(self.table, bounds, limit, report, self.scan.read_record)

    def uncleanable_range(self, log: LogView) -> tuple[int, int]:
        """The offsets (end exclusive) where log and reference hold the same batches."""
        start = max(uncleanable_from(self._log), self.scan.first_offset, log.first_offset)
        return start, min(self.scan.log_end_offset, log.log_end_offset)


def uncleanable_from(log: ReplicaFiles) -> int:
    """From where on nothing may have been rewritten: the active segment, or the high watermark."""
    active = log.segments[-1].base_offset if log.segments else 0
    watermark = active if log.high_watermark is None else log.high_watermark
    return min(active, watermark)


def first_base(log: ReplicaFiles) -> int:
    """The offset that names the first segment."""
    return log.segments[0].base_offset if log.segments else 0


def read_aborted(files: ReplicaFiles, report: Report) -> list[Aborted]:
    """The aborted transactions that the replica's indexes name."""
    aborted: list[Aborted] = []
    for segment in files.segments:
        if segment.txnindex is not None:
            try:
                data = read_bytes(segment.txnindex)
            except OSError as error:
                report(unreadable(segment.txnindex, error))
                continue
            aborted += [entry for _, entry in read_txnindex(data, segment.txnindex, report)]
    return aborted


REFERENCE_CHECKS = frozenset({Check.PRESERVATION, Check.UNCLEANABLE})
"""The checks that need a reference; the others merely know more with one."""

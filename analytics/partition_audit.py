"""Composition: what one task does: audits each replica by itself, or holds them against each other.

S4 compares replicas below the lowest high watermark. Where a log was cleaned, its batches are its
own affair: there the last records of the keys are compared, in both directions. Where no replica
was cleaned, every batch is the same, byte by byte.
"""

from typing import Any

from analytics.checks.batch_digest import BatchDigest, IsDamaged, compare_digests
from analytics.checks.preservation import Bounds, PreservationCheck, ReferenceTable
from analytics.finding import Check, Finding
from analytics.finding_list import FindingList
from analytics.log_scan import LogScan
from analytics.reference import read_aborted
from analytics.replica_audit import ReplicaAudit
from analytics.summary import summarize
from analytics.task import MAX_OFFSET, AuditTask, ReplicaFiles
from kafkawire.columns_scanner import KeyTable

Outcome = tuple[list[Finding], dict[str, Any]]


def audit_partition(task: AuditTask) -> list[Outcome]:
    """Run the task's checks; one outcome per replica.

    Raises:
        KeyLimitError: one table cannot hold the partition's keys; split it into shards.
    """
    if str(Check.REPLICAS) in task.checks:
        return _compare_replicas(task)
    return [ReplicaAudit(task, replica).run() for replica in task.replicas]


class _Replica:
    """One of several replicas, read once."""

    def __init__(self, task: AuditTask, files: ReplicaFiles, end: int) -> None:
        self.files = files
        place = files.topic, files.partition, files.replica
        self.findings = FindingList(*place, task.rules.finding_limit)
        structure = self.findings if task.shard == 0 else FindingList(*place, 0)
        self.scan = LogScan(files, structure.report)
        self.digest = BatchDigest(0)
        self.table = KeyTable(task.rules.key_limit, task.shard, task.shard_count)
        self._observers = [self.digest]
        self._keys = ReferenceTable(self.table, end, read_aborted(files, structure.report))

    def read(self, *, with_keys: bool) -> None:
        """Walk the log; with its keys where some replica was cleaned."""
        self.scan.run([*self._observers, self._keys] if with_keys else self._observers)


def _compare_replicas(task: AuditTask) -> list[Outcome]:
    watermarks = [each.high_watermark for each in task.replicas]
    known = [watermark for watermark in watermarks if watermark is not None]
    cleaned_until = max(files.cleaner_point or 0 for files in task.replicas)
    end = min([*known, cleaned_until])
    replicas = [_Replica(task, files, end) for files in task.replicas]
    for replica in replicas:
        replica.read(with_keys=cleaned_until > 0)
    ends = [replica.scan.log_end_offset for replica in replicas]
    end = min([*known, *ends])
    first = replicas[0]
    for other in replicas[1:]:
        start = max(cleaned_until, first.scan.first_offset, other.scan.first_offset)
        if task.shard == 0:
            report = other.findings.report
            what = "replica_differs"
            pair = first.digest, other.digest, _is_damaged_in(first, other)
            compare_digests(Check.REPLICAS, what, *pair, start, end, report)
        if cleaned_until > 0:
            _compare_keys(task, first, other, cleaned_until, end)
            _compare_keys(task, other, first, cleaned_until, end)
    return [
        (replica.findings.rows(), summarize(task, replica.files, replica.scan))
        for replica in replicas
    ]


def _is_damaged_in(*replicas: _Replica) -> IsDamaged:
    """Whether an offset may stand in what could not be read of some replica, which is told."""
    return lambda offset: any(replica.scan.is_damaged(offset) for replica in replicas)


def _compare_keys(
    task: AuditTask, expected: _Replica, found: _Replica, cleaned_until: int, end: int
) -> None:
    """Report what is last of its key in `expected` and is not in `found`, below `cleaned_until`."""
    table = KeyTable(task.rules.key_limit, task.shard, task.shard_count)
    table.load(expected.table.export())
    bounds = Bounds(
        start=max(expected.scan.first_offset, found.scan.first_offset),
        end=min(end, cleaned_until),
        log_start=found.scan.first_offset,
        # Which older records are left is each cleaner's own affair.
        stale_below=0,
        # A tombstone may be gone from one replica already.
        tombstones_after_ms=MAX_OFFSET,
    )
    check = PreservationCheck(
        table,
        bounds,
        task.rules.finding_limit,
        found.findings.report,
        expected.scan.read_record,
        is_reference_damaged=expected.scan.is_damaged,
        only_missing=True,
    )
    found_scan = LogScan(found.files, lambda _: None)
    found_scan.run([check])
    check.conclude(found_scan)

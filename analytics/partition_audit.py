"""Composition: one task, which audits each replica by itself or compares the replicas (S4).

S4 compares replicas below the lowest high watermark. Cleaned replicas may differ in their batches,
so there the last record of each key is compared, in both directions. Where no replica was cleaned,
all batches must be equal byte by byte. A broker writes high watermarks and cleaner points only at
intervals: the files of a live or killed broker may be ahead of both.
"""

from typing import Any

from analytics.checks.preservation import Bounds, PreservationCheck, ReferenceTable
from analytics.coverage import (
    BY_BATCHES,
    BY_KEYS,
    FAILED,
    Compared,
    nothing_compared,
    ranges_of,
)
from analytics.file_store import OpenFile, read_bytes
from analytics.finding_list import FindingList
from analytics.replica_audit import ReplicaAudit, identify, summarize
from analytics.task import MAX_OFFSET, AuditTask
from kafkawire.native import KeyTable
from logcheck.batch_digest import BatchDigest, IsDamaged, compare_digests
from logcheck.finding import Check, Damage, Finding, audit_failed
from logcheck.history import history_of
from logcheck.log_scan import LogScan
from logcheck.log_view import Observer
from logcheck.producer_batches import ProducerBatches, compare_producers
from logcheck.producer_files import read_aborted
from logcheck.replica_files import ReplicaFiles
from logcheck.topic_id import compare_topic_ids, read_topic_id

Outcome = tuple[list[Finding], dict[str, Any]]


def audit_partition(task: AuditTask) -> list[Outcome]:
    """Run the task's checks; one outcome per replica.

    Raises:
        KeyLimitError: one table cannot hold the partition's keys; split the task into shards.
    """
    if str(Check.REPLICAS) in task.checks:
        return _compare_replicas(task)
    return [ReplicaAudit(task, replica).run() for replica in task.replicas]


def failed_audit(task: AuditTask, error: Exception) -> list[Outcome]:
    """Return the outcomes of a task that ended with `error`: one finding, and sizes."""
    first = task.replicas[0]
    findings = FindingList(first, task.rules.finding_limit)
    findings.report(audit_failed(first.directory, error))
    reports = [findings.rows(), *([] for _ in task.replicas[1:])]
    return [
        (found, identify(task, replica) | {"not_checked": dict.fromkeys(task.checks, FAILED)})
        for found, replica in zip(reports, task.replicas, strict=True)
    ]


class _Replica:
    """One of several replicas, read once."""

    def __init__(self, task: AuditTask, files: ReplicaFiles, cleaned_until: int) -> None:
        """Read the log, and its keys below `cleaned_until` if that is above 0."""
        self.files = files
        self.findings = FindingList(files, task.rules.finding_limit)
        structure = self.findings if task.shard == 0 else FindingList(files, 0)
        history = history_of(files, task.rules.cleanup_policy)
        self.scan = LogScan(files, structure.report, OpenFile, history=history)
        self.digest = BatchDigest(0)
        self.table = KeyTable(task.rules.key_limit, task.shard, task.shard_count)
        self.producers = ProducerBatches()
        observers: list[Observer] = [self.digest]
        if cleaned_until > 0 and task.shard == 0:
            observers.append(self.producers)
        if cleaned_until > 0:
            aborted = read_aborted(files, read_bytes, structure.report)
            observers.append(ReferenceTable(self.table, cleaned_until, aborted))
        self.scan.run(observers)
        self.topic_id = read_topic_id(read_bytes, files.metadata, structure.report)

    @property
    def is_empty(self) -> bool:
        """Whether the log has no record."""
        return self.scan.batch_count == 0

    @property
    def cleaned_until(self) -> int:
        """The offset that a cleaner has reached, by its checkpoint or by the removed records.

        A cleaner writes its checkpoint last, so a copy may have a checkpoint older than its files.
        """
        seen = min(self.digest.cleaned_until, self.files.active_base_offset)
        return max(self.files.cleaner_point or 0, seen)


def _read_replicas(task: AuditTask) -> tuple[list[_Replica], int]:
    """Return the replicas, and the highest offset that a cleaner of any replica has reached."""
    known = max(files.cleaner_point or 0 for files in task.replicas)
    replicas = [_Replica(task, files, known) for files in task.replicas]
    # Without any cleaner checkpoint the topic is not compacted: missing records are lost.
    cleaned_until = max(replica.cleaned_until for replica in replicas) if known else 0
    if cleaned_until > known:
        replicas = [_Replica(task, files, cleaned_until) for files in task.replicas]
    return replicas, cleaned_until


def _compare_replicas(task: AuditTask) -> list[Outcome]:
    replicas, cleaned_until = _read_replicas(task)
    watermarks = [files.high_watermark for files in task.replicas]
    ends = [replica.scan.log_end_offset for replica in replicas]
    end = min([*(watermark for watermark in watermarks if watermark is not None), *ends])
    first, compared = replicas[0], dict[str, list[dict[str, Any]]]()
    for other in replicas[1:]:
        common = max(first.scan.first_offset, other.scan.first_offset)
        start = max(cleaned_until, common)
        ranges = [
            Compared(Check.REPLICAS, BY_KEYS, common, min(end, cleaned_until)),
            Compared(Check.REPLICAS, BY_BATCHES, start, end),
        ]
        compared[other.files.directory] = ranges_of(ranges)
        if task.shard == 0:
            report = other.findings.report
            if not ranges_of(ranges) and not (first.is_empty and other.is_empty):
                report(nothing_compared(other.files, ranges))
            compare_topic_ids(first.topic_id, other.topic_id, other.files.metadata or "", report)
            pair = first.digest, other.digest, _is_damaged_in(first, other)
            compare_digests(Check.REPLICAS, Damage.REPLICA_DIFFERS, *pair, start, end, report)
            until, is_damaged = min(end, cleaned_until), _is_damaged_in(first, other)
            logs = first.producers, first.scan, other.producers, other.scan
            compare_producers(*logs, until, is_damaged, report)
        if cleaned_until > 0:
            _compare_keys(task, first, other, min(end, cleaned_until))
            _compare_keys(task, other, first, min(end, cleaned_until))
    return [
        (
            replica.findings.rows(),
            summarize(task, replica.files, replica.scan)
            | {"compared": compared.get(replica.files.directory, [])},
        )
        for replica in replicas
    ]


def _is_damaged_in(*replicas: _Replica) -> IsDamaged:
    """Return a test of an offset: whether it may lie in a damaged part of any replica."""
    return lambda offset: any(replica.scan.is_damaged(offset) for replica in replicas)


def _compare_keys(task: AuditTask, expected: _Replica, found: _Replica, end: int) -> None:
    """Report each key's last record below `end` in `expected` that `found` lacks.

    The cleaner of `found` may have passed `end`, up to its active segment: a later record of the
    key there may supersede the missing one.
    """
    table = KeyTable(task.rules.key_limit, task.shard, task.shard_count)
    table.load(expected.table.export())
    bounds = Bounds(
        start=max(expected.scan.first_offset, found.scan.first_offset),
        end=end,
        log_start=found.scan.first_offset,
        superseded_from=end,
        superseded_until=found.files.active_base_offset,
        # Cleaners may leave different older records.
        stale_below=0,
        # One replica may have removed a tombstone already.
        tombstones_after_ms=MAX_OFFSET,
        # Else `found` may have received, applied and removed a tombstone that `expected` lacks.
        is_decided=found.cleaned_until <= expected.scan.log_end_offset,
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
    found_scan = LogScan(found.files, lambda _: None, OpenFile)
    found_scan.run([check])
    check.conclude(found_scan)

"""One task: an audit of each replica by itself, or S4 over all replicas (composition).

Each replica is read once for its structure and its batches. `logcheck.replica_comparison` compares
them, and reads them again only if their keys must be compared.
"""

from functools import partial
from typing import Any

from analytics.coverage import (
    BY_BATCHES,
    BY_KEYS,
    FAILED,
    Compared,
    nothing_compared,
    ranges_of,
)
from analytics.file_store import OpenFile, read_bytes, states_in
from analytics.replica_audit import ReplicaAudit, identify, summarize
from analytics.task import AuditTask
from kafkawire.native import KeyTable
from logcheck.batch_digest import BatchDigest
from logcheck.finding import Check, Finding, Severity, audit_failed
from logcheck.finding_list import FindingList
from logcheck.history import history_of
from logcheck.local_file import inodes
from logcheck.log_scan import LogScan
from logcheck.producer_batches import ProducerBatches
from logcheck.replica import KeyComparison, Replica
from logcheck.replica_comparison import common_end, compare_pair, most_complete
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
    return [_audit_replica(task, replica) for replica in task.replicas]


def _audit_replica(task: AuditTask, replica: ReplicaFiles) -> Outcome:
    """Audit a replica, and again if it seems faulty and its files were written meanwhile.

    A follower may have truncated the log after its index was read, also in a copy of hard links.
    A replaced file is not looked at again, because the task lists the names before that.
    """
    before = states_in(replica.directory)
    findings, summary = ReplicaAudit(task, replica).run()
    after = states_in(replica.directory)
    is_faulty = any(each.severity is not Severity.NOTE for each in findings)
    if is_faulty and before != after and inodes(before) == inodes(after):
        return ReplicaAudit(task, replica).run()
    return findings, summary


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


def _compare_replicas(task: AuditTask) -> list[Outcome]:
    lists = [FindingList(files, task.rules.finding_limit) for files in task.replicas]
    replicas = [
        _read_replica(task, files, findings)
        for files, findings in zip(task.replicas, lists, strict=True)
    ]
    limit = task.rules.finding_limit
    keys = KeyComparison(OpenFile, read_bytes, partial(_make_table, task), limit)
    end = common_end(replicas)
    first, compared = most_complete(replicas), dict[str, list[dict[str, Any]]]()
    ids = [
        read_topic_id(read_bytes, files.metadata, findings.report if task.shard == 0 else _ignore)
        for files, findings in zip(task.replicas, lists, strict=True)
    ]
    first_id = ids[replicas.index(first)]
    for other, topic_id in zip(replicas, ids, strict=True):
        if other is first:
            continue
        found = compare_pair(first, other, end, keys, with_batches=task.shard == 0)
        ranges = [
            Compared(Check.REPLICAS, BY_KEYS, found.start, found.by_keys_until),
            Compared(Check.REPLICAS, BY_BATCHES, found.by_keys_until, found.end),
        ]
        compared[other.scan.files.directory] = ranges_of(ranges)
        is_empty = first.scan.batch_count == other.scan.batch_count == 0
        if task.shard == 0 and not ranges_of(ranges) and not is_empty:
            other.report(nothing_compared(other.scan.files, ranges))
        if task.shard == 0:
            file = other.scan.files.metadata or ""
            compare_topic_ids(first_id, topic_id, file, other.report)
    return [
        (
            findings.rows(),
            summarize(task, replica.scan.files, replica.scan)
            | {"compared": compared.get(replica.scan.files.directory, [])},
        )
        for findings, replica in zip(lists, replicas, strict=True)
    ]


def _ignore(_: Finding) -> None:
    pass


def _read_replica(task: AuditTask, files: ReplicaFiles, findings: FindingList) -> Replica:
    structure = findings if task.shard == 0 else FindingList(files, 0)
    history = history_of(files, task.rules.cleanup_policy)
    replica = Replica(
        LogScan(files, structure.report, OpenFile, history=history),
        BatchDigest(0),
        ProducerBatches(),
        findings.report,
    )
    replica.scan.run([replica.digest, replica.producers])
    return replica


def _make_table(task: AuditTask) -> KeyTable:
    return KeyTable(task.rules.key_limit, task.shard, task.shard_count)

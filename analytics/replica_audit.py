"""One replica of one partition, read once for all checks of a task (composition).

The checks are pure; this module reads the files in order and passes their contents to the checks.
Indexes are read before their segment: if a broker writes meanwhile, the segment has only more
records than the index knows, never fewer.
"""

from functools import partial
from typing import Any

from analytics.checks.cost import CostCount
from analytics.checks.retention import check_retention
from analytics.checks.tombstones import TombstoneCheck
from analytics.coverage import BY_KEYS, Compared, not_checked, nothing_compared, ranges_of
from analytics.file_store import OpenFile, is_file, read_bytes
from analytics.finding_row import printable
from analytics.place import child_of, parent_of
from analytics.reference import Reference
from analytics.snapshot import earlier_bounds, read_snapshot
from analytics.task import AuditTask
from kafkawire.native import KeyTable
from kafkawire.sentinels import MAX_OFFSET
from logcheck.batch_digest import BatchDigest
from logcheck.epoch_check import EpochCheckpoint
from logcheck.finding import Check, Finding
from logcheck.finding_list import FindingList
from logcheck.history import history_of
from logcheck.index_files import IndexFiles
from logcheck.leftover_records import Survivors
from logcheck.log_scan import LogScan
from logcheck.log_view import LogCheck, Observer
from logcheck.preservation import PreservationCheck
from logcheck.producer_batches import ProducerBatches
from logcheck.producer_check import ProducerCheck
from logcheck.producer_files import producer_check, transaction_check
from logcheck.replica import KeyComparison, Replica
from logcheck.replica_files import (
    ReplicaFiles,
    check_checkpoints,
    report_foreign,
    report_orphans,
)
from logcheck.topic_id import read_topic_id
from logcheck.transaction_check import TransactionCheck
from logcheck.uniqueness import UniquenessCheck
from logcheck.unseen_record import UnseenRecords


class ReplicaAudit:
    """The audit of one replica. Call `run` once."""

    def __init__(self, task: AuditTask, replica: ReplicaFiles) -> None:
        self._task = task
        self._rules = task.rules
        self._replica = replica
        self._checks = {Check(check) for check in task.checks}
        self._findings = FindingList(replica, task.rules.finding_limit)
        self._report = self._findings.report
        # No cleaner reads the active segment, even if its point lies there.
        self._until = min(replica.cleaner_point or 0, replica.active_base_offset)
        self._compared: list[Compared] = []
        # Only the first shard reports other findings that do not depend on keys.
        self._is_first = task.shard == 0
        structure = self._findings if self._is_first else FindingList(replica, 0)
        history = history_of(replica, task.rules.cleanup_policy)
        self._scan = LogScan(replica, structure.report, OpenFile, history=history)
        digest, batches = BatchDigest(replica.cleaner_point or 0), ProducerBatches()
        self._log = Replica(self._scan, digest, batches, self._report)
        self._keys = KeyComparison(OpenFile, read_bytes, self._table, task.rules.finding_limit)
        reads_epochs = Check.EPOCHS in self._checks and self._is_first
        file = replica.epoch_checkpoint if reads_epochs else None
        self._epochs = EpochCheckpoint(file, read_bytes, self._report)

    def run(self) -> tuple[list[Finding], dict[str, Any]]:
        """Return the findings and the summary.

        Raises:
            KeyLimitError: the keys do not fit one table.
        """
        indexes = reference = None
        if self._is_first and Check.OFFSET_INDEX in self._checks:
            indexes = IndexFiles(self._report, read_bytes, is_strict=self._rules.is_strict)
        if self._task.reference is not None:
            reference = Reference(self._task, self._task.reference, self._replica, self._report)
        checks = [*self._key_checks(reference), *self._other_checks()]
        digest, batches = self._log.digest, self._log.producers
        compared: list[Observer] = []
        if reference is not None:
            compared = [digest, batches]
        elif self._task.snapshot is not None:
            compared = [batches]
        self._scan.run([*checks, *compared], indexes)
        figures: dict[str, Any] = {}
        if indexes is not None:
            figures["index_shapes"] = sorted(set(indexes.shapes.values()))
        if self._is_first:
            self._check_whole()
        if reference is not None and Check.UNCLEANABLE in self._checks:
            reference.compare_uncleaned(digest, batches, self._scan, with_batches=self._is_first)
            if self._is_first:
                reference.compare_batches(batches, self._scan, self._report)
        for check in checks:
            figures |= check.conclude(self._scan)
            if reference is not None:
                self._compare_producers(check, reference)
        figures |= self._coverage(reference)
        return self._findings.rows(), summarize(self._task, self._replica, self._scan) | figures

    def _coverage(self, reference: Reference | None) -> dict[str, Any]:
        """Return the compared ranges for the summary; report a comparison without any."""
        compared = self._compared if reference is None else reference.compared
        has_records = self._scan.batch_count > 0
        if reference is not None:
            has_records = has_records or reference.scan.batch_count > 0
        is_asked_for = reference is not None or self._task.snapshot is not None
        is_due = is_asked_for and has_records and Check.PRESERVATION in self._checks
        if is_due and self._is_first and not ranges_of(compared):
            self._report(nothing_compared(self._replica, compared))
        return {"compared": ranges_of(compared)}

    def _table(self) -> KeyTable:
        return KeyTable(self._rules.key_limit, self._task.shard, self._task.shard_count)

    def _key_checks(self, reference: Reference | None) -> list[LogCheck]:
        """Return the checks that each shard runs on its share of the keys."""
        rules, report, until = self._rules, self._report, self._until
        checks: list[LogCheck] = []
        if Check.UNIQUENESS in self._checks:
            limit, is_first, history = rules.finding_limit, self._is_first, self._scan.history
            table = self._table()
            if reference is not None:
                table.reserve(reference.table.key_count)
            checks.append(
                UniquenessCheck(table, until, history, limit, report, with_whole=is_first)
            )
        if Check.PRESERVATION in self._checks and reference is not None:
            checks.append(reference.check(report))
        if Check.PRESERVATION in self._checks and self._task.snapshot is not None:
            checks += self._earlier(self._task.snapshot)
        if Check.COST in self._checks:
            hot, is_first = rules.hot_key_count, self._is_first
            checks.append(CostCount(self._table(), until, hot, with_whole=is_first))
        return checks

    def _earlier(self, file: str) -> list[LogCheck]:
        replica, rules = self._replica, self._rules
        earlier = read_snapshot(file, replica.topic, replica.partition)
        if earlier is None:
            return []
        table = self._table()
        table.load(earlier.key_table)
        log_start = max(self._scan.first_offset, replica.log_start or 0)
        bounds = earlier_bounds(earlier, log_start, rules)
        end = MAX_OFFSET if earlier.is_ledger else earlier.end_offset
        start = max(bounds.start, log_start)
        self._compared.append(Compared(Check.PRESERVATION, BY_KEYS, start, end))
        limit = rules.finding_limit
        check = PreservationCheck(
            table,
            bounds,
            limit,
            self._report,
            lambda _: None,
            only_missing=True,
            find_survivors=partial(self._survivors, start),
            settle=self._settle,
        )
        return [check]

    def _settle(self, check: PreservationCheck) -> None:
        """Let `check` compare the transactions since the snapshot; one may be open only here."""
        self._keys.read_again(self._log, check.settled(self._keys.aborted(self._log)))

    def _survivors(self, start_offset: int, unseen: UnseenRecords) -> Survivors:
        """Return the older records of keys whose tombstone in the snapshot is missing."""
        aborted = self._keys.aborted(self._log)
        return self._keys.survivors(self._log, aborted, start_offset, unseen)

    def _compare_producers(self, check: LogCheck, reference: Reference) -> None:
        if isinstance(check, ProducerCheck):
            reference.compare_producers(check.replay, self._scan, self._report)
        elif isinstance(check, TransactionCheck):
            reference.compare_markers(check.replay, self._scan, self._report)

    def _other_checks(self) -> list[LogCheck]:
        """Return the checks that one shard runs for all keys."""
        rules, report, until = self._rules, self._report, self._until
        checks: list[LogCheck] = []
        if Check.TOMBSTONES in self._checks and self._is_first:
            checks.append(TombstoneCheck(until, rules, report))
        if Check.PRODUCERS in self._checks and self._is_first:
            checks.append(producer_check(self._scan, read_bytes, rules, report))
        if Check.TRANSACTIONS in self._checks and self._task.has_transactions:
            checks.append(transaction_check(self._scan, read_bytes, rules, report))
        return checks

    def _check_whole(self) -> None:
        replica, report, scan = self._replica, self._report, self._scan
        end = scan.log_end_offset
        is_end_known = not scan.is_damaged(end)
        if Check.OFFSETS in self._checks:
            report_orphans(replica, is_file, report)
        if Check.EPOCHS in self._checks:
            self._epochs.conclude(scan.epochs, end, scan.history, is_end_known=is_end_known)
        if Check.CHECKPOINTS in self._checks:
            folder = parent_of(replica.directory)
            if is_end_known:
                place_of = partial(child_of, folder)
                certainty = scan.history.beyond(end)
                check_checkpoints(replica, end, certainty, place_of, report)
            read_topic_id(read_bytes, replica.metadata, report)
            report_foreign(replica, partial(child_of, replica.directory), report)
        if Check.RETENTION in self._checks:
            check_retention(replica, scan, self._rules, report)


def identify(task: AuditTask, replica: ReplicaFiles) -> dict[str, Any]:
    """Return the part of a summary that is known without reading the log."""
    return {
        "topic": replica.topic,
        "partition": replica.partition,
        "replica": printable(replica.replica),
        "shard": task.shard,
        "shard_count": task.shard_count,
        "bytes": replica.size_bytes,
    }


def summarize(task: AuditTask, replica: ReplicaFiles, scan: LogScan) -> dict[str, Any]:
    """Return the amounts of data read, the offsets, and the time range of each segment."""
    return identify(task, replica) | {
        "segments": len(scan.segments),
        "batches": scan.batch_count,
        "records": scan.record_count,
        "first_offset": scan.first_offset,
        "log_end_offset": scan.log_end_offset,
        "cleaner_point": replica.cleaner_point,
        "not_checked": not_checked(task, replica),
        "timeline": [
            {
                "base_offset": files.base_offset,
                "bytes": files.size_bytes,
                "oldest_ms": columns.newest_so_far[0] if columns.newest_so_far else -1,
                "newest_ms": columns.newest_timestamp_ms,
            }
            for files, columns in zip(replica.segments, scan.segments, strict=True)
        ],
    }

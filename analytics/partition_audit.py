"""Composition: what one task does: reads a partition's replicas once, runs the checks on them.

The checks are decisions; here stand only the order in which files are read and what is handed to
whom. Indexes are read before their segment: a broker that writes meanwhile makes what is read later
longer, never shorter.
"""

from dataclasses import dataclass, field
from typing import Any

from analytics.checkpoint import read_epoch_checkpoint
from analytics.checks.checkpoints import check_checkpoints
from analytics.checks.offset_index import check_offset_index
from analytics.checks.preservation import Bounds, PreservationCheck, ReferenceTable
from analytics.checks.time_index import check_time_index
from analytics.checks.tombstones import TombstoneCheck
from analytics.checks.uniqueness import UniquenessCheck
from analytics.file_store import read_bytes
from analytics.finding import Check, Finding
from analytics.finding_list import FindingList
from analytics.log_scan import LogScan, Observer, unreadable
from analytics.task import AuditTask, ReplicaFiles, SegmentFiles
from kafkawire.columns_scanner import KeyTable

STRUCTURE = {Check.BATCHES, Check.OFFSETS, Check.EPOCHS}
INDEXES = {Check.OFFSET_INDEX, Check.TIME_INDEX}


@dataclass(slots=True)
class Outcome:
    """What one task found, and the figures that a report wants."""

    findings: list[Finding] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)


def audit_partition(task: AuditTask) -> list[Outcome]:
    """Run the task's checks on each of its replicas.

    Raises:
        KeyLimitError: one table cannot hold the partition's keys; split it into shards.
    """
    return [_ReplicaAudit(task, replica).run() for replica in task.replicas]


class _ReplicaAudit:
    def __init__(self, task: AuditTask, replica: ReplicaFiles) -> None:
        self._task = task
        self._rules = task.rules
        self._replica = replica
        self._checks = {Check(check) for check in task.checks}
        limit = task.rules.finding_limit
        self._findings = FindingList(replica.topic, replica.partition, replica.replica, limit)
        # The first shard speaks for what does not depend on keys.
        self._is_first = task.shard == 0
        structure = self._findings if self._is_first else self._nowhere()
        self._scan = LogScan(replica, structure.report)
        self._summary: dict[str, Any] = {}

    def _nowhere(self) -> FindingList:
        return FindingList(self._replica.topic, self._replica.partition, self._replica.replica, 0)

    def run(self) -> Outcome:
        """Read the indexes, the reference, the log; then let the checks conclude."""
        wants_indexes = self._is_first and bool(self._checks & INDEXES)
        indexes = self._read_indexes() if wants_indexes else []
        observers: list[Observer] = []
        uniqueness = self._uniqueness()
        tombstones = self._tombstones()
        preservation = self._preservation()
        observers += [each for each in (uniqueness, tombstones) if each is not None]
        if preservation is not None:
            observers.append(preservation.check)
        self._scan.run(observers)
        self._check_indexes(indexes)
        self._check_partition()
        if uniqueness is not None:
            uniqueness.finish(self._scan.read_record, self._scan.place_of)
            self._summary["keys"] = uniqueness.table.key_count
        if tombstones is not None:
            tombstones.finish()
            self._summary["tombstones"] = tombstones.count
            self._summary["horizons_ms"] = tombstones.horizons_ms
        if preservation is not None:
            preservation.finish(self._scan, self._rules.now_ms - self._rules.delete_retention_ms)
        return Outcome(self._findings.rows(), self._summarize())

    def _summarize(self) -> dict[str, Any]:
        scan, replica = self._scan, self._replica
        return self._summary | {
            "topic": replica.topic,
            "partition": replica.partition,
            "replica": replica.replica,
            "shard": self._task.shard,
            "shard_count": self._task.shard_count,
            "segments": len(scan.segments),
            "batches": scan.batch_count,
            "records": scan.record_count,
            "bytes": replica.size_bytes,
            "first_offset": scan.first_offset,
            "log_end_offset": scan.log_end_offset,
            "cleaner_point": replica.cleaner_point,
        }

    def _cleaned_until(self) -> int:
        return self._replica.cleaner_point or 0

    def _table(self) -> KeyTable:
        return KeyTable(self._rules.key_limit, self._task.shard, self._task.shard_count)

    def _uniqueness(self) -> UniquenessCheck | None:
        if Check.UNIQUENESS not in self._checks:
            return None
        limit = self._rules.finding_limit
        until = self._cleaned_until()
        return UniquenessCheck(self._table(), until, limit, self._findings.report)

    def _tombstones(self) -> TombstoneCheck | None:
        if Check.TOMBSTONES not in self._checks or not self._is_first:
            return None
        return TombstoneCheck(self._cleaned_until(), self._rules, self._findings.report)

    def _preservation(self) -> "_Preservation | None":
        reference = self._task.reference
        if Check.PRESERVATION not in self._checks or reference is None:
            return None
        return _Preservation(self._task, self._replica, reference, self._table(), self._findings)

    def _read_indexes(self) -> list[tuple[SegmentFiles, bytes | None, bytes | None]]:
        return [
            (segment, self._read(segment.index), self._read(segment.timeindex))
            for segment in self._replica.segments
        ]

    def _read(self, file: str | None) -> bytes | None:
        try:
            return None if file is None else read_bytes(file)
        except OSError as error:
            self._findings.report(unreadable(file or "", error))
            return None

    def _check_indexes(
        self, indexes: list[tuple[SegmentFiles, bytes | None, bytes | None]]
    ) -> None:
        report, shapes = self._findings.report, set()
        for (files, index, timeindex), columns in zip(indexes, self._scan.segments, strict=False):
            is_active = files is self._replica.segments[-1]
            if files.index is None:
                report(_missing(files.log, ".index", Check.OFFSET_INDEX))
            elif index is not None:
                strict = self._rules.is_strict
                shapes.add(
                    check_offset_index(index, files.index, columns, report, is_strict=strict)
                )
            if files.timeindex is None:
                report(_missing(files.log, ".timeindex", Check.TIME_INDEX))
            elif timeindex is not None:
                check_time_index(timeindex, files.timeindex, columns, report, is_active=is_active)
        self._summary["index_shapes"] = sorted(shapes)

    def _check_partition(self) -> None:
        if not self._is_first:
            return
        replica, report = self._replica, self._findings.report
        checkpoint = self._read(replica.epoch_checkpoint)
        if Check.EPOCHS in self._checks and checkpoint is not None:
            file = replica.epoch_checkpoint or ""
            text = checkpoint.decode("utf-8", errors="replace")
            epochs = read_epoch_checkpoint(text, file, report)
            self._scan.epochs.compare(epochs, file, self._scan.log_end_offset)
        if Check.CHECKPOINTS in self._checks:
            folder = replica.directory.rstrip("/").rpartition("/")[0]
            check_checkpoints(replica, self._scan.log_end_offset, folder, report)
            for name in replica.foreign:
                report(_foreign(f"{replica.directory}/{name}"))


class _Preservation:
    """The reference, read into a table, and the check that holds the log against it."""

    def __init__(
        self,
        task: AuditTask,
        replica: ReplicaFiles,
        reference: ReplicaFiles,
        table: KeyTable,
        findings: FindingList,
    ) -> None:
        # What is wrong with the reference's own files is told once, under its own name.
        own = FindingList(replica.topic, replica.partition, reference.replica, 20)
        self._reference = LogScan(reference, own.report)
        self._reference.run([ReferenceTable(table, 2**63 - 1, ())])
        if task.shard == 0:
            for finding in own.rows():
                findings.report(finding)
        log_start = max(
            replica.segments[0].base_offset if replica.segments else 0, replica.log_start or 0
        )
        bounds = Bounds(
            start=self._reference.first_offset,
            end=self._reference.log_end_offset,
            log_start=log_start,
            cleaned_until=replica.cleaner_point or 0,
        )
        limit = task.rules.finding_limit
        self.check = PreservationCheck(table, bounds, limit, findings.report)

    def finish(self, scan: LogScan, tombstones_after_ms: int) -> None:
        """Let the check conclude, once the log was read."""
        self.check.finish(
            read=scan.read_record,
            read_reference=self._reference.read_record,
            place_of=scan.place_of,
            is_damaged=scan.offsets.is_damaged,
            tombstones_after_ms=tombstones_after_ms,
        )


def _missing(log: str, suffix: str, check: Check) -> Finding:
    return Finding(
        check=check,
        what="index_missing",
        file=log.removesuffix(".log") + suffix,
        expected="an index beside the segment",
        found="none; a broker rebuilds it when it starts",
    )


def _foreign(file: str) -> Finding:
    return Finding(
        check=Check.CHECKPOINTS,
        what="foreign_file",
        file=file,
        expected="files of a log",
        found="a name that no broker gives",
    )

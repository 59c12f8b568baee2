"""One audit from directories to a verdict, on any Spark master (composition)."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from analytics.collisions import find_collisions
from analytics.coverage import no_reference, replica_missing
from analytics.discovery import find_replicas, group_by_partition
from analytics.errors import AuditError, AuditUsageError
from analytics.file_store import is_file, real_place
from analytics.finding_row import by_severity, finding_row
from analytics.interrupt import InterruptGuard
from analytics.plan import MIN_REPLICAS, WITH_REFERENCE, Audit, plan_tasks, spread_tasks
from analytics.shipping import ship_modules
from analytics.snapshot import open_snapshot, snapshot_partitions, take_snapshot
from analytics.spark_audit import run_shards
from analytics.spark_session import get_session, start_context
from analytics.task import AuditTask
from analytics.verdict import Verdict, judge
from kafkawire.ids import TopicPartition
from logcheck.finding import Finding
from logcheck.replica_files import ReplicaFiles
from logcheck.rule import Rules

DEFAULT_MASTER: Final = "local[*]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The logs to audit, their reference, the rules and the Spark master."""

    audit: Audit
    directories: Sequence[str]
    against: str | None = None
    master: str = DEFAULT_MASTER
    rules: Rules = field(default_factory=Rules)
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The verdict, findings and summaries of an audit."""

    verdict: Verdict
    findings: list[dict[str, Any]]
    summaries: list[dict[str, Any]]


def run_audit(request: Request) -> Result:
    """Run the audit. The Spark session stays open for the next audit in this process.

    Raises:
        AuditError: the audit cannot run; the message is one sentence.
        KeyboardInterrupt: the audit was interrupted; its child processes have ended.
    """
    started = time.monotonic()
    with TemporaryDirectory(prefix="ottla-ledger-") as folder:
        tasks, found = plan(request, Path(folder))
        findings, summaries = _run_on_spark(request, tasks)
    findings = by_severity([*map(finding_row, found), *findings])
    verdict = judge(request.audit, findings, summaries, time.monotonic() - started)
    return Result(verdict=verdict, findings=findings, summaries=summaries)


def plan(request: Request, folder: Path | None = None) -> tuple[list[AuditTask], list[Finding]]:
    """Return the tasks of an audit, and the findings from listing the directories.

    A ledger is converted to a snapshot in `folder`, or in a temporary directory that stays.

    Raises:
        AuditError: there is nothing to audit, or nothing to compare it with.
        AuditUsageError: the arguments contradict each other.
    """
    _check_arguments(request)
    found: list[Finding] = []
    groups = group_by_partition(_replicas(request.directories, found))
    if not groups and not found:
        names = ", ".join(request.directories)
        raise AuditError(f"no partition was found in {names}; name a broker's log directory")
    if request.audit is Audit.REPLICAS:
        found += _missing_replicas(groups, request.directories)
    against, snapshot = request.against, None
    if against is not None and is_file(against):
        snapshot = open_snapshot(against, request.rules.key_limit, folder)
        against = None
    references = group_by_partition(_replicas([against] if against else [], found))
    if request.against is not None:
        known = references.keys() if snapshot is None else snapshot_partitions(snapshot)
        found += _missing_references(groups, known, request.against)
    first = {partition: replicas[0] for partition, replicas in references.items()}
    now_ms = request.rules.now_ms or int(time.time() * 1000)
    rules = replace(request.rules, now_ms=now_ms)
    return plan_tasks(request.audit, groups, first, rules, snapshot), found


def _check_arguments(request: Request) -> None:
    """Refuse arguments with which an audit would compare nothing, or ignore one of them."""
    audit, against = request.audit, request.against
    places = {real_place(directory) for directory in request.directories}
    if audit is Audit.REPLICAS and len(places) < MIN_REPLICAS:
        raise AuditUsageError(
            f"replicas needs {MIN_REPLICAS} different log directories, one per replica; "
            f"{len(places)} is given"
        )
    if against is None:
        return
    if audit not in WITH_REFERENCE:
        names = " and ".join(WITH_REFERENCE)
        raise AuditUsageError(f"{audit} compares nothing with --against; only {names} do")
    if real_place(against) in places:
        raise AuditUsageError(f"--against {against} is the audited directory itself")


def _missing_replicas(
    groups: Mapping[TopicPartition, Sequence[ReplicaFiles]], directories: Sequence[str]
) -> list[Finding]:
    alone = [each[0] for each in groups.values() if len(each) == 1]
    if groups and len(alone) == len(groups):
        names = ", ".join(directories)
        raise AuditError(f"no partition is in two of {names}: there is nothing to compare")
    return [replica_missing(replica) for replica in alone]


def _missing_references(
    groups: Mapping[TopicPartition, Sequence[ReplicaFiles]],
    known: Collection[TopicPartition],
    against: str,
) -> list[Finding]:
    missing = [partition for partition in groups if partition not in known]
    if groups and len(missing) == len(groups):
        raise AuditError(f"{against} has none of the audited partitions, such as {missing[0]}")
    return [no_reference(replica, against) for each in missing for replica in groups[each]]


def snapshot_logs(directories: Sequence[str], file: Path, key_limit: int) -> int:
    """Write the current keys of the logs to `file`; return their number.

    Raises:
        AuditError: a log is damaged, or there is no log.
    """
    found: list[Finding] = []
    replicas = _replicas(directories, found)
    if not replicas:
        raise AuditError(f"no partition was found in {', '.join(directories)}")
    return take_snapshot(replicas, file, key_limit)


def _replicas(directories: Sequence[str], found: list[Finding]) -> list[ReplicaFiles]:
    replicas: list[ReplicaFiles] = []
    for directory in directories:
        try:
            replicas += find_replicas(directory, found.append)
        except OSError as error:
            raise AuditError(
                f"{directory} cannot be listed: {error.strerror or error}; name a log directory"
            ) from error
    # A directory that is named twice, or by a link, is one replica.
    distinct: dict[str, ReplicaFiles] = {}
    for replica in replicas:
        distinct.setdefault(real_place(replica.directory), replica)
    return list(distinct.values())


def _run_on_spark(
    request: Request, tasks: list[AuditTask]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Start Spark or reuse its session, run the tasks, and return findings and summaries."""
    uses_sql = request.audit is Audit.COLLISIONS
    with InterruptGuard() as guard:
        context = start_context(request.master, request.settings, uses_sql=uses_sql)
        guard.renew()
        if not request.master.startswith("local["):
            ship_modules(context)
        findings, summaries = run_shards(context, spread_tasks(tasks, context.defaultParallelism))
        if uses_sql:
            places, rules = [*request.directories], request.rules
            if request.against is not None and not is_file(request.against):
                places.append(request.against)
            findings += find_collisions(get_session(), places, rules)
    return findings, summaries

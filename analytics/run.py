"""Composition: one audit from directories to a verdict, on any Spark master."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from analytics.collisions import find_collisions
from analytics.discovery import find_replicas, group_by_partition
from analytics.errors import AuditError
from analytics.file_store import is_file
from analytics.finding_list import arrow_schema, finding_row
from analytics.interrupt import InterruptGuard
from analytics.plan import Audit, plan_tasks
from analytics.shipping import ship_modules
from analytics.snapshot import open_snapshot, take_snapshot
from analytics.spark_audit import run_shards
from analytics.spark_session import get_session, start_context
from analytics.task import AuditTask
from analytics.verdict import Verdict, judge
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
    tasks, found = plan(request)
    findings, summaries = _run_on_spark(request, tasks)
    findings = [finding_row(finding) for finding in found] + findings
    verdict = judge(str(request.audit), findings, summaries, time.monotonic() - started)
    return Result(verdict=verdict, findings=findings, summaries=summaries)


def plan(request: Request) -> tuple[list[AuditTask], list[Finding]]:
    """Return the tasks of an audit, and the findings from listing the directories.

    Raises:
        AuditError: there is nothing to audit.
    """
    found: list[Finding] = []
    groups = group_by_partition(_replicas(request.directories, found))
    if not groups and not found:
        names = ", ".join(request.directories)
        raise AuditError(f"no partition was found in {names}; name a broker's log directory")
    against, snapshot = request.against, None
    if against is not None and is_file(against):
        snapshot = open_snapshot(against, request.rules.key_limit)
        against = None
    references = group_by_partition(_replicas([against] if against else [], found))
    first = {partition: replicas[0] for partition, replicas in references.items()}
    now_ms = request.rules.now_ms or int(time.time() * 1000)
    rules = replace(request.rules, now_ms=now_ms)
    return plan_tasks(request.audit, groups, first, rules, snapshot), found


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
    return replicas


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
        findings, summaries = run_shards(context, tasks)
        if uses_sql:
            places, rules = [*request.directories], request.rules
            if request.against is not None and not is_file(request.against):
                places.append(request.against)
            findings += find_collisions(get_session(), places, rules)
    return findings, summaries


def write_result(result: Result, folder: Path) -> None:
    """Write the findings as Parquet, the verdict as JSON, and the report as one HTML page."""
    import pyarrow
    from pyarrow import parquet

    from analytics.report.page import render_page

    folder.mkdir(parents=True, exist_ok=True)
    table = pyarrow.Table.from_pylist(result.findings, schema=arrow_schema(pyarrow))
    parquet.write_table(table, folder / "findings.parquet")
    verdict = json.dumps(result.verdict.to_json() | {"summaries": result.summaries}, indent=2)
    (folder / "verdict.json").write_text(verdict + "\n", encoding="utf-8")
    page = render_page(result.verdict, result.findings, result.summaries)
    (folder / "report.html").write_text(page, encoding="utf-8")

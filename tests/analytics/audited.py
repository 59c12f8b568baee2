"""Audits run in this process, without Spark."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from analytics.discovery import find_replicas, group_by_partition
from analytics.partition_audit import audit_partition
from analytics.plan import Audit, plan_tasks
from logcheck.finding import Finding
from logcheck.rule import Rules
from tests.analytics.log_model import START_MS

NOW_MS = START_MS + 3_600_000
RULES = Rules(now_ms=NOW_MS)


def findings_of(
    audit: str,
    *roots: Path | str,
    against: Path | None = None,
    rules: Rules = RULES,
    snapshot: str | None = None,
    shard_count: int = 1,
) -> list[Finding]:
    """Return all findings of all shards, notes included."""
    found: list[Finding] = []
    replicas = [replica for root in roots for replica in find_replicas(str(root), found.append)]
    references = find_replicas(str(against), found.append) if against is not None else []
    tasks = plan_tasks(
        Audit(audit),
        group_by_partition(replicas),
        {partition: each[0] for partition, each in group_by_partition(references).items()},
        rules,
        snapshot,
    )
    for task, shard in product(tasks, range(shard_count)):
        for findings, _ in audit_partition(replace(task, shard=shard, shard_count=shard_count)):
            found += findings
    return found


def summaries_of(audit: str, *roots: Path, rules: Rules = RULES) -> list[dict[str, Any]]:
    """Return the summary of each replica's audit."""
    replicas = [each for root in roots for each in find_replicas(str(root), lambda _: None)]
    tasks = plan_tasks(Audit(audit), group_by_partition(replicas), {}, rules)
    return [summary for task in tasks for _, summary in audit_partition(task)]

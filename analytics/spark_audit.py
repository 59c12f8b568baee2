"""Composition: the audits as functions from DataFrames to DataFrames.

A DataFrame of tasks (one row per task, a JSON text, see `analytics.task`) becomes a DataFrame of
rows: findings, and one summary per replica and shard. Each task reads its partition's files itself,
keeps its keys in one table, and yields few rows: nothing is shuffled (docs/adr/0031).

What runs on the workers is `run_tasks`; its imports stand inside, because a worker first has to
adopt the compiled modules that were shipped to it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from analytics.finding import FINDING_SCHEMA
from analytics.task import AuditTask

ROW_SCHEMA: Final = f"{FINDING_SCHEMA}, summary string"
"""A finding's columns, and a text that only summaries have."""

TASK_SCHEMA: Final = "task string"
# Beyond, several tasks share a slice: the scheduler costs ten milliseconds for each.
_MAX_SLICES: Final = 2000


def task_frame(session: Any, tasks: Sequence[AuditTask]) -> Any:
    """The tasks as a DataFrame, the largest first, each in a slice of its own."""
    ordered = sorted(tasks, key=lambda task: -task.size_bytes)
    rows = [(task.to_json(),) for task in ordered]
    slices = max(1, min(len(rows), _MAX_SLICES))
    return session.createDataFrame(
        session.sparkContext.parallelize(rows, slices), schema=TASK_SCHEMA
    )


def audit(tasks: Any) -> Any:
    """Findings and summaries of a DataFrame of tasks."""
    return tasks.mapInArrow(run_tasks, ROW_SCHEMA)


def findings_of(rows: Any) -> Any:
    """The findings among the rows that `audit` gives."""
    return rows.where("summary is null").drop("summary")


def summaries_of(rows: Any) -> Any:
    """The summaries among the rows that `audit` gives, one JSON text each."""
    return rows.where("summary is not null").select("summary")


def run_tasks(batches: Iterable[Any]) -> Iterator[Any]:
    """What a worker does with its tasks; yields record batches of ROW_SCHEMA."""
    from analytics.shipping import adopt_compiled

    adopt_compiled()
    import pyarrow

    from analytics.task import task_from_json

    schema = arrow_schema(pyarrow)
    for batch in batches:
        for text in batch.column(0).to_pylist():
            rows = run_task(task_from_json(text))
            yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)


def run_task(task: AuditTask) -> list[dict[str, Any]]:
    """The rows of one task; a table that is too small is a summary that asks for shards."""
    from analytics.partition_audit import audit_partition
    from kafkawire.columns_scanner import KeyLimitError

    try:
        outcomes = audit_partition(task)
    except KeyLimitError:
        first = task.replicas[0]
        asked = {"topic": first.topic, "partition": first.partition, "replica": first.replica}
        return [{"summary": json.dumps(asked | {"needs_shards": True})}]
    rows: list[dict[str, Any]] = []
    for findings, summary in outcomes:
        rows += [finding.to_row() for finding in findings]
        rows.append({"summary": json.dumps(summary)})
    return rows


def arrow_schema(pyarrow: Any) -> Any:
    """ROW_SCHEMA in Arrow's types."""
    types = {"string": pyarrow.string(), "int": pyarrow.int32(), "bigint": pyarrow.int64()}
    columns = (column.split() for column in ROW_SCHEMA.split(", "))
    return pyarrow.schema([(name, types[kind]) for name, kind in columns])

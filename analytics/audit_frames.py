"""Composition: the audits as functions from DataFrames to DataFrames, for notebooks and jobs.

`tasks_frame` lists the tasks, one per row (JSON, see `analytics.task`); `findings_frame` turns
tasks into findings. Both are lazy: Spark runs the audit when an action needs the findings. The
command `ottla audit` does not use DataFrames (docs/adr/0031).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from analytics.finding_list import FINDING_SCHEMA
from analytics.task import AuditTask

TASK_SCHEMA: Final = "task string"


def tasks_frame(session: Any, tasks: Sequence[AuditTask]) -> Any:
    """Return a DataFrame of `tasks`, largest first, each in its own Spark partition."""
    ordered = sorted(tasks, key=lambda task: -task.size_bytes)
    rows = [(task.to_json(),) for task in ordered]
    slices = session.sparkContext.parallelize(rows, max(1, len(rows)))
    return session.createDataFrame(slices, schema=TASK_SCHEMA)


def findings_frame(tasks: Any) -> Any:
    """Return the findings of a DataFrame of tasks, with the columns of FINDING_SCHEMA."""
    return tasks.select("task").mapInArrow(find, FINDING_SCHEMA)


def find(batches: Iterable[Any]) -> Iterator[Any]:
    """Run a worker's tasks and yield record batches of FINDING_SCHEMA."""
    from analytics.shipping import adopt_compiled

    adopt_compiled()
    import pyarrow

    from analytics.finding_list import arrow_schema
    from analytics.task import task_from_json

    schema = arrow_schema(pyarrow)
    for batch in batches:
        for text in batch.column(0).to_pylist():
            rows = findings_of(task_from_json(text))
            yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)


def findings_of(task: AuditTask) -> list[dict[str, Any]]:
    """Return the findings of one task, split into shards until the keys of each fit one table."""
    from analytics.plan import split_task
    from analytics.spark_audit import run_task

    shards = [task]
    while None in (results := [run_task(shard) for shard in shards]):
        shards = split_task(shards[0])
    return [row for outcomes in results for rows, _ in outcomes or () for row in rows]

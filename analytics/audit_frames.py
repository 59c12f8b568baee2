"""Composition: the audits as functions from DataFrames to DataFrames, for notebooks and jobs.

`tasks_frame` says what is to be audited, one task a row (JSON, see `analytics.task`), and
`findings_frame` makes findings of that. Both are lazy: Spark does the work where and when the
findings are asked for. The command `ottla audit` does without DataFrames (docs/adr/0031).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from analytics.finding import FINDING_SCHEMA
from analytics.task import AuditTask

TASK_SCHEMA: Final = "task string"


def tasks_frame(session: Any, tasks: Sequence[AuditTask]) -> Any:
    """Return a DataFrame of `tasks`, the largest first, each in a partition of its own."""
    ordered = sorted(tasks, key=lambda task: -task.size_bytes)
    rows = [(task.to_json(),) for task in ordered]
    slices = session.sparkContext.parallelize(rows, max(1, len(rows)))
    return session.createDataFrame(slices, schema=TASK_SCHEMA)


def findings_frame(tasks: Any) -> Any:
    """Return the findings of a DataFrame of tasks; its columns are those of FINDING_SCHEMA."""
    return tasks.select("task").mapInArrow(find, FINDING_SCHEMA)


def find(batches: Iterable[Any]) -> Iterator[Any]:
    """What a worker does with its tasks; yields record batches of FINDING_SCHEMA."""
    from analytics.shipping import adopt_compiled

    adopt_compiled()
    import pyarrow

    from analytics.finding import arrow_schema
    from analytics.task import task_from_json

    schema = arrow_schema(pyarrow)
    for batch in batches:
        for text in batch.column(0).to_pylist():
            rows = findings_of(task_from_json(text))
            yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)


def findings_of(task: AuditTask) -> list[dict[str, Any]]:
    """The findings of one task; where its keys do not fit one table, shard after shard."""
    from analytics.plan import split_task
    from analytics.spark_audit import run_task

    shards = [task]
    while None in (told := [run_task(shard) for shard in shards]):
        shards = split_task(shards[0])
    return [row for outcomes in told for rows, _ in outcomes or () for row in rows]

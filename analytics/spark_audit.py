"""The tasks of an audit as one Spark job (composition).

Each task (a JSON text, see `analytics.task`) reads its partition's files itself, keeps its keys in
one table, and returns its findings. Nothing is shuffled (docs/adr/0031). The command `ottla audit`
sends the tasks as an RDD: the start of Spark SQL takes longer than all other steps of a start. A
notebook or job that already uses Spark SQL calls `tasks_frame` and `findings_frame`.

`run_tasks` and `find` run on the workers. They import modules in their bodies, because a worker
must first adopt the compiled modules that were shipped to it, and needs no module of the driver.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from analytics.finding_row import FINDING_SCHEMA, arrow_schema, distinct_rows, finding_row
from analytics.plan import split_task
from analytics.task import AuditTask, task_from_json

Outcome = tuple[list[dict[str, Any]], dict[str, Any]]
"""One replica's findings, as rows, and its summary."""

# The scheduler takes ten milliseconds per slice. Beyond this number, tasks share a slice.
_MAX_SLICES: Final = 2000


def audit(context: Any, tasks: Sequence[AuditTask]) -> list[list[Outcome] | None]:
    """Return the outcomes of each task; None for a task whose keys do not fit its table.

    Spark starts the tasks in this order: put the largest first.
    """
    texts = [task.to_json() for task in tasks]
    slices = max(1, min(len(texts), _MAX_SLICES))
    found: list[list[Outcome] | None]
    found = context.parallelize(texts, slices).mapPartitions(run_tasks).collect()
    return found


def run_shards(
    context: Any, tasks: list[AuditTask]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return all findings and summaries.

    A task whose keys do not fit one table is split into shards and run again.
    """
    from analytics.spark_session import shown_progress, spark_errors_translated

    findings: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    while tasks:
        tasks = sorted(tasks, key=lambda task: -task.size_bytes)
        with shown_progress(context), spark_errors_translated():
            outcomes = list(zip(tasks, audit(context, tasks), strict=True))
        # If the keys of one shard do not fit, all shards of the replica are split again.
        too_large = {task.place: task for task, found in outcomes if found is None}
        whole = [found for task, found in outcomes if task.place not in too_large]
        findings += rows_of(whole)
        summaries += [summary for found in whole for _, summary in found or ()]
        tasks = [part for place in sorted(too_large) for part in split_task(too_large[place])]
    return findings, summaries


def tasks_frame(session: Any, tasks: Sequence[AuditTask]) -> Any:
    """Return a DataFrame of `tasks` as JSON, largest first, each in its own Spark partition."""
    ordered = sorted(tasks, key=lambda task: -task.size_bytes)
    rows = [(task.to_json(),) for task in ordered]
    slices = session.sparkContext.parallelize(rows, max(1, len(rows)))
    return session.createDataFrame(slices, schema="task string")


def findings_frame(tasks: Any) -> Any:
    """Return the findings of a DataFrame of tasks, with the columns of FINDING_SCHEMA.

    Spark runs the audit when an action needs the findings.
    """
    return tasks.select("task").mapInArrow(find, FINDING_SCHEMA)


def run_tasks(texts: Iterable[str]) -> Iterator[list[Outcome] | None]:
    """Run a worker's tasks and yield the outcomes of each."""
    from analytics.shipping import adopt_compiled

    adopt_compiled()
    for text in texts:
        yield run_task(task_from_json(text))


def find(batches: Iterable[Any]) -> Iterator[Any]:
    """Run a worker's tasks and yield record batches of FINDING_SCHEMA."""
    from analytics.shipping import adopt_compiled

    adopt_compiled()
    import pyarrow

    schema = arrow_schema(pyarrow)
    for batch in batches:
        for text in batch.column(0).to_pylist():
            # More shards until the keys of each fit one table.
            shards = [task_from_json(text)]
            while None in (results := [run_task(shard) for shard in shards]):
                shards = split_task(shards[0])
            yield pyarrow.RecordBatch.from_pylist(rows_of(results), schema=schema)


def rows_of(results: Iterable[list[Outcome] | None]) -> list[dict[str, Any]]:
    """Return the findings of all results."""
    return distinct_rows(
        row for outcomes in results for found, _ in outcomes or () for row in found
    )


def run_task(task: AuditTask) -> list[Outcome] | None:
    """Return the outcomes of one task; None if its keys need more shards.

    An exception is a finding of the partition, so that it does not end the audit of the others.
    """
    from analytics.partition_audit import audit_partition, failed_audit
    from kafkawire.key_table_loops import KeyLimitError

    try:
        outcomes = audit_partition(task)
    except KeyLimitError:
        return None
    except Exception as error:
        outcomes = failed_audit(task, error)
    return [([finding_row(finding) for finding in found], summary) for found, summary in outcomes]

"""Composition: the tasks of an audit as one Spark job.

Each task (a JSON text, see `analytics.task`) reads its partition's files itself, keeps its keys in
one table, and returns its findings. Nothing is shuffled (docs/adr/0031). The tasks travel as an
RDD, not as a DataFrame: the start of Spark SQL takes longer than all other steps of a start.

`run_tasks` runs on the workers. It imports modules in its body, because a worker must first adopt
the compiled modules that were shipped to it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from analytics.finding_list import finding_row
from analytics.task import AuditTask

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


def run_tasks(texts: Iterable[str]) -> Iterator[list[Outcome] | None]:
    """Run a worker's tasks and yield the outcomes of each."""
    from analytics.shipping import adopt_compiled

    adopt_compiled()
    from analytics.task import task_from_json

    for text in texts:
        yield run_task(task_from_json(text))


def run_task(task: AuditTask) -> list[Outcome] | None:
    """Return the outcomes of one task; None if its keys need more shards."""
    from analytics.partition_audit import audit_partition
    from kafkawire.key_table_loops import KeyLimitError

    try:
        outcomes = audit_partition(task)
    except KeyLimitError:
        return None
    return [([finding_row(finding) for finding in found], summary) for found, summary in outcomes]

"""Composition: the tasks of an audit as one Spark job.

Each task (a JSON text, see `analytics.task`) reads its partition's files itself, keeps its keys in
one table, and yields what it found: nothing is shuffled (docs/adr/0031). The tasks travel as an
RDD, not as a DataFrame: SQL takes longer to get ready than all the rest of a start.

What runs on the workers is `run_tasks`; its imports stand inside, because a worker first has to
adopt the compiled modules that were shipped to it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from analytics.task import AuditTask

Outcome = tuple[list[dict[str, Any]], dict[str, Any]]
"""One replica's findings, as rows, and its summary."""

# Beyond, several tasks share a slice: the scheduler costs ten milliseconds for each.
_MAX_SLICES: Final = 2000


def audit(context: Any, tasks: Sequence[AuditTask]) -> list[list[Outcome] | None]:
    """What each of `tasks` found; None for one whose keys do not fit its table.

    They are begun in this order: put the largest first.
    """
    texts = [task.to_json() for task in tasks]
    slices = max(1, min(len(texts), _MAX_SLICES))
    found: list[list[Outcome] | None]
    found = context.parallelize(texts, slices).mapPartitions(run_tasks).collect()
    return found


def run_tasks(texts: Iterable[str]) -> Iterator[list[Outcome] | None]:
    """What a worker does with its tasks."""
    from analytics.shipping import adopt_compiled

    adopt_compiled()
    from analytics.task import task_from_json

    for text in texts:
        yield run_task(task_from_json(text))


def run_task(task: AuditTask) -> list[Outcome] | None:
    """What one task found; None asks for shards."""
    from analytics.partition_audit import audit_partition
    from kafkawire.columns_scanner import KeyLimitError

    try:
        outcomes = audit_partition(task)
    except KeyLimitError:
        return None
    return [([finding.to_row() for finding in found], summary) for found, summary in outcomes]

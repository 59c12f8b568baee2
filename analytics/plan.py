"""The tasks of an audit (decision)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from analytics.errors import AuditError
from analytics.task import AuditTask
from kafkawire.ids import TopicPartition
from kafkawire.units import MIB
from logcheck.finding import Check
from logcheck.replica_files import ReplicaFiles
from logcheck.rule import Rules


class Audit(StrEnum):
    """The audits, by the names that users give on the command line."""

    INTEGRITY = "integrity"
    COMPACTION = "compaction"
    REPLICAS = "replicas"
    RETENTION = "retention"
    COST = "cost"
    COLLISIONS = "collisions"


_STRUCTURE: Final = (Check.BATCHES, Check.OFFSETS, Check.EPOCHS)
CHECKS: Final[Mapping[Audit, tuple[Check, ...]]] = {
    Audit.INTEGRITY: (
        *_STRUCTURE,
        Check.OFFSET_INDEX,
        Check.TIME_INDEX,
        Check.CHECKPOINTS,
        Check.PRODUCERS,
        Check.TRANSACTIONS,
    ),
    Audit.COMPACTION: (
        *_STRUCTURE,
        Check.UNIQUENESS,
        Check.PRESERVATION,
        Check.TOMBSTONES,
        Check.UNCLEANABLE,
        Check.PRODUCERS,
        Check.TRANSACTIONS,
    ),
    Audit.REPLICAS: (Check.REPLICAS,),
    Audit.RETENTION: (Check.RETENTION,),
    Audit.COST: (Check.COST,),
    # The tasks check only the structure of the files; Spark compares the keys.
    Audit.COLLISIONS: (*_STRUCTURE, Check.COLLISIONS),
}
WITH_REFERENCE: Final = (Audit.COMPACTION, Audit.COLLISIONS)
"""The audits that read the log given by `--against`."""
MIN_REPLICAS: Final = 2
_MAX_SHARDS: Final = 4096
_BY_KEYS: Final = {str(each) for each in (Check.UNIQUENESS, Check.PRESERVATION, Check.COST)}
"""The checks that take most of the time, and less for a share of the keys."""
_SPREAD_FROM_BYTES: Final = 64 * MIB
_MAX_SPREAD: Final = 4
"""More shards for idle cores gain little, because each of them reads the whole log."""


def plan_tasks(
    audit: Audit,
    groups: Mapping[TopicPartition, Sequence[ReplicaFiles]],
    references: Mapping[TopicPartition, ReplicaFiles],
    rules: Rules,
    snapshot: str | None = None,
) -> list[AuditTask]:
    """Return one task per replica, or one per partition if its replicas are compared."""
    checks = tuple(str(check) for check in CHECKS[audit])
    tasks = []
    for partition, replicas in groups.items():
        together = [replicas] if audit is Audit.REPLICAS else [[each] for each in replicas]
        reference = references.get(partition)
        for members in together:
            size = sum(member.size_bytes for member in members)
            tasks.append(
                AuditTask(
                    replicas=tuple(members),
                    rules=rules.of_topic(partition.topic),
                    checks=checks,
                    reference=reference,
                    snapshot=snapshot,
                    size_bytes=size + (reference.size_bytes if reference else 0),
                )
            )
    return tasks


def spread_tasks(tasks: Sequence[AuditTask], core_count: int) -> list[AuditTask]:
    """Split large tasks into shards if there are more cores than tasks."""
    return [part for task in tasks for part in _spread(task, core_count // len(tasks))]


def _spread(task: AuditTask, core_count: int) -> list[AuditTask]:
    is_large = task.size_bytes >= _SPREAD_FROM_BYTES and not _BY_KEYS.isdisjoint(task.checks)
    tasks = [task]
    while is_large and len(tasks) * 2 <= min(core_count, _MAX_SPREAD):
        tasks = split_task(tasks[0])
    return tasks


def split_task(task: AuditTask) -> list[AuditTask]:
    """Split the task into twice as many shards, for more keys than one table may hold.

    Each shard reads the whole log and keeps its share of the keys. The size of a partition is
    therefore limited neither by a worker's memory nor by a shuffle.

    Raises:
        AuditError: there are too many shards; the key limit must be raised.
    """
    count = task.shard_count * 2
    if count > _MAX_SHARDS:
        raise AuditError(
            f"{count} shards exceed the limit of {_MAX_SHARDS}: "
            f"key.limit {task.rules.key_limit} is too low"
        )
    return [replace(task, shard=shard, shard_count=count) for shard in range(count)]

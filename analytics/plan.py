"""Decision: which tasks an audit consists of."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from analytics.finding import Check
from analytics.task import AuditTask, ReplicaFiles, Rules
from kafkawire.ids import TopicPartition


class Audit(StrEnum):
    """The audits that a user asks for by name."""

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
    # The tasks say whether the files can be read; the keys are compared by Spark.
    Audit.COLLISIONS: (*_STRUCTURE, Check.COLLISIONS),
}
_MAX_SHARDS: Final = 4096


def plan_tasks(
    audit: Audit,
    groups: Mapping[TopicPartition, Sequence[ReplicaFiles]],
    references: Mapping[TopicPartition, ReplicaFiles],
    rules: Rules,
    snapshot: str | None = None,
) -> list[AuditTask]:
    """One task per replica; one per partition where the replicas are compared with each other."""
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
                    rules=rules,
                    checks=checks,
                    reference=reference,
                    snapshot=snapshot,
                    size_bytes=size + (reference.size_bytes if reference else 0),
                )
            )
    return tasks


def split_task(task: AuditTask) -> list[AuditTask]:
    """The task in twice as many shards, for a partition with more keys than a table may hold.

    Each shard reads all of the log and keeps its share of the keys, so that no worker's memory and
    no shuffle limits how large a partition may be.
    """
    count = task.shard_count * 2
    if count > _MAX_SHARDS:
        raise ValueError(f"{count} shards; the limit of keys {task.rules.key_limit} is too low")
    return [replace(task, shard=shard, shard_count=count) for shard in range(count)]

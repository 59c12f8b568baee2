"""Audit tasks: the files of a partition's replicas, and the rules for them (decision).

Tasks are plain data and travel to the executors as JSON, so that the driver and its cluster need
not agree on pickles or on the shape of our classes.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from logcheck.replica_files import ReplicaFiles, SegmentFiles
from logcheck.rule import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTask:
    """One task: replicas of a partition, their reference, and one shard of the keys."""

    replicas: tuple[ReplicaFiles, ...]
    rules: Rules
    checks: tuple[str, ...]
    reference: ReplicaFiles | None = None
    snapshot: str | None = None
    """File with the keys of an earlier state of the log (`analytics.snapshot`)."""
    shard: int = 0
    shard_count: int = 1
    size_bytes: int = field(default=0)

    @property
    def place(self) -> tuple[str, int, str]:
        """Topic, partition and log directory of the first replica."""
        first = self.replicas[0]
        return first.topic, first.partition, first.replica

    @property
    def has_transactions(self) -> bool:
        """Whether this shard checks the transactions; the first one of several has enough to do."""
        return self.shard == min(1, self.shard_count - 1)

    def to_json(self) -> str:
        """Return the task as JSON text; `task_from_json` reads it."""
        return json.dumps(asdict(self))


def task_from_json(text: str) -> AuditTask:
    """Return the task from the text that `to_json` wrote."""
    fields = json.loads(text)
    reference = fields.pop("reference")
    return AuditTask(
        replicas=tuple(_replica(each) for each in fields.pop("replicas")),
        rules=Rules(**fields.pop("rules")),
        checks=tuple(fields.pop("checks")),
        reference=None if reference is None else _replica(reference),
        **fields,
    )


def _replica(fields: dict[str, Any]) -> ReplicaFiles:
    segments: Sequence[dict[str, Any]] = fields.pop("segments")
    foreign = tuple(fields.pop("foreign"))
    snapshots = tuple((offset, file) for offset, file in fields.pop("snapshots"))
    orphans = tuple((offset, file) for offset, file in fields.pop("orphans"))
    return ReplicaFiles(
        segments=tuple(SegmentFiles(**each) for each in segments),
        foreign=foreign,
        snapshots=snapshots,
        orphans=orphans,
        **fields,
    )

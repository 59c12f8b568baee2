"""Decision: what one audit task is told: the files of a partition's replicas, and the rules.

Plain data that travels to the executors as JSON, so that neither pickles nor our classes' shapes
have to agree between a driver and its cluster.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

DAY_MS: Final = 24 * 60 * 60 * 1000
MAX_OFFSET: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """The files of one segment; None for one that is not there."""

    base_offset: int
    log: str
    size_bytes: int
    index: str | None = None
    timeindex: str | None = None
    txnindex: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFiles:
    """One replica of one partition, as its directory and the checkpoints beside it show it."""

    topic: str
    partition: int
    replica: str
    directory: str
    segments: tuple[SegmentFiles, ...] = ()
    epoch_checkpoint: str | None = None
    log_start: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None
    cleaner_point: int | None = None
    has_checkpoints: bool = False
    """Whether the log directory's checkpoints were there to be read."""
    foreign: tuple[str, ...] = ()
    snapshots: tuple[tuple[int, str], ...] = ()
    """Offset and file of each producer snapshot; one is left at the log's end by a clean stop."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the audits hold the files against; the defaults are those of Kafka's topics."""

    now_ms: int = 0
    delete_retention_ms: int = DAY_MS
    tombstone_grace_ms: int = 7 * DAY_MS
    """How long after its horizon a tombstone may still wait for a cleaning."""
    retention_ms: int | None = None
    retention_bytes: int | None = None
    retention_slack_ms: int = 300_000
    """The interval of Kafka's retention task."""
    transaction_timeout_ms: int = 15 * 60 * 1000
    is_strict: bool = False
    """Whether the shapes that only Kafka up to 3.9.0 wrote are findings."""
    key_limit: int = 8_000_000
    """Most keys in one worker's table; a partition with more is audited in shards."""
    finding_limit: int = 200
    """Most findings of one kind in one partition that are listed one by one."""
    hot_key_count: int = 10
    hash_bytes: int = 16
    """How much of a key's MD5 the cleaner keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTask:
    """One task: a partition's replicas, a reference to hold them against, one shard of its keys."""

    replicas: tuple[ReplicaFiles, ...]
    rules: Rules
    checks: tuple[str, ...]
    reference: ReplicaFiles | None = None
    snapshot: str | None = None
    """A file with the keys that the log once had (`analytics.snapshot`)."""
    shard: int = 0
    shard_count: int = 1
    size_bytes: int = field(default=0)

    def to_json(self) -> str:
        """The task as text; `task_from_json` is the way back."""
        return json.dumps(asdict(self))


def task_from_json(text: str) -> AuditTask:
    """The task that `to_json` wrote."""
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
    return ReplicaFiles(
        segments=tuple(SegmentFiles(**each) for each in segments),
        foreign=foreign,
        snapshots=snapshots,
        **fields,
    )

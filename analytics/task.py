"""Decision: audit tasks: the files of a partition's replicas, and the rules for them.

Tasks are plain data and travel to the executors as JSON, so that the driver and its cluster need
not agree on pickles or on the shape of our classes.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from logcheck.replica_files import ReplicaFiles, SegmentFiles

DAY_MS: Final = 24 * 60 * 60 * 1000
MAX_OFFSET: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The parameters of the audits; the defaults are Kafka's defaults for topics."""

    now_ms: int = 0
    delete_retention_ms: int = DAY_MS
    tombstone_grace_ms: int = 7 * DAY_MS
    """Time after its delete horizon in which a tombstone may still wait for a cleaning."""
    retention_ms: int | None = None
    retention_bytes: int | None = None
    retention_slack_ms: int = 300_000
    """The interval of Kafka's retention task."""
    transaction_timeout_ms: int = 15 * 60 * 1000
    is_strict: bool = False
    """Whether the index shape that only Kafka up to 3.9.0 writes is a finding."""
    key_limit: int = 8_000_000
    """Maximum number of keys in one worker's table; larger partitions are audited in shards."""
    finding_limit: int = 200
    """Maximum number of findings of one kind in one partition that are listed one by one."""
    hot_key_count: int = 10
    hash_bytes: int = 16
    """Number of bytes of a key's MD5 that the cleaner keeps."""


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
    return ReplicaFiles(
        segments=tuple(SegmentFiles(**each) for each in segments),
        foreign=foreign,
        snapshots=snapshots,
        **fields,
    )


_FIELDS: Final = {
    "now.ms": "now_ms",
    "delete.retention.ms": "delete_retention_ms",
    "tombstone.grace.ms": "tombstone_grace_ms",
    "retention.ms": "retention_ms",
    "retention.bytes": "retention_bytes",
    "retention.slack.ms": "retention_slack_ms",
    "transaction.timeout.ms": "transaction_timeout_ms",
    "key.limit": "key_limit",
    "finding.limit": "finding_limit",
    "hash.bytes": "hash_bytes",
}


def parse_rules(pairs: Sequence[str], *, is_strict: bool = False) -> Rules:
    """Parse rules from `KEY=VALUE` pairs; -1 means no limit, as in Kafka.

    Raises:
        ValueError: a key is unknown or a value is not a whole number; the message names the keys.
    """
    values: dict[str, int | None] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        if key not in _FIELDS:
            raise ValueError(f"unknown rule {key!r}; the rules are {', '.join(_FIELDS)}")
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"{pair!r}: {text!r} is not a whole number") from None
        values[_FIELDS[key]] = None if number < 0 else number
    return Rules(is_strict=is_strict, **values)  # type: ignore[arg-type]

"""The report behind `ottla cluster log-dirs` (decision)."""

from collections.abc import Sequence
from typing import Final

from ottla.cli.terminal import Cell
from ottla.cli.text import JsonValue, size_text
from ottla.client.admin_model import LogDirectory

SUMMARY_COLUMNS: Final = ("broker", "directory", "replicas", "size", "free", "total", "state")
REPLICA_COLUMNS: Final = ("broker", "directory", "topic", "partition", "bytes", "lag", "future")
UNKNOWN: Final = "-"
ONLINE: Final = "online"


def to_summary_rows(directories: Sequence[LogDirectory]) -> list[list[Cell]]:
    """Return a row per directory."""
    return [
        [
            each.broker_id,
            each.path,
            UNKNOWN if each.error else len(each.replicas),
            UNKNOWN if each.error else size_text(sum(it.size_bytes for it in each.replicas)),
            _size(each.usable_bytes),
            _size(each.total_bytes),
            each.error.code.name if each.error else ONLINE,
        ]
        for each in _sorted(directories)
    ]


def to_replica_rows(directories: Sequence[LogDirectory]) -> list[list[Cell]]:
    """Return a row per replica."""
    return [
        [
            each.broker_id,
            each.path,
            *replica.topic_partition,
            replica.size_bytes,
            replica.offset_lag,
            "yes" if replica.is_future else "",
        ]
        for each in _sorted(directories)
        for replica in sorted(each.replicas, key=lambda replica: replica.topic_partition)
    ]


def to_json(directories: Sequence[LogDirectory]) -> JsonValue:
    """Return all directories with their replicas; an unknown size is null, and so is no error."""
    return [
        {
            "broker": each.broker_id,
            "directory": each.path,
            "error": each.error.code.name if each.error else None,
            "total_bytes": None if each.total_bytes < 0 else each.total_bytes,
            "usable_bytes": None if each.usable_bytes < 0 else each.usable_bytes,
            "replicas": [
                {
                    "topic": replica.topic_partition.topic,
                    "partition": replica.topic_partition.partition,
                    "size_bytes": replica.size_bytes,
                    "offset_lag": replica.offset_lag,
                    "is_future": replica.is_future,
                }
                for replica in each.replicas
            ],
        }
        for each in _sorted(directories)
    ]


def _sorted(directories: Sequence[LogDirectory]) -> list[LogDirectory]:
    return sorted(directories, key=lambda each: (each.broker_id, each.path))


def _size(size_bytes: int) -> str:
    return UNKNOWN if size_bytes < 0 else size_text(size_bytes)

"""Decision: what the names in a log directory say. Kafka's names; anything else is foreign."""

import re
from typing import Final, NamedTuple

from kafkawire.ids import TopicPartition

_OFFSET_FILE: Final = re.compile(r"([0-9]{20})\.(log|index|timeindex|txnindex|snapshot)")
_PARTITION_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-([0-9]{1,10})")
EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
LOG_START: Final = "log-start-offset-checkpoint"
RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
CLEANER_POINT: Final = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS: Final = (LOG_START, RECOVERY_POINT, HIGH_WATERMARK, CLEANER_POINT)

# What else a broker keeps beside its segments; nobody audits it, nobody wonders about it.
_KNOWN_OTHERS: Final = frozenset({EPOCH_CHECKPOINT, "partition.metadata", ".lock"})
_PASSING_SUFFIXES: Final = (".deleted", ".cleaned", ".swap", ".tmp", ".checkpoint")


class OffsetFile(NamedTuple):
    """A file that is named by the first offset that it may hold."""

    base_offset: int
    suffix: str


def parse_offset_file(name: str) -> OffsetFile | None:
    """What `name` says, or None if it is none of a segment's files."""
    match = _OFFSET_FILE.fullmatch(name)
    return OffsetFile(int(match[1]), match[2]) if match else None


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition that a directory of this name holds, or None.

    Directories that are being deleted, moved or were set aside have longer names.
    """
    match = _PARTITION_DIRECTORY.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def is_foreign(name: str) -> bool:
    """Whether a broker would never put a file of this name into a partition's directory."""
    if parse_offset_file(name) is not None or name in _KNOWN_OTHERS:
        return False
    return not name.endswith(_PASSING_SUFFIXES)

"""Decision: the names in a log directory. Kafka's names are known; any other name is foreign."""

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

# Other files that a broker keeps beside its segments. They are neither audited nor foreign.
_KNOWN_OTHERS: Final = frozenset({EPOCH_CHECKPOINT, "partition.metadata", ".lock"})
_PASSING_SUFFIXES: Final = (".deleted", ".cleaned", ".swap", ".tmp", ".checkpoint")


class OffsetFile(NamedTuple):
    """The name of a file, given by the lowest offset that it may contain."""

    base_offset: int
    suffix: str


def parse_offset_file(name: str) -> OffsetFile | None:
    """Parse the name of a segment's file or producer snapshot; return None for other names."""
    match = _OFFSET_FILE.fullmatch(name)
    return OffsetFile(int(match[1]), match[2]) if match else None


def parse_partition_directory(name: str) -> TopicPartition | None:
    """Return the partition in a directory of this name, or None.

    Directories that are being deleted or moved, or were set aside, have longer names.
    """
    match = _PARTITION_DIRECTORY.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def is_foreign(name: str) -> bool:
    """Whether no broker creates a file of this name in a partition's directory."""
    if parse_offset_file(name) is not None or name in _KNOWN_OTHERS:
        return False
    return not name.endswith(_PASSING_SUFFIXES)

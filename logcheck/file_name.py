"""The names in a log directory (decision).

Kafka's names are known; any other name is foreign.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from kafkawire.ids import TopicPartition
from kafkawire.sentinels import MAX_OFFSET

_OFFSET_FILE: Final = re.compile(r"([0-9]{20})\.(log|index|timeindex|txnindex|snapshot)")
_LEAVING_SEGMENT: Final = re.compile(r"([0-9]{20})\.log\.deleted")
_LEAVING_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]+)\.[0-9a-f]{32}-(?:delete|stray)")
_PARTITION_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-([0-9]{1,10})")
EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
LOG_START: Final = "log-start-offset-checkpoint"
RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK: Final = "replication-offset-checkpoint"
CLEANER_POINT: Final = "cleaner-offset-checkpoint"
CLEAN_STOP: Final = ".kafka_cleanshutdown"
OFFSET_CHECKPOINTS: Final = (LOG_START, RECOVERY_POINT, HIGH_WATERMARK, CLEANER_POINT)

# Other files that a broker keeps beside its segments. They are neither audited nor foreign.
MOVED_HERE: Final = "moved-here"
"""The mark of a copy that has just replaced the log in another log directory of the broker."""
COPIED_TO: Final = "copied-to"
"""The name of the copy of a log that moves to another log directory of the broker."""
_QUORUM_STATE: Final = "quorum-state"
"""The vote and the leader that a KRaft broker knows, beside the segments of the metadata log."""
_KNOWN_OTHERS: Final = frozenset(
    {EPOCH_CHECKPOINT, PARTITION_METADATA, MOVED_HERE, COPIED_TO, _QUORUM_STATE, ".lock"}
)
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
_PASSING_SUFFIXES: Final = (".deleted", CLEANED, SWAP, ".tmp", ".checkpoint")


class OffsetFile(NamedTuple):
    """The name of a file, given by the lowest offset that it may contain."""

    base_offset: int
    suffix: str


def parse_offset_file(name: str) -> OffsetFile | None:
    """Parse the name of a segment's file or producer snapshot; return None for other names."""
    match = _OFFSET_FILE.fullmatch(name)
    if match is None or int(match[1]) > MAX_OFFSET:
        return None
    return OffsetFile(int(match[1]), match[2])


def parse_leaving_segment(name: str) -> int | None:
    """Return the base offset of a segment that a broker has renamed to delete it, or None."""
    match = _LEAVING_SEGMENT.fullmatch(name)
    return int(match[1]) if match else None


def parse_partition_directory(name: str) -> TopicPartition | None:
    """Return the partition in a directory of this name, or None.

    Directories that are being deleted or moved, or were set aside, have longer names.
    """
    match = _PARTITION_DIRECTORY.fullmatch(name)
    return TopicPartition(match[1], int(match[2])) if match else None


def parse_leaving_directory(name: str) -> TopicPartition | None:
    """Return the partition in a directory that a broker is deleting or has set aside, or None."""
    match = _LEAVING_DIRECTORY.fullmatch(name)
    return parse_partition_directory(match[1]) if match else None


def is_foreign(name: str) -> bool:
    """Whether no broker creates a file of this name in a partition's directory."""
    if parse_offset_file(name) is not None or name in _KNOWN_OTHERS:
        return False
    return not name.endswith(_PASSING_SUFFIXES)


def beside(file: str, suffix: str) -> str:
    """Return the file of the same segment with `suffix`, such as `.index`.

    The options at the end of a URI, which begin with a question mark, are kept, and so is the
    second suffix of a file that is being swapped in.
    """
    name, mark, options = file.partition("?") if "://" in file else (file, "", "")
    end = SWAP if name.endswith(SWAP) else ""
    return name.removesuffix(end).rpartition(".")[0] + suffix + end + mark + options


class FileKind(StrEnum):
    """Kinds of files that `ottla logs` prints."""

    SEGMENT = "segment"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TRANSACTION_INDEX = "transaction index"
    PRODUCER_SNAPSHOT = "producer snapshot"
    OFFSET_CHECKPOINT = "offset checkpoint"
    EPOCH_CHECKPOINT = "leader epoch checkpoint"
    PROPERTIES = "properties"


_BY_SUFFIX: Final = {
    "log": FileKind.SEGMENT,
    "index": FileKind.OFFSET_INDEX,
    "timeindex": FileKind.TIME_INDEX,
    "txnindex": FileKind.TRANSACTION_INDEX,
    "snapshot": FileKind.PRODUCER_SNAPSHOT,
}
_BY_NAME: Final = {
    **dict.fromkeys(OFFSET_CHECKPOINTS, FileKind.OFFSET_CHECKPOINT),
    EPOCH_CHECKPOINT: FileKind.EPOCH_CHECKPOINT,
    PARTITION_METADATA: FileKind.PROPERTIES,
    "meta.properties": FileKind.PROPERTIES,
}
_PASSING_FILE: Final = re.compile(
    r"(.+)\.(log|index|timeindex|txnindex|snapshot)(\.(deleted|cleaned|swap))?"
)


@dataclass(frozen=True, slots=True)
class FileName:
    """Kind of a file and, for the files of a segment, the base offset in its name."""

    kind: FileKind
    base_offset: int = 0
    is_well_formed: bool = True


def parse_file_name(name: str) -> FileName | None:
    """Return the parsed name, or None for a file of unknown kind.

    A segment may be about to be deleted or swapped in. If its name is not a number of 20 digits, it
    has the base offset 0 and is not `is_well_formed`.
    """
    if (kind := _BY_NAME.get(name)) is not None:
        return FileName(kind)
    match = _PASSING_FILE.fullmatch(name)
    if match is None:
        return None
    offset_file = parse_offset_file(f"{match[1]}.{match[2]}")
    if offset_file is None:
        return FileName(_BY_SUFFIX[match[2]], is_well_formed=False)
    return FileName(_BY_SUFFIX[match[2]], offset_file.base_offset)

"""Names of the files and directories of a log (decision).

A partition lives in `<topic>-<partition>/`. Each of its segments is named by its base offset, in
20 digits, so that a listing sorts by offset. A directory that waits for deletion or was set aside
is `<topic>-<partition>.<32 hex digits>-delete` or `-stray`. Topics may contain dots and dashes, so
names are parsed from the right.
"""

import re
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from kafkawire.ids import Offset, TopicPartition
from kafkawire.sentinels import MAX_OFFSET

LOG_SUFFIX: Final = ".log"
OFFSET_INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
PRODUCER_SNAPSHOT_SUFFIX: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)

DELETED_SUFFIX: Final = ".deleted"
"""An obsolete file that waits for `file.delete.delay.ms`; no reader opens it by name any more."""
CLEANED_SUFFIX: Final = ".cleaned"
"""A file that the cleaner is still writing; useless after a crash."""
SWAP_SUFFIX: Final = ".swap"
"""A complete file of the cleaner; it replaces older segments, even after a crash."""

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

MOVED_HERE: Final = "moved-here"
"""Marker in a partition's directory that has just replaced the one in another log dir: the time."""
COPIED_TO: Final = "copied-to"
"""File in a log's directory that names its copy in another log dir, while it can be continued."""

META_PROPERTIES: Final = "meta.properties"
FOREIGN_DIRECTORIES: Final = frozenset({"coordinator"})
"""Directories of a log dir that are not logs: the data of a node's own coordinator."""
LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
BOOT_ID: Final = ".ottla-boot-id"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"

MAX_NAME_LENGTH: Final = 255
# Length of the UUID that makes the name of a set-aside directory unique.
UNIQUE_HEX_DIGITS: Final = 32
MAX_PARTITION: Final = 2**31 - 1

_SEGMENT_FILE: Final = re.compile(r"([0-9]{20})(\.[a-z]+)(\.deleted|\.cleaned|\.swap)?")
_PARTITION_DIRECTORY: Final = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]{1,10})")
_SET_ASIDE: Final = re.compile(
    r"([a-zA-Z0-9._-]+)-([0-9]{1,10})\.([a-zA-Z0-9._-]+)-(delete|stray|future)"
)


class SegmentFileName(NamedTuple):
    """A segment file: base offset, suffix (`.log`...), and state (the second suffix)."""

    base_offset: Offset
    suffix: str
    state: str


class DirectoryState(Enum):
    """State of a partition directory, as encoded in its name."""

    LIVE = ""
    DELETED = "delete"
    STRAY = "stray"
    FUTURE = "future"


class PartitionDirectory(NamedTuple):
    """A parsed directory name; the topic of a set-aside directory may be truncated."""

    topic_partition: TopicPartition
    state: DirectoryState


def segment_file(directory: Path, base_offset: int, suffix: str) -> Path:
    """Return the path of one file of the segment that starts at `base_offset`."""
    return directory / f"{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> SegmentFileName | None:
    """Parse the name of a segment file; return None for any other file."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None or (base_offset := int(match[1])) > MAX_OFFSET:
        return None
    return SegmentFileName(Offset(base_offset), match[2], match[3] or "")


def partition_directory(partition: TopicPartition) -> str:
    """Return the name of the directory that holds `partition`, below a log dir."""
    assert "/" not in partition.topic, f"{partition.topic!r} would lie outside the log dir"
    return f"{partition.topic}-{partition.partition}"


def set_aside_directory(
    partition: TopicPartition, state: DirectoryState, unique: str | None = None
) -> str:
    """Return a unique name for the directory of a partition that is no longer served.

    The topic is truncated so that the name fits in 255 characters (Kafka: KAFKA-4893).
    """
    tail = f"-{partition.partition}.{unique or uuid4().hex}-{state.value}"
    return partition.topic[: MAX_NAME_LENGTH - len(tail)] + tail


def can_be_copied(partition: TopicPartition) -> bool:
    """Whether the directory name of a future log has room for the full topic name."""
    name = set_aside_directory(partition, DirectoryState.FUTURE, unique="0" * UNIQUE_HEX_DIGITS)
    return name.startswith(f"{partition.topic}-")


def parse_partition_directory(name: str) -> PartitionDirectory | None:
    """Parse the name of a partition directory; return None for any other directory."""
    match = _SET_ASIDE.fullmatch(name)
    state = DirectoryState(match[4]) if match else DirectoryState.LIVE
    match = match or _PARTITION_DIRECTORY.fullmatch(name)
    if match is None or int(match[2]) > MAX_PARTITION:
        return None
    return PartitionDirectory(TopicPartition(match[1], int(match[2])), state)

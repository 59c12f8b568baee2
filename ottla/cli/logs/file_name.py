"""Kinds of files by their names. Decision: no I/O.

Kafka's names are `<20 digits>.log`, `.index`, `.timeindex` and `.snapshot`. A segment that is being
deleted, cleaned or swapped in has the suffix `.deleted`, `.cleaned` or `.swap`. Checkpoints have
fixed names.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_SEGMENT_NAME: Final = re.compile(
    r"(?P<base>.+)\.(?P<kind>log|index|timeindex|snapshot)(\.(deleted|cleaned|swap))?"
)
_OFFSET_DIGITS: Final = 20


class FileKind(StrEnum):
    """Kinds of files that `ottla logs` can read."""

    SEGMENT = "segment"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    PRODUCER_SNAPSHOT = "producer snapshot"
    OFFSET_CHECKPOINT = "offset checkpoint"
    EPOCH_CHECKPOINT = "leader epoch checkpoint"
    PROPERTIES = "properties"


_BY_SUFFIX: Final = {
    "log": FileKind.SEGMENT,
    "index": FileKind.OFFSET_INDEX,
    "timeindex": FileKind.TIME_INDEX,
    "snapshot": FileKind.PRODUCER_SNAPSHOT,
}
_BY_NAME: Final = {
    "recovery-point-offset-checkpoint": FileKind.OFFSET_CHECKPOINT,
    "replication-offset-checkpoint": FileKind.OFFSET_CHECKPOINT,
    "log-start-offset-checkpoint": FileKind.OFFSET_CHECKPOINT,
    "cleaner-offset-checkpoint": FileKind.OFFSET_CHECKPOINT,
    "leader-epoch-checkpoint": FileKind.EPOCH_CHECKPOINT,
    "partition.metadata": FileKind.PROPERTIES,
    "meta.properties": FileKind.PROPERTIES,
}


@dataclass(frozen=True, slots=True)
class FileName:
    """Kind of a file and, for the files of a segment, the base offset in its name."""

    kind: FileKind
    base_offset: int | None = None
    is_well_formed: bool = True


def parse_file_name(name: str) -> FileName | None:
    """Return the parsed name, or None for a file of unknown kind.

    A segment whose name is not a number of 20 digits has the base offset 0 and is not
    `is_well_formed`.
    """
    if (kind := _BY_NAME.get(name)) is not None:
        return FileName(kind)
    match = _SEGMENT_NAME.fullmatch(name)
    if match is None:
        return None
    base = match["base"]
    is_well_formed = base.isascii() and base.isdigit() and len(base) == _OFFSET_DIGITS
    return FileName(_BY_SUFFIX[match["kind"]], int(base) if is_well_formed else 0, is_well_formed)

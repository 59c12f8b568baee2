"""Inconsistencies of a log's files, and their positions. Decision: values only."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Damage(StrEnum):
    """Kind of an inconsistency, with its value in JSON output."""

    TORN_TAIL = "torn_tail"
    ZERO_TAIL = "zero_tail"
    BAD_LENGTH = "bad_length"
    BAD_MAGIC = "bad_magic"
    BAD_HEADER = "bad_header"
    BAD_CRC = "bad_crc"
    BAD_CODEC = "bad_codec"
    BAD_RECORDS = "bad_records"
    WRONG_COUNT = "wrong_count"
    WRONG_RECORD_OFFSET = "wrong_record_offset"
    WRONG_MAX_TIMESTAMP = "wrong_max_timestamp"
    OVERLAPPING_OFFSETS = "overlapping_offsets"
    WRONG_SEGMENT_NAME = "wrong_segment_name"
    OFFSET_TOO_FAR = "offset_too_far"
    EPOCH_WENT_BACK = "epoch_went_back"
    PARTIAL_ENTRY = "partial_entry"
    DATA_AFTER_PADDING = "data_after_padding"
    NOT_INCREASING = "not_increasing"
    NO_BATCH_AT_POSITION = "no_batch_at_position"
    WRONG_OFFSET = "wrong_offset"
    WRONG_TIMESTAMP = "wrong_timestamp"
    MISSING_LAST_ENTRY = "missing_last_entry"
    MISSING_FILE = "missing_file"
    BAD_VERSION = "bad_version"
    BAD_LINE = "bad_line"
    DUPLICATE_LINE = "duplicate_line"
    WRONG_CHECKPOINT = "wrong_checkpoint"
    MISSING_OFFSETS = "missing_offsets"
    MISSING_DIRECTORY = "missing_directory"
    OLD_INDEX_SHAPE = "old_index_shape"
    REPLICAS_DIFFER = "replicas_differ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One inconsistency. `position` is in bytes, or the line number (from 1) of a text file."""

    damage: Damage
    file: str
    position: int
    offset: int | None = None
    text: str

    def __str__(self) -> str:
        offset = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.file}: {self.damage} at {self.position}{offset}: {self.text}"


Report = Callable[[Finding], None]
"""Callback through which a check reports its findings."""

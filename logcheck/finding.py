"""Kinds of damage and findings, in the one vocabulary of all checks of a log's files (decision)."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePath


class Check(StrEnum):
    """The checks, by their numbers in docs/audits.md."""

    COVERAGE = "S0"
    BATCHES = "S1"
    OFFSETS = "S2"
    EPOCHS = "S3"
    REPLICAS = "S4"
    OFFSET_INDEX = "S5"
    TIME_INDEX = "S6"
    CHECKPOINTS = "S7"
    UNIQUENESS = "S8"
    PRESERVATION = "S9"
    TOMBSTONES = "S10"
    UNCLEANABLE = "S11"
    PRODUCERS = "S12"
    TRANSACTIONS = "S13"
    COLLISIONS = "S14"
    RETENTION = "S15"
    COST = "S17"


class Damage(StrEnum):
    """The kinds of findings; docs/audits.md shows a fault that causes each."""

    # The audit itself
    AUDIT_FAILED = "audit_failed"
    NO_REFERENCE = "no_reference"
    NOTHING_COMPARED = "nothing_compared"

    # Batches, and the files that contain them
    BAD_CRC = "bad_crc"
    BAD_HEADER = "bad_header"
    BAD_LENGTH = "bad_length"
    BAD_MAGIC = "bad_magic"
    OLD_FORMAT = "old_format"
    UNKNOWN_CODEC = "unknown_codec"
    BAD_RECORDS = "bad_records"
    BAD_ATTRIBUTES = "bad_attributes"
    RECORD_COUNT = "record_count"
    RECORD_OFFSET = "record_offset"
    RECORD_TIMESTAMP = "record_timestamp"
    TORN_TAIL = "torn_tail"
    ZERO_TAIL = "zero_tail"
    UNREADABLE_FILE = "unreadable_file"
    FILE_VANISHED = "file_vanished"
    FILE_SHORTENED = "file_shortened"

    # Offsets and epochs
    OFFSET_BELOW_SEGMENT = "offset_below_segment"
    OFFSET_OVERLAP = "offset_overlap"
    OFFSET_TOO_FAR = "offset_too_far"
    OFFSET_GAP = "offset_gap"
    RECORDS_MISSING = "records_missing"
    SEGMENT_OVERLAP = "segment_overlap"
    EPOCH_BACK = "epoch_back"
    EPOCH_START = "epoch_start"
    EPOCH_BEYOND = "epoch_beyond"

    # Indexes
    INDEX_MISSING = "index_missing"
    SEGMENT_MISSING = "segment_missing"
    INDEX_CUT = "index_cut"
    INDEX_HOLE = "index_hole"
    INDEX_NOT_INCREASING = "index_not_increasing"
    INDEX_POSITION = "index_position"
    INDEX_OFFSET = "index_offset"
    OLD_INDEX_SHAPE = "old_index_shape"
    TIME_NOT_INCREASING = "time_not_increasing"
    TIME_OFFSET = "time_offset"
    TIME_MAXIMUM = "time_maximum"
    TIME_LAST_ENTRY = "time_last_entry"
    RANGE_MISALIGNED = "range_misaligned"

    # Checkpoints and directories
    BAD_CHECKPOINT_LINE = "bad_checkpoint_line"
    BAD_PROPERTY = "bad_property"
    CHECKPOINT_BEYOND = "checkpoint_beyond"
    PARTITION_MISSING = "partition_missing"
    UNNAMED_PARTITION = "unnamed_partition"
    FOREIGN_FILE = "foreign_file"

    # Compaction
    NO_KEY = "no_key"
    DUPLICATE_KEY = "duplicate_key"
    MORE_DUPLICATE_KEYS = "more_duplicate_keys"
    LOST_KEY = "lost_key"
    STALE_VALUE = "stale_value"
    MOVED_RECORD = "moved_record"
    CHANGED_VALUE = "changed_value"
    CHANGED_TIMESTAMP = "changed_timestamp"
    UNKNOWN_RECORD = "unknown_record"
    MORE_MISMATCHES = "more_mismatches"
    KEY_COLLISION = "key_collision"
    TOMBSTONE_GONE_EARLY = "tombstone_gone_early"
    TOMBSTONE_KEPT_LATE = "tombstone_kept_late"
    HORIZON_IN_FUTURE = "horizon_in_future"
    REWRITTEN_BATCH = "rewritten_batch"
    CLEANED_BEYOND_CHECKPOINT = "cleaned_beyond_checkpoint"

    # Replicas and retention
    REPLICA_DIFFERS = "replica_differs"
    BEGINS_LATER = "begins_later"
    REPLICA_MISSING = "replica_missing"
    KEPT_TOO_LONG = "kept_too_long"
    KEPT_TOO_MUCH = "kept_too_much"

    # Producers and transactions
    BAD_SNAPSHOT = "bad_snapshot"
    SNAPSHOT_ENTRY = "snapshot_entry"
    SNAPSHOT_PRODUCER = "snapshot_producer"
    SEQUENCE_BROKEN = "sequence_broken"
    PRODUCER_EPOCH_BACK = "producer_epoch_back"
    PRODUCER_LOST = "producer_lost"
    PRODUCER_DIFFERS = "producer_differs"
    HANGING_TRANSACTION = "hanging_transaction"
    TXNINDEX_MISSING = "txnindex_missing"
    TXNINDEX_RANGE = "txnindex_range"
    TXNINDEX_ENTRY = "txnindex_entry"
    TXNINDEX_CUT = "txnindex_cut"
    TXNINDEX_STABLE = "txnindex_stable"
    PLAIN_IN_TRANSACTION = "plain_in_transaction"
    BAD_MARKER = "bad_marker"
    MARKER_DIFFERS = "marker_differs"
    ABORTED_DATA = "aborted_data"
    MARKER_LOST = "marker_lost"


class Severity(StrEnum):
    """The weight of a finding. A log with nothing but notes is sound."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One violation and its place.

    `position` is a byte position in `file`, or the line number (from 1) of a text file.
    """

    check: Check
    damage: Damage
    topic: str = ""
    partition: int = -1
    replica: str = ""
    file: str
    position: int | None = None
    offset: int | None = None
    expected: str
    found: str
    severity: Severity = Severity.ERROR
    more: int = 0
    """Number of further findings of its kind that this one stands for."""

    @property
    def text(self) -> str:
        """The violation in words."""
        return f"expected {self.expected}, found {self.found}"

    def counted(self, more: int) -> "Finding":
        """Return the finding, which stands for `more` of its kind."""
        if not more:
            return self
        return replace(self, found=f"{self.found}, and {more} more places", more=more)

    def __str__(self) -> str:
        place = "" if self.position is None else f" at {self.position}"
        offset = "" if self.offset is None else f", offset {self.offset}"
        return f"{self.file}: {self.damage}{place}{offset}: {self.text}"


Report = Callable[[Finding], None]
"""The receiver of a check's findings."""


class Finder:
    """Builder and reporter of one check's findings."""

    def __init__(self, check: Check, report: Report) -> None:
        self._check = check
        self._report = report

    def find(
        self,
        damage: Damage,
        file: str,
        position: int | None,
        offset: int | None,
        expected: str,
        found: str,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Report one violation."""
        self._report(
            Finding(
                check=self._check,
                damage=damage,
                file=file,
                position=position,
                offset=offset,
                expected=expected,
                found=found,
                severity=severity,
            )
        )

    def find_more(
        self,
        damage: Damage,
        file: str,
        count: int,
        expected: str,
        found: str,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Report `count` violations that are not listed one by one."""
        self._report(
            Finding(
                check=self._check,
                damage=damage,
                file=file,
                expected=expected,
                found=f"{count} {found}",
                severity=severity,
                more=count - 1,
            )
        )


def audit_failed(directory: str, error: Exception) -> Finding:
    """Return the finding for a partition whose audit ended with an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    place = "".join(f" in {each.name}, {PurePath(each.filename).name}" for each in frames[-1:])
    return Finding(
        check=Check.COVERAGE,
        damage=Damage.AUDIT_FAILED,
        file=directory,
        expected="checks that run to the end of the log",
        found=f"{type(error).__name__}: {error}{place}",
    )


def unreadable(file: str, error: OSError) -> Finding:
    """Return the finding for an unreadable file; a file deleted meanwhile is only a warning."""
    is_gone = isinstance(error, FileNotFoundError)
    return Finding(
        check=Check.BATCHES,
        damage=Damage.FILE_VANISHED if is_gone else Damage.UNREADABLE_FILE,
        file=file,
        expected="a file that can be read",
        found="a file deleted or renamed after the directory was listed"
        if is_gone
        else (error.strerror or str(error)),
        severity=Severity.WARNING if is_gone else Severity.ERROR,
    )

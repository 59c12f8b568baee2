"""Messages between the broker and a cleaner (decision).

Each message is a JSON object on one line. The broker sends the child process a job. The child
replies with a `GroupCleaned` per new segment, then one `CleaningDone` or `CleaningFailed`.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from kafkawire.ids import Offset
from storage.producers.producer_state import LastRecord


class SourceSegment(NamedTuple):
    """A segment to read; `end_offset` is the base offset of the next one."""

    base_offset: Offset
    end_offset: Offset
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningJob:
    """One round of cleaning of one log."""

    directory: str
    segments: tuple[SourceSegment, ...]
    """The segments that may be rewritten, oldest first."""
    tail: tuple[SourceSegment, ...]
    """The segments behind those, to the end of the log; only their transactions are read."""
    last_records: dict[int, LastRecord]
    """By producer id: the record whose batch must be kept to preserve the producer's state."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int
    max_bytes_per_second: float
    least_free_bytes: int = 0
    """Space that the cleaning leaves on the disk."""

    @property
    def path(self) -> Path:
        """The partition's directory."""
        return Path(self.directory)

    def to_line(self) -> str:
        """Return the job as a line of text."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> "CleaningJob":
        """Return the job that `to_line` wrote."""
        fields = json.loads(line)
        for name in ("segments", "tail"):
            fields[name] = tuple(SourceSegment(*each) for each in fields[name])
        # JSON's keys are text.
        fields["last_records"] = {
            int(producer_id): LastRecord(*each)
            for producer_id, each in fields["last_records"].items()
        }
        return cls(**fields)


@dataclass(slots=True)
class CleanerStats:
    """Amounts that one round has read and written so far."""

    map_bytes_read: int = 0
    map_records_read: int = 0
    bytes_read: int = 0
    records_read: int = 0
    bytes_written: int = 0
    records_written: int = 0
    records_without_key: int = 0
    map_size: int = 0
    map_slot_count: int = 0
    map_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCleaned:
    """A new segment is on disk as `.cleaned`, ready to replace others."""

    replaced: tuple[int, ...]
    """Base offsets of the replaced segments; the new segment has the first of these."""
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningDone:
    """The log is clean up to `end_offset` (exclusive)."""

    end_offset: int
    stats: CleanerStats = field(default_factory=CleanerStats)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningFailed:
    """The round failed; `is_damage` says that retries are pointless."""

    error: str
    is_damage: bool


Report = GroupCleaned | CleaningDone | CleaningFailed


def write_report(report: Report) -> str:
    """Return a report as a line of text."""
    return json.dumps({"type": type(report).__name__, **asdict(report)}) + "\n"


def read_report(line: str) -> Report:
    """Return the report that `write_report` wrote.

    Raises:
        ValueError: `line` is not a report.
    """
    fields = json.loads(line)
    match fields.pop("type", None):
        case "GroupCleaned":
            fields["replaced"] = tuple(fields["replaced"])
            return GroupCleaned(**fields)
        case "CleaningDone":
            return CleaningDone(
                end_offset=fields["end_offset"], stats=CleanerStats(**fields["stats"])
            )
        case "CleaningFailed":
            return CleaningFailed(**fields)
    raise ValueError(f"not a report of a cleaner: {line!r}")

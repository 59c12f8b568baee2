"""Decision: the files of one replica of a partition, and its offsets in the checkpoints."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """The files of one segment; None for a missing file."""

    base_offset: int
    log: str
    size_bytes: int
    index: str | None = None
    timeindex: str | None = None
    txnindex: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFiles:
    """One replica of one partition: its files, and its offsets in the checkpoints."""

    topic: str
    partition: int
    replica: str
    directory: str
    segments: tuple[SegmentFiles, ...] = ()
    epoch_checkpoint: str | None = None
    log_start: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None
    cleaner_point: int | None = None
    has_checkpoints: bool = False
    """Whether the log directory has readable checkpoints."""
    foreign: tuple[str, ...] = ()
    snapshots: tuple[tuple[int, str], ...] = ()
    """Offset and file of each producer snapshot; a clean stop writes one at the log end."""

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return sum(segment.size_bytes for segment in self.segments)

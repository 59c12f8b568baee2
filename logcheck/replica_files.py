"""The files of one replica of a partition, and its offsets in the checkpoints (decision).

S7: log start <= high watermark <= end, recovery point <= end, cleaner <= active segment.

The caller lists the directories, and passes a function that reads a small file.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafkawire.ids import TopicPartition
from logcheck.checkpoint_text import read_offset_checkpoint
from logcheck.file_name import (
    CLEAN_STOP,
    CLEANER_POINT,
    EPOCH_CHECKPOINT,
    HIGH_WATERMARK,
    LOG_START,
    OFFSET_CHECKPOINTS,
    PARTITION_METADATA,
    RECOVERY_POINT,
    beside,
    is_foreign,
    parse_leaving_directory,
    parse_leaving_segment,
    parse_offset_file,
    parse_partition_directory,
)
from logcheck.finding import Check, Damage, Finder, Finding, Report, Severity, unreadable

ReadBytes = Callable[[str], bytes]
"""A function that returns the contents of a small file. It raises OSError if it cannot read it."""

Checkpoints = Mapping[str, Mapping[TopicPartition, int]]
"""The offset checkpoints of a log directory, by the names of their files.

The marker of a clean stop counts as one without entries.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a directory."""

    name: str
    path: str
    is_directory: bool
    size_bytes: int


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
    metadata: str | None = None
    """File with the topic's id."""
    log_start: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None
    cleaner_point: int | None = None
    was_stopped: bool = False
    """Whether the broker has stopped cleanly, after it wrote all its files, and not started yet."""
    has_checkpoints: bool = False
    """Whether the log directory has readable checkpoints."""
    has_high_watermarks: bool = False
    """Whether one of them has high watermarks, perhaps none for this partition."""
    was_cut: bool = False
    """Whether a segment before the first one still waits for its deletion."""
    orphans: tuple[tuple[int, str], ...] = ()
    """Base offset, and a file beside it, of each segment whose own file is missing."""
    foreign: tuple[str, ...] = ()
    snapshots: tuple[tuple[int, str], ...] = ()
    """Offset and file of each producer snapshot; a clean stop writes one at the log end."""

    @property
    def first_base_offset(self) -> int:
        """Base offset of the first segment; 0 without segments."""
        return self.segments[0].base_offset if self.segments else 0

    @property
    def active_base_offset(self) -> int:
        """Base offset of the active segment, which no cleaner touches; 0 without segments."""
        return self.segments[-1].base_offset if self.segments else 0

    def committed_end(self, log_end: int) -> int:
        """Return the end of the offsets that are known to be committed, in a log to `log_end`."""
        if self.high_watermark is not None:
            return self.high_watermark
        # A checkpoint without an entry for the partition: nothing is known to be committed.
        return 0 if self.has_high_watermarks else log_end

    @property
    def recovered_from(self) -> int:
        """Base offset of the segment that holds the last offset below the recovery point."""
        bases = [each.base_offset for each in self.segments]
        return max(
            (base for base in bases if base < (self.recovery_point or 0)),
            default=self.first_base_offset,
        )

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return sum(segment.size_bytes for segment in self.segments)


def read_reported(read_bytes: ReadBytes, file: str, report: Report) -> bytes | None:
    """Return the contents of a small file; report it and return None if it cannot be read."""
    try:
        return read_bytes(file)
    except OSError as error:
        report(unreadable(file, error))
        return None


def read_checkpoints(
    entries: Iterable[Entry], read_bytes: ReadBytes, report: Report
) -> dict[str, dict[TopicPartition, int]]:
    """Return the offset checkpoints among the entries of a log directory; report their damage."""
    files = {entry.name: entry.path for entry in entries}
    checkpoints: dict[str, dict[TopicPartition, int]] = {CLEAN_STOP: {}}
    if CLEAN_STOP not in files:
        del checkpoints[CLEAN_STOP]
    for name in OFFSET_CHECKPOINTS:
        if (path := files.get(name)) is not None:
            data = read_reported(read_bytes, path, report)
            if data is not None:
                checkpoints[name] = read_offset_checkpoint(data, path, report)
    return checkpoints


def missing_partitions(
    checkpoints: Checkpoints,
    directories: Collection[str],
    place_of: Callable[[str], str],
) -> Iterator[Finding]:
    """Yield a finding for each entry of a partition that is not among the `directories`.

    A live broker moves, creates and deletes partitions: the directories are those before and after
    the checkpoints were read.

    For a high watermark it is a note: Kafka rewrites that file every few seconds, and not when it
    deletes a partition. So it is if one of the `directories` is a partition that the broker has
    renamed to delete it, and died or was copied before it dropped the other entries.
    """
    present = {parse_partition_directory(name) for name in directories}
    leaving = {parse_leaving_directory(name) for name in directories}
    if CLEAN_STOP in checkpoints:
        leaving.clear()
    for file, offsets in checkpoints.items():
        for partition in sorted(offsets.keys() - present):
            yield Finding(
                check=Check.CHECKPOINTS,
                damage=Damage.PARTITION_MISSING,
                topic=partition.topic,
                partition=partition.partition,
                file=place_of(file),
                offset=offsets[partition],
                expected=f"a directory {partition}",
                found="none; the next start drops the entry",
                severity=Severity.NOTE
                if file == HIGH_WATERMARK or partition in leaving
                else Severity.ERROR,
            )


def replica_files(
    partition: TopicPartition | None,
    root: str,
    directory: str,
    entries: Sequence[Entry],
    checkpoints: Checkpoints,
) -> ReplicaFiles:
    """Return the files among the entries of the partition directory `directory` in `root`."""
    files: dict[int, dict[str, Entry]] = defaultdict(dict)
    for entry in entries:
        name = parse_offset_file(entry.name)
        if name is not None:
            files[name.base_offset][name.suffix] = entry
    by_offset = sorted(files.items())
    segments = tuple(_segment(base, kinds) for base, kinds in by_offset if "log" in kinds)
    leaving = {parse_leaving_segment(entry.name) for entry in entries}
    paths = {entry.name: entry.path for entry in entries}

    def offset(file: str) -> int | None:
        return None if partition is None else checkpoints.get(file, {}).get(partition)

    return ReplicaFiles(
        topic="" if partition is None else partition.topic,
        partition=-1 if partition is None else partition.partition,
        replica=root,
        directory=directory,
        segments=segments,
        epoch_checkpoint=paths.get(EPOCH_CHECKPOINT),
        metadata=paths.get(PARTITION_METADATA),
        snapshots=tuple(
            (base, kinds["snapshot"].path) for base, kinds in by_offset if "snapshot" in kinds
        ),
        log_start=offset(LOG_START),
        recovery_point=offset(RECOVERY_POINT),
        high_watermark=offset(HIGH_WATERMARK),
        cleaner_point=offset(CLEANER_POINT),
        was_stopped=CLEAN_STOP in checkpoints,
        has_checkpoints=bool(checkpoints.keys() - {CLEAN_STOP}),
        has_high_watermarks=HIGH_WATERMARK in checkpoints,
        was_cut=bool(segments)
        and any(base is not None and base < segments[0].base_offset for base in leaving),
        orphans=tuple(
            (base, kinds[suffix].path)
            for base, kinds in by_offset
            if "log" not in kinds and base not in leaving
            for suffix in [min(kinds)]
            if suffix != "snapshot"
        ),
        foreign=tuple(
            entry.name for entry in entries if entry.is_directory or is_foreign(entry.name)
        ),
    )


def _segment(base_offset: int, kinds: Mapping[str, Entry]) -> SegmentFiles:
    paths = {suffix: entry.path for suffix, entry in kinds.items()}
    return SegmentFiles(
        base_offset=base_offset,
        log=paths["log"],
        size_bytes=kinds["log"].size_bytes,
        index=paths.get("index"),
        timeindex=paths.get("timeindex"),
        txnindex=paths.get("txnindex"),
    )


def report_foreign(replica: ReplicaFiles, place_of: Callable[[str], str], report: Report) -> None:
    """Report each file that no broker creates; `place_of` returns the path of a file's name."""
    find = Finder(Check.CHECKPOINTS, report).find
    expected, found = "only files of a log", "a file name that no broker uses"
    for name in replica.foreign:
        find(Damage.FOREIGN_FILE, place_of(name), None, None, expected, found)


def report_orphans(replica: ReplicaFiles, is_file: Callable[[str], bool], report: Report) -> None:
    """Report each segment that is missing although one of its indexes is there.

    A broker renames a segment before its indexes to delete it, and removes indexes without a
    segment when it starts. Only a second death, during that start, can leave an index alone.
    `is_file` looks again: a live broker changes the directory while it is listed.
    """
    severity = Severity.ERROR if replica.was_stopped else Severity.WARNING
    find = Finder(Check.OFFSETS, report).find
    expected, found = "a segment beside the index", "none"
    for base_offset, file in replica.orphans:
        if is_file(file) and not is_file(beside(file, ".log")):
            find(Damage.SEGMENT_MISSING, file, None, base_offset, expected, found, severity)


def check_checkpoints(
    replica: ReplicaFiles,
    log_end: int,
    certainty: Severity,
    place_of: Callable[[str], str],
    report: Report,
) -> None:
    """Report checkpoints of one replica that contradict its log or each other.

    `certainty` says that none may lie beyond the log end. `place_of` returns the path of a
    checkpoint file.
    """

    finder = Finder(Check.CHECKPOINTS, report)

    def find(file: str, offset: int, expected: str, severity: Severity) -> None:
        place = place_of(file), None, offset
        finder.find(Damage.CHECKPOINT_BEYOND, *place, expected, str(offset), severity)

    for file, offset in (
        (LOG_START, replica.log_start),
        (RECOVERY_POINT, replica.recovery_point),
        (HIGH_WATERMARK, replica.high_watermark),
    ):
        if offset is not None and offset > log_end:
            find(file, offset, f"at most the log end offset {log_end}", certainty)
    start, watermark = replica.log_start or 0, replica.high_watermark
    if watermark is not None and watermark < min(start, log_end):
        # Each is written at times of its own. A start takes the higher one.
        expected = f"at least the log start offset {start}"
        find(HIGH_WATERMARK, watermark, expected, Severity.NOTE)
    active_base = replica.segments[-1].base_offset if replica.segments else log_end
    point = replica.cleaner_point
    if point is not None and point > max(active_base, start):
        expected = f"at most the active segment's base offset {active_base}"
        # Kafka raises it to the log start, whose own checkpoint is written later. A follower that
        # was killed while it emptied its log has lowered no checkpoint yet.
        may_be_start = point <= log_end and not replica.was_stopped
        severity = Severity.NOTE if may_be_start else Severity.WARNING
        find(CLEANER_POINT, point, expected, severity)

"""Checks whole log directories, partition by partition. Edge: lists and opens their files.

Checkpoints are read first, then the indexes of a segment, then the segment: a broker that writes
meanwhile makes what is read later longer, never shorter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kafkawire.ids import TopicPartition
from ottla.cli.logs.checkpoint_check import read_epoch_checkpoint, read_offset_checkpoint
from ottla.cli.logs.dump import dump_index, dump_segment
from ottla.cli.logs.dump_files import dump_file, is_active
from ottla.cli.logs.file_name import parse_file_name
from ottla.cli.logs.file_source import FileSource
from ottla.cli.logs.finding import Damage, Finding
from ottla.cli.logs.item import BatchItem, FindingItem, Item, Summary
from ottla.cli.logs.partition_check import (
    Checkpoints,
    SegmentExtent,
    check_checkpoints,
    check_epochs,
    check_order,
)
from ottla.cli.logs.picture import SegmentPicture

DELETED_SUFFIX: Final = "-delete"
INDEX_SUFFIXES: Final = (".index", ".timeindex")
EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
CHECKPOINT_FILES: Final = {
    "log_start_offset": "log-start-offset-checkpoint",
    "recovery_point": "recovery-point-offset-checkpoint",
    "high_watermark": "replication-offset-checkpoint",
}


@dataclass(slots=True)
class PartitionResult:
    """What was found in one partition's directory."""

    directory: Path
    segment_count: int = 0
    batch_count: int = 0
    record_count: int = 0
    first_offset: int | None = None
    log_end_offset: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.directory.name

    def report(self, finding: Finding) -> None:
        self.findings.append(finding)

    def note(self, item: Item) -> None:
        """Take over what a file's dump found and counted."""
        if isinstance(item, FindingItem):
            self.report(item.finding)
        elif isinstance(item, Summary):
            self.batch_count += item.counts.get("batch", 0)
            self.record_count += item.counts.get("record", 0)
            if self.first_offset is None:
                self.first_offset = item.first_offset

    def forgive_tail(self, last_segment: str) -> None:
        """Make notes of the findings about the unfinished end of `last_segment`."""
        tails = (Damage.TORN_TAIL, Damage.ZERO_TAIL)
        self.notes += [f for f in self.findings if f.file == last_segment and f.damage in tails]
        self.findings = [finding for finding in self.findings if finding not in self.notes]


@dataclass(frozen=True, slots=True)
class LogDirectoryCheckpoints:
    """The offset checkpoints of a log directory, by what they are called here."""

    offsets: Mapping[str, Mapping[TopicPartition, int]]
    files: Mapping[str, str]
    findings: list[Finding]

    def of(self, partition: TopicPartition | None) -> Checkpoints:
        if partition is None:
            return Checkpoints()
        return Checkpoints(**{name: rows.get(partition) for name, rows in self.offsets.items()})


def verify_directory(directory: Path, *, with_records: bool) -> list[PartitionResult]:
    """Return a result per partition; what is wrong with the checkpoints is a result of its own."""
    partitions = partition_directories(directory)
    log_directory = directory.parent if partitions == [directory] else directory
    checkpoints = read_checkpoints(log_directory)
    results = [
        verify_partition(partition, checkpoints, with_records=with_records)
        for partition in partitions
    ]
    if checkpoints.findings:
        results.append(PartitionResult(log_directory, findings=checkpoints.findings))
    return results


def partition_directories(directory: Path) -> list[Path]:
    """Return the partitions in `directory`: itself, if it holds segments, or those below it."""
    if any(directory.glob("*.log")):
        return [directory]
    return sorted(
        path
        for path in directory.iterdir()
        if path.is_dir() and not path.name.endswith(DELETED_SUFFIX) and any(path.glob("*.log"))
    )


def read_checkpoints(log_directory: Path) -> LogDirectoryCheckpoints:
    """Return the offset checkpoints in `log_directory`, those that are there."""
    findings: list[Finding] = []
    paths = {name: log_directory / file for name, file in CHECKPOINT_FILES.items()}
    offsets = {
        name: read_offset_checkpoint(_text(path), str(path), findings.append)
        for name, path in paths.items()
        if path.exists()
    }
    return LogDirectoryCheckpoints(
        offsets, {name: str(path) for name, path in paths.items()}, findings
    )


def verify_partition(
    directory: Path, checkpoints: LogDirectoryCheckpoints, *, with_records: bool
) -> PartitionResult:
    """Return all that is inconsistent in one partition's directory.

    A torn tail beyond the recovery point is what a crash leaves and recovery cuts: a note.
    """
    result = PartitionResult(directory)
    segments = sorted(directory.glob("*.log"))
    extents = [_verify_segment(path, result, with_records=with_records) for path in segments]
    result.segment_count = len(extents)
    result.log_end_offset = extents[-1].next_offset
    check_order(extents, result.report)
    epoch_file = directory / EPOCH_CHECKPOINT
    if epoch_file.exists():
        epochs = read_epoch_checkpoint(_text(epoch_file), str(epoch_file), result.report)
        check_epochs(extents, epochs, str(epoch_file), result.report)
    for path in sorted(directory.glob("*.snapshot")):
        if (items := dump_file(path, with_records=False)) is not None:
            for item in items:
                result.note(item)
    own = checkpoints.of(_partition_of(directory.name))
    check_checkpoints(own, result.log_end_offset, checkpoints.files, result.report)
    if (own.recovery_point or 0) <= result.log_end_offset:
        result.forgive_tail(str(segments[-1]))
    return result


def _verify_segment(path: Path, result: PartitionResult, *, with_records: bool) -> SegmentExtent:
    may_grow = is_active(path)
    indexes = {suffix: _read_index(path.with_suffix(suffix), result) for suffix in INDEX_SUFFIXES}
    extent, picture = _walk_segment(path, result, with_records=with_records)
    for suffix, data in indexes.items():
        file = path.with_suffix(suffix)
        name = parse_file_name(file.name)
        if name is not None and data is not None:
            for item in dump_index(data, str(file), name, picture, is_active=may_grow):
                result.note(item)
    return extent


def _walk_segment(
    path: Path, result: PartitionResult, *, with_records: bool
) -> tuple[SegmentExtent, SegmentPicture]:
    name = parse_file_name(path.name)
    assert name is not None, "the glob matches segments only"
    base_offset = name.base_offset or 0
    extent, picture = SegmentExtent(str(path), base_offset, base_offset), SegmentPicture()
    with FileSource(path) as source:
        for item in dump_segment(source, str(path), name, with_records=with_records):
            result.note(item)
            if isinstance(item, BatchItem):
                if item.is_intact:
                    extent.add(item.header)
                picture.add(item.position, item.header)
    return extent, picture


def _read_index(path: Path, result: PartitionResult) -> bytes | None:
    if path.exists():
        return path.read_bytes()
    text = "the segment has no such index; a broker rebuilds it when it starts"
    result.report(Finding(damage=Damage.MISSING_FILE, file=str(path), position=0, text=text))
    return None


def _partition_of(directory_name: str) -> TopicPartition | None:
    topic, separator, number = directory_name.rpartition("-")
    return TopicPartition(topic, int(number)) if separator and number.isdecimal() else None


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")

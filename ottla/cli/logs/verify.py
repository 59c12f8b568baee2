"""Checks whole log directories, partition by partition. Edge: lists and opens their files.

It reads the checkpoints first, then the indexes of a segment, then the segment. Appends of a
running broker in between make the later files longer, never shorter.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkawire.ids import TopicPartition
from ottla.cli.logs.checkpoint_check import read_epoch_checkpoint, read_offset_checkpoint
from ottla.cli.logs.dump import dump_index, dump_segment, dump_snapshot
from ottla.cli.logs.dump_files import is_active
from ottla.cli.logs.file_name import parse_file_name
from ottla.cli.logs.file_source import FileSource
from ottla.cli.logs.finding import Damage, Finding
from ottla.cli.logs.item import BatchItem, FindingItem
from ottla.cli.logs.partition_check import (
    Checkpoints,
    SegmentExtent,
    check_checkpoints,
    check_epochs,
    check_gaps,
    check_order,
    cleaned_end,
)
from ottla.cli.logs.partition_result import TAILS, PartitionResult
from ottla.cli.logs.picture import SegmentBatches
from ottla.cli.logs.replica_check import ReplicaBatches, check_replicas

__all__ = ["PartitionResult", "VerifyOptions", "verify_directories", "verify_directory"]

SEGMENTS: Final = "[0-9]*.log"
DELETED_SUFFIX: Final = "-delete"
INDEX_SUFFIXES: Final = (".index", ".timeindex")
EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
HIGH_WATERMARK: Final = "high_watermark"
CHECKPOINT_FILES: Final = {
    "log_start_offset": "log-start-offset-checkpoint",
    "recovery_point": "recovery-point-offset-checkpoint",
    HIGH_WATERMARK: "replication-offset-checkpoint",
    "cleaner_point": "cleaner-offset-checkpoint",
}

Progress = Callable[[int], None]
"""Callback with the number of segment bytes checked since its last call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """Depth and strictness of a verification."""

    with_records: bool = False
    strict_indexes: bool = False
    """Whether indexes of the shape of Kafka up to 3.9.0 are findings."""
    on_progress: Progress = lambda _size_bytes: None


@dataclass(frozen=True, slots=True)
class LogDirectoryCheckpoints:
    """Offset checkpoints of a log directory, keyed by the field names of `Checkpoints`."""

    offsets: Mapping[str, Mapping[TopicPartition, int]]
    files: Mapping[str, str]
    findings: list[Finding]
    notes: list[Finding]

    def of(self, partition: TopicPartition | None) -> Checkpoints:
        """Return the checkpoints of one partition; all are None without a partition."""
        if partition is None:
            return Checkpoints()
        return Checkpoints(**{name: rows.get(partition) for name, rows in self.offsets.items()})

    def check_directories(self, present: set[TopicPartition]) -> None:
        """Report entries of partitions without a directory; in the high watermarks, only note."""
        for name, rows in self.offsets.items():
            for partition in rows.keys() - present:
                text = f"{partition} has no directory; the next start drops the entry"
                finding = Finding(
                    damage=Damage.MISSING_DIRECTORY, file=self.files[name], position=0, text=text
                )
                # High watermarks are written periodically, also after a partition was deleted.
                (self.notes if name == HIGH_WATERMARK else self.findings).append(finding)


def verify_directories(
    directories: Iterable[Path], options: VerifyOptions = VerifyOptions()
) -> list[PartitionResult]:
    """Return a result per partition of all directories; compare replicas of one partition."""
    directories = list(directories)
    names = [path.name for each in directories for path in partition_directories(each)]
    shared = {name for name in names if names.count(name) > 1}
    results = [
        result for each in directories for result in _verify_directory(each, options, shared)
    ]
    for name in sorted(shared):
        compare_replicas([result for result in results if result.name == name])
    return [result.without_batches() for result in results]


def verify_directory(directory: Path, *, with_records: bool) -> list[PartitionResult]:
    """Return a result per partition, and one for the checkpoints if they have findings."""
    return verify_directories([directory], VerifyOptions(with_records=with_records))


def _verify_directory(
    directory: Path, options: VerifyOptions, shared: set[str]
) -> list[PartitionResult]:
    partitions = partition_directories(directory)
    is_single = partitions == [directory]
    log_directory = directory.parent if is_single else directory
    checkpoints = read_checkpoints(log_directory)
    if not is_single:
        checkpoints.check_directories(_present(directory))
    results = [
        verify_partition(path, checkpoints, options, is_compared=path.name in shared)
        for path in partitions
    ]
    if any(_lacks_offsets(result) for result in results):
        # A running broker may have cleaned a log for the first time since the checkpoints
        # were read.
        later = read_checkpoints(log_directory)
        results = [
            verify_partition(result.directory, later, options, is_compared=result.name in shared)
            if _lacks_offsets(result)
            else result
            for result in results
        ]
    if checkpoints.findings or checkpoints.notes:
        results.append(
            PartitionResult(log_directory, findings=checkpoints.findings, notes=checkpoints.notes)
        )
    return results


def _lacks_offsets(result: PartitionResult) -> bool:
    return any(finding.damage is Damage.MISSING_OFFSETS for finding in result.findings)


def partition_directories(directory: Path) -> list[Path]:
    """Return the partition directories in `directory`, or `directory` itself if it has segments."""
    if any(directory.glob(SEGMENTS)):
        return [directory]
    return sorted(
        path
        for path in directory.iterdir()
        if path.is_dir() and not path.name.endswith(DELETED_SUFFIX) and any(path.glob(SEGMENTS))
    )


def segment_bytes(directories: Iterable[Path]) -> int:
    """Return the total size of the segments to check."""
    return sum(
        file.stat().st_size
        for directory in directories
        for path in partition_directories(directory)
        for file in path.glob("*.log")
    )


def read_checkpoints(log_directory: Path) -> LogDirectoryCheckpoints:
    """Return the existing offset checkpoints of `log_directory`."""
    findings: list[Finding] = []
    paths = {name: log_directory / file for name, file in CHECKPOINT_FILES.items()}
    offsets = {
        name: read_offset_checkpoint(_text(path), str(path), findings.append)
        for name, path in paths.items()
        if path.exists()
    }
    files = {name: str(path) for name, path in paths.items()}
    return LogDirectoryCheckpoints(offsets, files, findings, [])


def verify_partition(
    directory: Path,
    checkpoints: LogDirectoryCheckpoints,
    options: VerifyOptions = VerifyOptions(),
    *,
    is_compared: bool = False,
) -> PartitionResult:
    """Return the inconsistencies of one partition directory.

    A torn tail beyond the recovery point is only a note: a crash leaves it, and recovery cuts it.
    """
    partition = _partition_of(directory.name)
    result = PartitionResult(directory, partition, checkpoints=checkpoints.of(partition))
    if is_compared:
        result.batches = ReplicaBatches(str(directory))
    segments = sorted(directory.glob("*.log"))
    extents = [_verify_segment(path, result, options) for path in segments]
    for path in sorted(directory.glob("*.snapshot")):
        _verify_snapshot(path, result)
    result.segment_count = len(extents)
    result.log_end_offset = extents[-1].next_offset
    check_order(extents, result.report)
    check_gaps(extents, result.checkpoints.cleaner_point, result.report, result.notes.append)
    result.cleaned_end = cleaned_end(extents, result.checkpoints.cleaner_point)
    epoch_file = directory / EPOCH_CHECKPOINT
    if epoch_file.exists():
        epochs = read_epoch_checkpoint(_text(epoch_file), str(epoch_file), result.report)
        check_epochs(extents, epochs, str(epoch_file), result.report)
    check_checkpoints(result.checkpoints, extents, checkpoints.files, result.report)
    if (result.checkpoints.recovery_point or 0) <= result.log_end_offset:
        result.demote_tail(str(segments[-1]))
    return result


def compare_replicas(results: Sequence[PartitionResult]) -> None:
    """Report the differences of each replica from the previous one in the later one's result."""
    ends = [
        result.log_end_offset
        if result.checkpoints.high_watermark is None
        else result.checkpoints.high_watermark
        for result in results
    ]
    starts = [
        max(
            result.first_offset or 0,
            result.checkpoints.log_start_offset or 0,
            # Each replica is cleaned by its own broker.
            result.cleaned_end,
        )
        for result in results
    ]
    batches = [result.batches for result in results if result.batches is not None]
    by_file = {each.file: result for each, result in zip(batches, results, strict=True)}
    check_replicas(
        batches, max(starts), min(ends), lambda finding: by_file[finding.file].report(finding)
    )


def _verify_segment(path: Path, result: PartitionResult, options: VerifyOptions) -> SegmentExtent:
    may_grow = is_active(path)
    indexes = {suffix: _read_index(path.with_suffix(suffix), result) for suffix in INDEX_SUFFIXES}
    extent, batches = _walk_segment(path, result, options)
    for suffix, data in indexes.items():
        file = path.with_suffix(suffix)
        name = parse_file_name(file.name)
        if name is not None and data is not None:
            for item in dump_index(data, str(file), name, batches, is_active=may_grow):
                result.note(item, strict_indexes=options.strict_indexes)
    return extent


def _walk_segment(
    path: Path, result: PartitionResult, options: VerifyOptions
) -> tuple[SegmentExtent, SegmentBatches]:
    name = parse_file_name(path.name)
    assert name is not None, "the glob matches segments only"
    base_offset = name.base_offset or 0
    extent, batches = SegmentExtent(str(path), base_offset, base_offset), SegmentBatches()
    with FileSource(path) as source:
        items = dump_segment(
            source, str(path), name, with_records=options.with_records, yields_records=False
        )
        for item in items:
            result.note(item)
            if isinstance(item, FindingItem):
                extent.is_damaged |= item.finding.damage not in TAILS
            elif isinstance(item, BatchItem):
                if item.is_intact:
                    extent.add(item.position, item.header)
                batches.add(item.position, item.header)
                if result.batches is not None:
                    result.batches.add(item.header)
                options.on_progress(item.header.size_bytes)
    return extent, batches


def _verify_snapshot(path: Path, result: PartitionResult) -> None:
    name = parse_file_name(path.name)
    if name is not None:
        for item in dump_snapshot(path.read_bytes(), str(path), name):
            if isinstance(item, FindingItem):
                result.report(item.finding)


def _read_index(path: Path, result: PartitionResult) -> bytes | None:
    if path.exists():
        return path.read_bytes()
    text = "the segment lacks this index; a broker rebuilds it at its start"
    result.report(Finding(damage=Damage.MISSING_FILE, file=str(path), position=0, text=text))
    return None


def _present(log_directory: Path) -> set[TopicPartition]:
    """Return the partitions with a directory, even a directory without segments."""
    names = (path.name for path in log_directory.iterdir() if path.is_dir())
    return {partition for name in names if (partition := _partition_of(name)) is not None}


def _partition_of(directory_name: str) -> TopicPartition | None:
    topic, separator, number = directory_name.rpartition("-")
    return TopicPartition(topic, int(number)) if separator and number.isdecimal() else None


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")

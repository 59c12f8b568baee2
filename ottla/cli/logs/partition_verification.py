"""Verifies one partition directory. Edge: lists and opens its files.

It reads the indexes of a segment, then the segment. Appends of a running broker in between make the
later files longer, never shorter.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kafkawire.columns_loops import SoundBatch
from kafkawire.ids import TopicPartition
from logcheck.batch_digest import BatchDigest
from logcheck.checkpoint_check import check_checkpoints
from logcheck.checkpoint_text import read_epoch_checkpoint
from logcheck.file_name import (
    CLEANER_POINT,
    EPOCH_CHECKPOINT,
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    parse_offset_file,
    parse_partition_directory,
)
from logcheck.finding import Check, Damage, Finding, Report, Severity
from logcheck.index_files import IndexFiles
from logcheck.log_scan import LogScan
from logcheck.log_view import Observer
from logcheck.offset_index_check import PER_APPEND
from logcheck.producer_snapshot_bytes import read_producer_snapshot
from logcheck.replica_files import ReplicaFiles, SegmentFiles
from ottla.cli.logs.cleaned_part import CleanedPart, CleanerTraces, is_gap
from ottla.cli.logs.directory_checkpoints import LogDirectoryCheckpoints
from ottla.cli.logs.dump import foreign_file
from ottla.cli.logs.file_source import FileSource, read_bytes, read_text
from ottla.cli.logs.partition_result import ComparedReplica, PartitionResult

TAILS: Final = (Damage.TORN_TAIL, Damage.ZERO_TAIL)

Progress = Callable[[int], None]
"""Callback with the number of segment bytes checked since its last call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """Depth and strictness of a verification."""

    with_records: bool = False
    strict_indexes: bool = False
    """Whether indexes of the shape of Kafka up to 3.9.0 are findings."""
    on_progress: Progress = lambda _size_bytes: None


def verify_partition(
    directory: Path,
    checkpoints: LogDirectoryCheckpoints,
    options: VerifyOptions,
    *,
    is_compared: bool = False,
) -> PartitionResult:
    """Return the inconsistencies of one partition directory.

    A torn tail beyond the recovery point is only a note: a crash leaves it, and recovery cuts it.
    """
    partition = parse_partition_directory(directory.name)
    result = PartitionResult(directory, partition)
    reported: list[Finding] = []
    report = reported.append
    files = _replica_files(directory, partition, checkpoints, report)
    # Read before the log, so that no entry can lie beyond the end of the log as read.
    begun = {(epoch, start) for _, epoch, start in _read_epochs(directory, lambda _: None)}
    scan = LogScan(files, report, FileSource, with_records=options.with_records, allows_gaps=False)
    indexes, traces = IndexFiles(report, read_bytes), CleanerTraces()
    observers: list[Observer] = [traces, _ProgressObserver(options.on_progress)]
    if is_compared:
        digest = BatchDigest(0)
        result.replica = ComparedReplica(files, digest, scan.is_damaged)
        observers.append(digest)
    # Listed before the scan: a broker may be writing a newer one.
    snapshots = sorted(directory.glob("*.snapshot"))
    scan.run(observers, indexes)
    for path in snapshots:
        # A broker deletes old snapshots meanwhile.
        with suppress(FileNotFoundError):
            read_producer_snapshot(path.read_bytes(), str(path), report)
    _check_whole(scan, checkpoints, begun, report)
    cleaned = CleanedPart(files.cleaner_point, scan.segments, traces)
    result.cleaned_end = cleaned.end([each for each in reported if is_gap(each)])
    judged = [cleaned.judge_gap(each) if is_gap(each) else each for each in reported]
    may_be_torn = (files.recovery_point or 0) <= scan.log_end_offset
    result.reported = [
        each if may_be_torn or each.damage not in TAILS else replace(each, severity=Severity.ERROR)
        for each in judged
        if each is not None and not _was_created_meanwhile(each)
    ]
    _count(result, scan, indexes, options)
    return result


def _was_created_meanwhile(finding: Finding) -> bool:
    """Whether the finding is an index that a broker created after the directory was listed."""
    return finding.damage is Damage.INDEX_MISSING and Path(finding.file).exists()


class _ProgressObserver:
    """An observer that passes the size of each batch on."""

    def __init__(self, on_progress: Progress) -> None:
        self._on_progress = on_progress

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        self._on_progress(batch.header.size_bytes)


def _count(
    result: PartitionResult, scan: LogScan, indexes: IndexFiles, options: VerifyOptions
) -> None:
    result.segment_count = len(scan.segments)
    result.batch_count, result.record_count = scan.batch_count, scan.record_count
    firsts = (columns.base_offsets[0] for columns in scan.segments if columns.base_offsets)
    result.first_offset = next(firsts, None)
    result.log_end_offset = scan.log_end_offset
    result.index_shapes = Counter(indexes.shapes.values())
    if options.strict_indexes:
        old = [file for file, shape in indexes.shapes.items() if shape == PER_APPEND]
        result.reported += map(_old_shape, old)


def _check_whole(
    scan: LogScan,
    checkpoints: LogDirectoryCheckpoints,
    begun: set[tuple[int, int]],
    report: Report,
) -> None:
    directory, end = Path(scan.files.directory), scan.log_end_offset
    is_end_known = not scan.is_damaged(end)
    if scan.segments and is_end_known:
        check_checkpoints(scan.files, end, checkpoints.place_of, report)
    # Read again after the log: a broker writes the epoch entry before its first batch.
    epochs = _read_epochs(directory, report)
    begun = begun if is_end_known else set()
    scan.epochs.conclude(epochs, str(directory / EPOCH_CHECKPOINT), end, begun=begun)


def _read_epochs(directory: Path, report: Report) -> list[tuple[int, int, int]]:
    path = directory / EPOCH_CHECKPOINT
    return read_epoch_checkpoint(read_text(path), str(path), report) if path.exists() else []


def _old_shape(file: str) -> Finding:
    return Finding(
        check=Check.OFFSET_INDEX,
        damage=Damage.OLD_INDEX_SHAPE,
        file=file,
        position=0,
        expected="entries that name the last offset of the batch at their position",
        found="one entry per append, as Kafka up to 3.9.0 writes them",
    )


def _replica_files(
    directory: Path,
    partition: TopicPartition | None,
    checkpoints: LogDirectoryCheckpoints,
    report: Report,
) -> ReplicaFiles:
    segments = []
    for path in sorted(directory.glob("*.log")):
        name = parse_offset_file(path.name)
        if name is None:
            report(foreign_file(str(path)))
            continue
        segments.append(
            SegmentFiles(
                base_offset=name.base_offset,
                log=str(path),
                size_bytes=0,
                index=_existing(path.with_suffix(".index")),
                timeindex=_existing(path.with_suffix(".timeindex")),
            )
        )
    return ReplicaFiles(
        topic="" if partition is None else partition.topic,
        partition=-1 if partition is None else partition.partition,
        replica=str(directory.parent),
        directory=str(directory),
        segments=tuple(segments),
        log_start=checkpoints.offset_in(LOG_START, partition),
        recovery_point=checkpoints.offset_in(RECOVERY_POINT, partition),
        high_watermark=checkpoints.offset_in(HIGH_WATERMARK, partition),
        cleaner_point=checkpoints.offset_in(CLEANER_POINT, partition),
    )


def _existing(path: Path) -> str | None:
    return str(path) if path.exists() else None

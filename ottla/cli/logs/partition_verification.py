"""Verifies one partition directory (edge).

It reads the indexes of a segment, then the segment. Appends of a running broker in between make the
later files longer, never shorter. Cleaning and retention replace and delete files: findings of a
pass over files that are gone do not count, and the partition is read again.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kafkawire.columns_loops import SoundBatch
from logcheck.batch_digest import BatchDigest
from logcheck.epoch_check import EpochCheckpoint
from logcheck.file_name import parse_partition_directory
from logcheck.finding import Check, Damage, Finder, Finding, Report, Severity
from logcheck.finding_list import FindingList
from logcheck.history import history_of
from logcheck.index_files import IndexFiles
from logcheck.local_file import FileSource, inodes, list_directory, read_bytes, states_in
from logcheck.log_scan import LogScan
from logcheck.log_view import LogCheck, Observer
from logcheck.offset_index_check import PER_APPEND
from logcheck.producer_batches import ProducerBatches
from logcheck.producer_files import producer_check, transaction_check
from logcheck.replica import Replica
from logcheck.replica_files import (
    Checkpoints,
    ReplicaFiles,
    check_checkpoints,
    replica_files,
    report_foreign,
    report_orphans,
)
from logcheck.rule import Rules
from logcheck.snapshot_check import read_whole
from logcheck.topic_id import read_topic_id
from logcheck.unfinished_swap import finish_swap
from ottla.cli.logs.partition_result import PartitionResult

TAILS: Final = (Damage.TORN_TAIL, Damage.ZERO_TAIL)
# A live log seldom loses files during two passes in a row.
MAX_PASSES: Final = 10

Progress = Callable[[int], None]
"""Callback with the number of segment bytes checked since its last call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """Depth and strictness of a verification."""

    with_records: bool = False
    rules: Rules = field(default_factory=Rules)
    strict_indexes: bool = False
    """Whether indexes of the shape of Kafka up to 3.9.0 are findings."""
    on_progress: Progress = lambda _size_bytes: None


def verify_partition(
    directory: Path,
    checkpoints: Checkpoints,
    options: VerifyOptions,
    *,
    is_compared: bool = False,
) -> PartitionResult:
    """Return the inconsistencies of one partition directory.

    A torn tail beyond the recovery point is only a note: a crash leaves it, and recovery cuts it.
    A directory that a live broker deletes or moves meanwhile has none.
    """
    for number in range(MAX_PASSES):
        before = states_in(directory)
        result = _read_once(directory, checkpoints, options, is_compared=is_compared)
        after = states_in(directory)
        # A follower truncates its log in place; without a second look, older entries of an index
        # would be compared with newer batches.
        is_due = number == 0 and before != after and bool(result.findings)
        if not is_due and (not result.reported or inodes(before) <= inodes(after)):
            break
    if not directory.exists():
        return PartitionResult(directory, parse_partition_directory(directory.name))
    return result


def _read_once(
    directory: Path,
    checkpoints: Checkpoints,
    options: VerifyOptions,
    *,
    is_compared: bool,
) -> PartitionResult:
    partition = parse_partition_directory(directory.name)
    result = PartitionResult(directory, partition)
    # Listed before the scan: a broker may be writing newer files. It may also have moved the
    # directory away to delete it.
    entries = list_directory(directory) if directory.exists() else []
    entries = finish_swap(entries, FileSource)
    files = replica_files(partition, str(directory.parent), str(directory), entries, checkpoints)
    rules = options.rules.of_topic(files.topic)
    reported = FindingList(files, rules.finding_limit)
    report = reported.report
    read_topic_id(read_bytes, files.metadata, report)
    report_foreign(files, lambda name: str(directory / name), report)
    report_orphans(files, lambda file: Path(file).exists(), report)
    epochs = EpochCheckpoint(files.epoch_checkpoint, read_bytes, report)
    history = history_of(files, rules.cleanup_policy)
    scan = LogScan(files, report, FileSource, history=history, with_records=options.with_records)
    indexes = IndexFiles(report, read_bytes)
    observers: list[Observer] = [_ProgressObserver(options.on_progress)]
    if is_compared:
        digest = BatchDigest(0)
        result.compared = FindingList(files, rules.finding_limit)
        result.replica = Replica(scan, digest, ProducerBatches(), result.compared.report)
        observers += [digest, result.replica.producers]
    checks = _producer_checks(scan, rules, report) if options.with_records else []
    scan.run([*observers, *checks], indexes)
    for check in checks:
        check.conclude(scan)
    if not checks:
        _check_snapshots(files, report)
    end = scan.log_end_offset
    is_end_known = not scan.is_damaged(end)
    if is_end_known:
        place_of = directory.parent.joinpath
        check_checkpoints(files, end, history.beyond(end), lambda file: str(place_of(file)), report)
    epochs.conclude(scan.epochs, end, history, is_end_known=is_end_known)
    may_be_torn = (files.recovery_point or 0) <= end
    judged = (_judge(each, may_be_torn=may_be_torn) for each in reported.rows())
    result.reported = [each for each in judged if each is not None]
    _count(result, scan, indexes, options)
    return result


def _producer_checks(scan: LogScan, rules: Rules, report: Report) -> list[LogCheck]:
    place = scan, read_bytes, rules, report
    return [producer_check(*place), transaction_check(*place)]


def _check_snapshots(files: ReplicaFiles, report: Report) -> None:
    """Check the form of the producer snapshots, without the log."""
    history = history_of(files)
    for offset, file in files.snapshots:
        # A broker deletes old snapshots meanwhile.
        with suppress(FileNotFoundError):
            read_whole(offset, file, read_bytes(file), history, report)


def _judge(finding: Finding, *, may_be_torn: bool) -> Finding | None:
    """Return the finding with its severity; None if a live broker explains it."""
    # A new segment may be preallocated, and be the only one after a truncation of all others.
    is_new = finding.damage is Damage.ZERO_TAIL and finding.position == 0
    if finding.damage in TAILS and not (may_be_torn or is_new):
        return replace(finding, severity=Severity.ERROR)
    # A broker may have created the index after the directory was listed.
    is_there = finding.damage is Damage.INDEX_MISSING and Path(finding.file).exists()
    return None if is_there else finding


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
        find = Finder(Check.OFFSET_INDEX, result.reported.append).find
        expected = "entries that name the last offset of the batch at their position"
        found = "one entry per append, as Kafka up to 3.9.0 writes them"
        for file, shape in indexes.shapes.items():
            if shape == PER_APPEND:
                find(Damage.OLD_INDEX_SHAPE, file, 0, None, expected, found)

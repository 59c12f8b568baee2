"""S12 and S13 of one replica, with its producer snapshots and transaction indexes (composition).

The files are read before the log: if a broker writes meanwhile, the log has only more batches.
"""

from itertools import pairwise

from logcheck.epoch_check import first_epoch_start
from logcheck.file_name import beside
from logcheck.finding import Report, unreadable
from logcheck.log_scan import LogScan
from logcheck.producer_check import ProducerCheck
from logcheck.producer_replay import ProducerReplay
from logcheck.replica_files import ReadBytes, ReplicaFiles, read_reported
from logcheck.rule import Rules
from logcheck.sequence_check import SequenceCheck
from logcheck.snapshot_check import SnapshotCheck
from logcheck.transaction_check import TransactionCheck
from logcheck.transaction_index import IndexFile, TransactionIndex
from logcheck.transaction_ranges import Transaction


def producer_check(
    scan: LogScan,
    read_bytes: ReadBytes,
    rules: Rules,
    report: Report,
) -> ProducerCheck:
    """Return the check S12 for a pass of `scan`."""
    files, history, now_ms = scan.files, scan.history, rules.now_ms

    def read_snapshot(file: str) -> bytes | None:
        try:
            return read_bytes(file)
        except FileNotFoundError:
            # A broker deletes old snapshots meanwhile.
            return None
        except OSError as error:
            report(unreadable(file, error))
            return None

    return ProducerCheck(
        ProducerReplay(scan.offsets, now_ms),
        SequenceCheck(files.topic, history.replayed_from, scan.offsets, now_ms, report),
        SnapshotCheck(files.first_base_offset, history, scan.offsets, now_ms, report),
        files.snapshots,
        read_snapshot,
    )


def transaction_check(
    scan: LogScan,
    read_bytes: ReadBytes,
    rules: Rules,
    report: Report,
) -> TransactionCheck:
    """Return the check S13 for a pass of `scan`."""
    files = scan.files
    ends = _segment_ends(files)
    first_epoch = first_epoch_start(files.epoch_checkpoint, read_bytes)

    def read_again(log_file: str) -> IndexFile:
        file = beside(log_file, ".txnindex")
        try:
            data = read_bytes(file)
        except OSError:
            data = b""
        return IndexFile(file, *ends[log_file], data)

    return TransactionCheck(
        TransactionIndex(_read_indexes(files, read_bytes, report), report),
        read_again,
        files,
        scan.history.begun_at(first_epoch),
        scan.offsets,
        rules.now_ms - rules.transaction_timeout_ms,
        report,
    )


def read_aborted(files: ReplicaFiles, read_bytes: ReadBytes, report: Report) -> list[Transaction]:
    """Return the aborted transactions in the replica's transaction indexes."""
    return list(TransactionIndex(_read_indexes(files, read_bytes, report), report).transactions())


def _read_indexes(files: ReplicaFiles, read_bytes: ReadBytes, report: Report) -> list[IndexFile]:
    ends = _segment_ends(files)
    return [
        IndexFile(segment.txnindex, *ends[segment.log], data)
        for segment in files.segments
        if segment.txnindex is not None
        and (data := read_reported(read_bytes, segment.txnindex, report)) is not None
    ]


def _segment_ends(files: ReplicaFiles) -> dict[str, tuple[int, int | None]]:
    """Return by file the base offset of a segment and that of the next one."""
    pairs = pairwise([*files.segments, None])
    return {
        each.log: (each.base_offset, None if following is None else following.base_offset)
        for each, following in pairs
        if each is not None
    }

"""Composition: S12 and S13 of one replica, with the producer snapshots and transaction indexes.

The files are read before the log: if a broker writes meanwhile, the log has only more batches.
"""

from typing import NamedTuple

from logcheck.finding import Report
from logcheck.producer_check import ProducerCheck, ProducerReplay
from logcheck.replica_files import ReadBytes, ReplicaFiles, read_reported
from logcheck.rule import Rules
from logcheck.transaction_check import TransactionCheck, TransactionReplay, read_txnindex
from logcheck.transaction_ranges import Transaction


class ReferenceReplays(NamedTuple):
    """The producers and transactions of a reference, after a complete walk over it."""

    producers: ProducerReplay
    transactions: TransactionReplay


def producer_check(
    files: ReplicaFiles,
    read_bytes: ReadBytes,
    rules: Rules,
    report: Report,
    reference: ReferenceReplays | None = None,
) -> ProducerCheck:
    """Return the check S12 of a log, for a pass over its batches."""
    snapshots = [
        (offset, file, data)
        for offset, file in files.snapshots
        if (data := read_reported(read_bytes, file, report)) is not None
    ]
    return ProducerCheck(snapshots, rules.now_ms, report, reference and reference.producers)


def transaction_check(
    files: ReplicaFiles,
    read_bytes: ReadBytes,
    rules: Rules,
    report: Report,
    reference: ReferenceReplays | None = None,
) -> TransactionCheck:
    """Return the check S13 of a log, for a pass over its batches."""
    indexes = [
        (file, data)
        for file in (segment.txnindex for segment in files.segments)
        if file is not None and (data := read_reported(read_bytes, file, report)) is not None
    ]
    deadline_ms = rules.now_ms - rules.transaction_timeout_ms
    until, known = files.cleaner_point or 0, reference and reference.transactions
    return TransactionCheck(indexes, until, deadline_ms, report, known)


def read_aborted(files: ReplicaFiles, read_bytes: ReadBytes, report: Report) -> list[Transaction]:
    """Return the aborted transactions in the replica's transaction indexes."""
    aborted: list[Transaction] = []
    for segment in files.segments:
        if segment.txnindex is not None:
            data = read_reported(read_bytes, segment.txnindex, report)
            if data is not None:
                aborted += [entry for _, entry in read_txnindex(data, segment.txnindex, report)]
    return aborted

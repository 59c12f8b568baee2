"""One replica after a pass over its log, and the means to read its records again (composition)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kafkawire.native import KeyTable
from kafkawire.sentinels import MAX_OFFSET
from logcheck.batch_digest import BatchDigest
from logcheck.finding import Finding, Report
from logcheck.leftover_records import Survivors
from logcheck.log_scan import LogScan, OpenSource
from logcheck.log_view import Observer
from logcheck.producer_batches import ProducerBatches
from logcheck.producer_files import read_aborted
from logcheck.replica_files import ReadBytes
from logcheck.transaction_ranges import Transaction
from logcheck.unseen_record import UnseenRecords

MakeTable = Callable[[], KeyTable]
"""A function that returns an empty table of keys."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica after a pass over its log."""

    scan: LogScan
    digest: BatchDigest
    producers: ProducerBatches
    report: Report

    @property
    def is_end_committed(self) -> bool:
        """Whether a checkpoint says up to which offset the log is committed."""
        return self.scan.files.high_watermark is not None

    @property
    def end_offset(self) -> int:
        """The end of the offsets that every replica must have (exclusive)."""
        return self.scan.files.committed_end(self.scan.log_end_offset)

    def open_transactions(self) -> list[Transaction]:
        """Return the transactions without a marker, unless it may lie in a damaged part."""
        damaged = self.scan.offsets.damaged
        sound_from = damaged[-1][1] + 1 if damaged else 0
        return [each for each in self.producers.open() if each[1] >= sound_from]

    def undecided(self, end_offset: int = MAX_OFFSET) -> Callable[[int], bool]:
        """Return whether the record at an offset is in a transaction without a marker.

        Markers at `end_offset` or beyond do not count.
        """
        is_batch_undecided = self.producers.undecided(end_offset)

        def is_undecided(offset: int) -> bool:
            base_offset = self.scan.base_offset_of(offset)
            return base_offset is not None and is_batch_undecided(base_offset)

        return is_undecided


@dataclass(frozen=True, slots=True)
class KeyComparison:
    """The files and the limit that a comparison of keys needs."""

    open_source: OpenSource
    read_bytes: ReadBytes
    make_table: MakeTable
    finding_limit: int

    def read_again(self, replica: Replica, observer: Observer) -> LogScan:
        """Return another pass over the log, which repeats no finding."""
        history = replica.scan.history
        again = LogScan(replica.scan.files, _ignore, self.open_source, history=history)
        again.run([observer])
        return again

    def survivors(
        self,
        replica: Replica,
        aborted: Iterable[Transaction],
        start_offset: int,
        unseen: UnseenRecords,
    ) -> Survivors:
        """Return the older records in the log, from `start_offset`, of keys without a tombstone.

        The log lacks the `unseen` records; a tombstone among them counts if its time is over.
        """
        table = self.make_table()
        table.load(unseen.rows)
        survivors = Survivors(table, aborted, start_offset, unseen.expired)
        self.read_again(replica, survivors)
        return survivors

    def aborted(self, replica: Replica) -> list[Transaction]:
        """Return the aborted transactions of the log, by its indexes and by its markers.

        The indexes of a copy that was taken while its broker ran may be older than its markers.
        """
        indexed = read_aborted(replica.scan.files, self.read_bytes, _ignore)
        return [*indexed, *replica.producers.aborted()]


def _ignore(_: Finding) -> None:
    pass

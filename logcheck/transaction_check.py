"""S13: transactions, their markers, and the index of the aborted ones (decision).

Each abort marker behind records of its transaction has an entry in the index of its segment. The
cleaned part contains no aborted record, and a marker stays as long as any record of its
transaction.

Source: UnifiedLog, TransactionIndex and LogCleaner of Kafka 3.9.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

from kafkawire.columns_loops import SoundBatch
from kafkawire.records_header import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkawire.sentinels import NO_OFFSET
from logcheck.finding import Check, Damage, Finder, Report, Severity
from logcheck.history import History
from logcheck.log_view import LogView, ProducerObserver
from logcheck.marker import MarkerFault, MarkerReading
from logcheck.producer_replay import Gaps
from logcheck.replica_files import ReplicaFiles
from logcheck.segment_columns import last_gap_below
from logcheck.transaction_index import AbortedEntry, IndexFile, TransactionIndex
from logcheck.transaction_ranges import TransactionRanges
from logcheck.transaction_replay import Ended, TransactionReplay

ReadIndex = Callable[[str], IndexFile]
"""A function that reads the index beside a segment's file, without entries if it cannot."""


class _Later(NamedTuple):
    """An entry whose LSO lies beyond its marker although no transaction was open."""

    slot: int
    leader_epoch: int
    """The leader epoch of the marker."""


class TransactionCheck(ProducerObserver):
    """The comparison of a log's transactions with its indexes."""

    def __init__(
        self,
        index: TransactionIndex,
        read_index: ReadIndex,
        files: ReplicaFiles,
        history: History,
        gaps: Gaps,
        deadline_ms: int,
        report: Report,
    ) -> None:
        """Transactions from before `deadline_ms` must have ended.

        `read_index` reads the index of a segment again, after the log.
        """
        self._read_index = read_index
        self._files = files
        self._index = index
        self._history = history
        self._gaps = gaps
        self._deadline_ms = deadline_ms
        self._find = Finder(Check.TRANSACTIONS, report).find
        self.replay = TransactionReplay()
        self._is_proven = bytearray(len(index))
        """By slot of the index: whether the log has the marker."""
        self._unproven: list[tuple[int, Ended]] = []
        """Entries (by slot) that begin before the surviving batches of their transaction."""
        self._unindexed: list[Ended] = []
        self._later: dict[int, list[_Later]] = {}
        """Entries by producer whose LSO may be the start of a later transaction of another."""
        self._doubtful: list[tuple[int, Severity]] = []
        """Entries whose LSO lies below the first surviving batch of a later transaction."""
        self._has_bad_marker = False

    def on_producer_batch(self, batch: SoundBatch, reading: MarkerReading) -> None:
        """See `log_view.ProducerObserver`."""
        header = batch.header
        if reading.fault is not None:
            self._report_marker(batch, reading.fault)
        if not header.attributes & CONTROL_BIT:
            if not header.attributes & TRANSACTIONAL_BIT:
                self._check_plain(batch)
                return
            if self._later:
                self._settle_later(batch)
        elif not header.record_count:
            self._check_emptied(batch)
        ended = self.replay.apply(batch, reading.marker)
        if ended is not None and ended.is_aborted:
            self._check_abort(ended, header.leader_epoch)

    def conclude(self, log: LogView) -> dict[str, Any]:
        """See `log_view.LogCheck`."""
        for slot, _ in chain.from_iterable(self._later.values()):
            self._report_stable(slot, self._index.entry(slot).last_offset + 1)
        self._check_doubtful(log)
        if not log.is_damaged(log.log_end_offset - 1) and not self._has_bad_marker:
            self._check_open()
        self._check_unproven(log)
        self._check_unknown(log)
        self._check_unindexed(log)
        self._check_aborted_data(log)
        return {"transactions": len(self.replay.columns.markers[0])}

    # Batch by batch

    def _report_marker(self, batch: SoundBatch, fault: MarkerFault) -> None:
        self._has_bad_marker = self._has_bad_marker or not fault.is_newer
        severity = Severity.WARNING if fault.is_newer else Severity.ERROR
        place = batch.file, batch.position, batch.header.base_offset
        self._find(Damage.BAD_MARKER, *place, fault.expected, fault.found, severity)

    def _check_plain(self, batch: SoundBatch) -> None:
        """Report a batch outside of its producer's open transaction."""
        header = batch.header
        current = self.replay.open.get(header.producer_id)
        if current is None or current.data_offset == NO_OFFSET or self._is_unsure:
            return
        # Below the log start a marker may be gone before its records.
        if current.data_offset >= self._history.log_start:
            expected = (
                f"the transactional bit: producer {header.producer_id} has a transaction open "
                f"since offset {current.data_offset}"
            )
            place = batch.file, batch.position, header.base_offset
            self._find(Damage.PLAIN_IN_TRANSACTION, *place, expected, "none")

    def _check_emptied(self, batch: SoundBatch) -> None:
        """Report a marker that was emptied although its transaction has records."""
        header = batch.header
        current = self.replay.open.get(header.producer_id)
        if current is None or current.data_offset == NO_OFFSET or self._is_unsure:
            return
        if current.data_offset >= self._history.log_start:
            expected = f"a marker, as its records still exist at {current.data_offset}"
            place = batch.file, batch.position, header.base_offset
            self._find(Damage.MARKER_LOST, *place, expected, "an empty batch")

    @property
    def _is_unsure(self) -> bool:
        """Whether a marker may have been skipped because it is damaged."""
        return self._gaps.has_damage or self._has_bad_marker

    def _check_abort(self, ended: Ended, leader_epoch: int) -> None:
        slot = self._index.slot_of(ended.marker_offset)
        entry = None if slot is None else self._index.entry(slot)
        if slot is None or entry is None or entry.producer_id != ended.producer_id:
            # A reader needs the entry for the records that exist, in every zone.
            if ended.data_offset != NO_OFFSET:
                self._unindexed.append(ended)
            return
        self._is_proven[slot] = 1
        self._check_first(slot, entry, ended)
        if not self._is_unsure:
            self._check_stable(slot, entry, leader_epoch)

    def _check_first(self, slot: int, entry: AbortedEntry, ended: Ended) -> None:
        first = entry.first_offset
        if first == ended.first_offset:
            return
        is_late = ended.data_offset != NO_OFFSET and first > ended.data_offset
        # The transactions of a producer follow each other, also where a cleaner has been. From an
        # entry that reaches back over another one, readers omit the records of that one, too.
        if is_late or first <= ended.previous_marker_offset:
            self._report_first(slot, ended.first_offset)
        else:
            self._unproven.append((slot, ended))

    def _check_stable(self, slot: int, entry: AbortedEntry, leader_epoch: int) -> None:
        found, opened = entry.last_stable_offset, self.replay.first_open()
        expected = entry.last_offset + 1 if opened is None else opened
        # Below the log start a marker may be gone before its records.
        if found == expected or (opened is not None and opened < self._history.log_start):
            return
        if found > expected and opened is None:
            # A follower adds the transactions of a whole append before it ends the first of them.
            self._later.setdefault(entry.producer_id, []).append(_Later(slot, leader_epoch))
        elif found > expected or found < 0 or not self._may_be_cleaned(found):
            self._report_stable(slot, expected)

    def _may_be_cleaned(self, offset: int) -> bool:
        """Whether an open transaction may have begun at `offset`, and lost its records there."""
        has_gaps = self._gaps.missing_count > 0 or self._files.first_base_offset > 0
        return has_gaps or self.replay.is_emptied(offset)

    def _settle_later(self, batch: SoundBatch) -> None:
        """Compare the LSOs that may be the start of a later transaction with this start."""
        header = batch.header
        if self.replay.open.get(header.producer_id) is not None:
            return
        own = self._later.pop(header.producer_id, None)
        later, self._later = self._later, {} if own is None else {header.producer_id: own}
        for producer_id, each in later.items():
            for slot, leader_epoch in each:
                stable_offset = self._index.entry(slot).last_stable_offset
                # A truncation at a change of the leader may have removed that transaction.
                has_changed = header.leader_epoch > leader_epoch
                severity = Severity.WARNING if has_changed else Severity.ERROR
                if stable_offset > header.base_offset and not header.record_count:
                    # An emptied batch may belong to a transaction that ended before.
                    self._later.setdefault(producer_id, []).append(_Later(slot, leader_epoch))
                elif stable_offset > header.base_offset:
                    self._report_stable(slot, self._index.entry(slot).last_offset + 1, severity)
                elif stable_offset < header.base_offset:
                    self._doubtful.append((slot, severity))

    def _report_first(self, slot: int, expected: int) -> None:
        entry = self._index.entry(slot)
        place = *self._index.place(slot), entry.last_offset
        text = f"offset {expected}, the start of the transaction"
        self._find(Damage.TXNINDEX_RANGE, *place, text, f"offset {entry.first_offset}")

    def _report_stable(self, slot: int, expected: int, severity: Severity = Severity.ERROR) -> None:
        entry = self._index.entry(slot)
        place = *self._index.place(slot), entry.last_offset
        text = f"last stable offset {expected} after the marker"
        found = str(entry.last_stable_offset)
        self._find(Damage.TXNINDEX_STABLE, *place, text, found, severity)

    # With the complete log

    def _check_open(self) -> None:
        for producer_id, start in self.replay.open.items():
            if start.data_offset != NO_OFFSET and start.timestamp_ms < self._deadline_ms:
                expected = f"a marker for the transaction of producer {producer_id}"
                found = f"open since {start.timestamp_ms} ms"
                place = start.file, start.position, start.data_offset
                # Clients choose the timestamps of records: only a later marker proves the age.
                clock_ms = self.replay.columns.clock_after(start.data_offset)
                is_certain = clock_ms is not None and clock_ms < self._deadline_ms
                severity = Severity.ERROR if is_certain else Severity.NOTE
                self._find(Damage.HANGING_TRANSACTION, *place, expected, found, severity)

    def _check_doubtful(self, log: LogView) -> None:
        """Report the LSOs at which no transaction began that a cleaner may have removed."""
        for slot, severity in self._doubtful:
            entry = self._index.entry(slot)
            offset = entry.last_stable_offset
            is_whole = self._history.missing(offset) is Severity.ERROR
            if log.has_batch(offset) or is_whole:
                self._report_stable(slot, entry.last_offset + 1, severity)

    def _check_unindexed(self, log: LogView) -> None:
        """Report the abort markers without an entry."""
        read: dict[str, TransactionIndex] = {}
        for ended in self._unindexed:
            file, position = log.place_of(ended.marker_offset)
            if file not in read:
                # A broker that writes meanwhile has added the entry after the index was read.
                read[file] = TransactionIndex([self._read_index(file)], lambda _: None)
            slot = read[file].slot_of(ended.marker_offset)
            if slot is None or read[file].entry(slot).producer_id != ended.producer_id:
                expected = f"an entry of the .txnindex for producer {ended.producer_id}"
                severity = self._certainty_of_entry(ended.marker_offset, log.log_end_offset)
                place = file, position, ended.marker_offset
                self._find(Damage.TXNINDEX_MISSING, *place, expected, "none", severity)

    def _certainty_of_entry(self, marker_offset: int, log_end_offset: int) -> Severity:
        """Return the certainty that the entry of a marker must not be missing.

        A broker writes the entries of an append after its markers: it may have been killed in
        between, and the next start writes them. The recovery point does not exclude this, as it may
        be that of a longer log, which a truncation cut before the broker wrote its checkpoints. A
        live copy lacks an index that was created later. Kafka's cleaner drops entries from below
        the log start, where no reader needs them.
        """
        if marker_offset < self._history.log_start:
            return Severity.NOTE
        last, active = self._index.last_offset, self._files.active_base_offset
        if marker_offset >= active and log_end_offset < self._history.recovery_point:
            # A truncation was cut short: the next start writes the entries of the last segment.
            return self._history.beyond(log_end_offset)
        is_last = last is None or last < marker_offset
        is_recovered = marker_offset >= active and self._history.is_recovered(active)
        return Severity.NOTE if is_last and is_recovered else Severity.ERROR

    def _check_unproven(self, log: LogView) -> None:
        """Report entries that begin at an offset that the log has, but not in the transaction."""
        for slot, ended in self._unproven:
            first = self._index.entry(slot).first_offset
            if (
                max(log.first_offset, self._history.log_start) <= first != ended.data_offset
                and log.has_batch(first)
                and not self.replay.is_emptied(first)
                and not log.is_damaged(first)
            ):
                self._report_first(slot, ended.first_offset)

    def _check_unknown(self, log: LogView) -> None:
        """Report entries whose marker the log does not have, unless it may be cleaned away."""
        for slot, is_proven in enumerate(self._is_proven):
            if is_proven:
                continue
            entry = self._index.entry(slot)
            last = entry.last_offset
            if log.is_damaged(last) or self.replay.is_emptied(last):
                continue
            severity = self._certainty_of_marker(last, log)
            if severity is not None:
                expected = f"an abort marker of producer {entry.producer_id} at offset {last}"
                place = *self._index.place(slot), last
                self._find(Damage.TXNINDEX_ENTRY, *place, expected, "none", severity)

    def _certainty_of_marker(self, offset: int, log: LogView) -> Severity | None:
        if log.has_batch(offset):
            return Severity.ERROR
        if offset >= log.log_end_offset:
            # After a loss of power the log may be shorter than its index, until the next start.
            return Severity.ERROR if self._history.is_flushed(offset) else Severity.WARNING
        # Where a cleaner may have been, a crash may have left the index of before.
        is_whole = self._history.missing(offset) is Severity.ERROR
        return Severity.ERROR if is_whole else None

    def _check_aborted_data(self, log: LogView) -> None:
        unindexed = (
            (ended.producer_id, ended.data_offset, ended.marker_offset) for ended in self._unindexed
        )
        aborted = TransactionRanges(chain(self._index.transactions(), unindexed))
        end = min(self._history.cleaner_point or 0, self._files.active_base_offset)
        last_gap: int | None = None
        for producer_id, offset in zip(*self.replay.columns.data, strict=True):
            if offset >= end:
                return
            if aborted.covers(producer_id, offset):
                last_gap = last_gap_below(log.segments, end) if last_gap is None else last_gap
                severity = self._history.is_cleaned(offset, last_gap)
                if severity is not None:
                    expected = "no record of an aborted transaction in the cleaned part"
                    place = *log.place_of(offset), offset
                    found = f"records of producer {producer_id}"
                    self._find(Damage.ABORTED_DATA, *place, expected, found, severity)

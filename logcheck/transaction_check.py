"""Decision: S13, the data of aborted transactions, their index, and the required markers.

`.txnindex`: entries of version 2 | producer id 8 | first offset 8 | last offset 8 | LSO 8 (sizes in
bytes), one for each abort marker of the segment. The cleaned part contains no aborted record, and
a marker stays as long as any record of its transaction.

Source: TransactionIndex and LogCleaner of Kafka 3.9.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from struct import Struct
from typing import Any, Final

from kafkawire.columns_loops import SoundBatch
from kafkawire.errors import CorruptBatchError
from kafkawire.records import ControlType, read_control_batch
from logcheck.finding import Check, Damage, Finder, Report
from logcheck.log_view import LogView, ProducerObserver
from logcheck.transaction_ranges import Transaction, TransactionRanges

ENTRY: Final = Struct(">hqqqq")
ENTRY_VERSION: Final = 0


@dataclass(frozen=True, slots=True)
class _Open:
    """A transaction whose marker has not been read yet."""

    offset: int
    timestamp_ms: int
    file: str
    position: int


class TransactionReplay(ProducerObserver):
    """An observer that keeps the transactions of a log: open ones, ended ones, their data."""

    def __init__(self) -> None:
        self.open: dict[int, _Open] = {}
        self.ended: list[tuple[Transaction, bool, str, int]] = []
        """(transaction, whether it was aborted, file and position of the marker)."""
        self.data = (array("q"), array("q"))
        """Producer ids and base offsets of the batches of transactions that contain records."""

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header = batch.header
        if not header.is_transactional:
            return
        producer_id, offset = header.producer_id, header.base_offset
        if header.is_control:
            self._end(batch)
        elif header.record_count:
            self.data[0].append(producer_id)
            self.data[1].append(offset)
            start = _Open(offset, header.max_timestamp_ms, batch.file, batch.position)
            self.open.setdefault(producer_id, start)

    def _end(self, batch: SoundBatch) -> None:
        header = batch.header
        try:
            marker = read_control_batch(batch.data)
        except CorruptBatchError:
            return
        if marker is not None:
            start = self.open.pop(header.producer_id, None)
            first = header.base_offset if start is None else start.offset
            transaction = (header.producer_id, first, header.base_offset)
            is_aborted = marker.control_type is ControlType.ABORT
            self.ended.append((transaction, is_aborted, batch.file, batch.position))


def read_txnindex(data: bytes, file: str, report: Report) -> list[tuple[int, Transaction]]:
    """Return (position, transaction) of each entry; report malformed entries."""
    find = Finder(Check.TRANSACTIONS, report).find
    if len(data) % ENTRY.size:
        cut = len(data) - len(data) % ENTRY.size
        find(Damage.TXNINDEX_CUT, file, cut, None, "complete entries", "a partial entry")
    entries = []
    whole = data[: len(data) - len(data) % ENTRY.size]
    for slot, (version, producer_id, first, last, _) in enumerate(ENTRY.iter_unpack(whole)):
        position = slot * ENTRY.size
        if version != ENTRY_VERSION or first > last:
            expected, found = "version 0, first <= last", f"version {version}, {first}..{last}"
            find(Damage.TXNINDEX_ENTRY, file, position, None, expected, found)
            continue
        entries.append((position, (producer_id, first, last)))
    return entries


class TransactionCheck(ProducerObserver):
    """The comparison of a log's transactions with its indexes and with a reference's."""

    def __init__(
        self,
        indexes: Iterable[tuple[str, bytes]],
        cleaned_until: int,
        deadline_ms: int,
        report: Report,
        reference: TransactionReplay | None = None,
    ) -> None:
        """`indexes` are (file, bytes). Transactions from before `deadline_ms` must have ended."""
        self._indexes = [(file, read_txnindex(data, file, report)) for file, data in indexes]
        self._cleaned_until = cleaned_until
        self._deadline_ms = deadline_ms
        self._find = Finder(Check.TRANSACTIONS, report).find
        self._reference = reference
        self._replay = TransactionReplay()

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        self._replay.on_batch(batch)

    def conclude(self, log: LogView) -> dict[str, Any]:
        """See `log_view.LogCheck`."""
        if not log.is_damaged(log.log_end_offset - 1):
            self._check_open()
        aborts = {(ended[0][0], ended[0][2]): ended for ended in self._replay.ended if ended[1]}
        indexed: list[Transaction] = []
        for file, entries in self._indexes:
            for position, transaction in entries:
                indexed.append(transaction)
                self._check_entry(file, position, transaction, aborts, log)
        known = {(producer_id, last) for producer_id, _, last in indexed}
        for place, ((_, first, _), _, file, position) in aborts.items():
            # In the cleaned part, the cleaner removes the entry with the data, before the marker.
            # A marker without a transaction has no entry.
            has_data = first < place[1]
            if place not in known and has_data and place[1] >= self._cleaned_until:
                expected = f"an entry of the .txnindex for producer {place[0]}"
                self._find(Damage.TXNINDEX_MISSING, file, position, place[1], expected, "none")
        self._check_aborted_data(chain(indexed, (ended[0] for ended in aborts.values())), log)
        if self._reference is not None:
            self._check_markers(self._reference.ended, log)
        return {"transactions": len(self._replay.ended)}

    def _check_open(self) -> None:
        for producer_id, start in self._replay.open.items():
            if start.timestamp_ms < self._deadline_ms:
                expected = f"a marker for the transaction of producer {producer_id}"
                found = f"open since {start.timestamp_ms} ms"
                place = start.file, start.position, start.offset
                self._find(Damage.HANGING_TRANSACTION, *place, expected, found)

    def _check_entry(
        self,
        file: str,
        position: int,
        transaction: Transaction,
        aborts: dict[tuple[int, int], tuple[Transaction, bool, str, int]],
        log: LogView,
    ) -> None:
        producer_id, first, last = transaction
        ended = aborts.get((producer_id, last))
        if ended is None:
            if last >= self._cleaned_until and not log.is_damaged(last):
                expected = f"an abort marker of producer {producer_id} at offset {last}"
                self._find(Damage.TXNINDEX_ENTRY, file, position, last, expected, "none")
        elif (
            first != ended[0][1]
            and ended[0][1] >= self._cleaned_until
            # Else retention has deleted the start of the transaction.
            and first >= log.first_offset
        ):
            expected = f"offset {ended[0][1]}, the start of the transaction"
            self._find(Damage.TXNINDEX_RANGE, file, position, last, expected, f"offset {first}")

    def _check_aborted_data(self, aborted: Iterable[Transaction], log: LogView) -> None:
        ranges = TransactionRanges(aborted)
        for producer_id, offset in zip(*self._replay.data, strict=True):
            if offset >= self._cleaned_until:
                return
            if ranges.covers(producer_id, offset):
                expected = "no record of an aborted transaction in the cleaned part"
                found = f"records of producer {producer_id}"
                self._find(Damage.ABORTED_DATA, *log.place_of(offset), offset, expected, found)

    def _check_markers(
        self, ended: Iterable[tuple[Transaction, bool, str, int]], log: LogView
    ) -> None:
        own = {(transaction[0], transaction[2]) for transaction, _, _, _ in self._replay.ended}
        missing = {
            (producer_id, last): (first, is_aborted)
            for (producer_id, first, last), is_aborted, _, _ in ended
            if (producer_id, last) not in own
            and log.first_offset <= last < log.log_end_offset
            and not log.is_damaged(last)
        }
        ranges = TransactionRanges(
            (producer_id, first, last) for (producer_id, last), (first, _) in missing.items()
        )
        for producer_id, offset in zip(*self._replay.data, strict=True) if missing else ():
            last = ranges.last_offset(producer_id, offset)
            if last is not None and (producer_id, last) in missing:
                _, is_aborted = missing.pop((producer_id, last))
                kind = "abort" if is_aborted else "commit"
                expected = f"the {kind} marker of producer {producer_id}, whose data still exists"
                self._find(Damage.MARKER_LOST, *log.place_of(last), last, expected, "none")

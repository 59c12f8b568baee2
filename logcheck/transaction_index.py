"""The entries of a log's transaction indexes (decision).

`.txnindex`: entries of version 2 | producer id 8 | first offset 8 | last offset 8 | LSO 8 (sizes in
bytes), one for each abort marker of the segment, in the order of the markers. The LSO is the last
stable offset after the marker: a reader stops its search there.

Source: TransactionIndex and AbortedTxn of Kafka 3.9.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from logcheck.finding import Check, Damage, Finder, Report
from logcheck.transaction_ranges import Transaction

ENTRY: Final = Struct(">hqqqq")
ENTRY_VERSION: Final = 0
_COLUMNS: Final = 4


class IndexFile(NamedTuple):
    """The transaction index of one segment."""

    file: str
    base_offset: int
    end_offset: int | None
    """Base offset of the next segment; None for the active segment."""
    data: bytes


class AbortedEntry(NamedTuple):
    """An aborted transaction in an index; the offsets are inclusive, except the last."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The sound entries of a log's indexes, by the offsets of their markers."""

    def __init__(self, files: Sequence[IndexFile], report: Report) -> None:
        """Read all entries; report each one that is malformed, out of order or misplaced."""
        self._find = Finder(Check.TRANSACTIONS, report).find
        # Flat columns: a partition may have a million aborted transactions.
        self._rows = array("q")
        self._last_offsets = array("q")
        self._files: list[tuple[int, str]] = []
        self._positions = array("q")
        for each in files:
            self._files.append((len(self._last_offsets), each.file))
            self._read(each)

    def __len__(self) -> int:
        return len(self._last_offsets)

    def __iter__(self) -> Iterator[AbortedEntry]:
        return (self.entry(slot) for slot in range(len(self)))

    @property
    def last_offset(self) -> int | None:
        """The offset of the last marker; None without entries."""
        return self._last_offsets[-1] if self._last_offsets else None

    def entry(self, slot: int) -> AbortedEntry:
        """Return the entry at `slot`."""
        return AbortedEntry(*self._rows[_COLUMNS * slot : _COLUMNS * (slot + 1)])

    def place(self, slot: int) -> tuple[str, int]:
        """Return the file and position of the entry at `slot`."""
        number = bisect_right(self._files, slot, key=lambda each: each[0]) - 1
        return self._files[number][1], self._positions[slot]

    def slot_of(self, last_offset: int) -> int | None:
        """Return the slot of the entry for the marker at `last_offset`."""
        slot = bisect_left(self._last_offsets, last_offset)
        is_there = slot < len(self) and self._last_offsets[slot] == last_offset
        return slot if is_there else None

    def transactions(self) -> Iterator[Transaction]:
        """Yield all aborted transactions."""
        rows = self._rows
        return zip(rows[::_COLUMNS], rows[1::_COLUMNS], rows[2::_COLUMNS], strict=True)

    def _read(self, index: IndexFile) -> None:
        data = index.data
        whole = len(data) - len(data) % ENTRY.size
        if whole < len(data):
            place = index.file, whole, None
            self._find(Damage.TXNINDEX_CUT, *place, "complete entries", "a partial entry")
        for slot, row in enumerate(ENTRY.iter_unpack(data[:whole])):
            version, producer_id, first, last, stable = row
            fault = self._fault(version, first, last, index)
            if fault is not None:
                offset = None if version != ENTRY_VERSION or first > last else last
                place = index.file, slot * ENTRY.size, offset
                self._find(Damage.TXNINDEX_ENTRY, *place, *fault)
                continue
            self._rows.fromlist([producer_id, first, last, stable])
            self._last_offsets.append(last)
            self._positions.append(slot * ENTRY.size)

    def _fault(
        self, version: int, first: int, last: int, index: IndexFile
    ) -> tuple[str, str] | None:
        """Return the expected and the found text for a faulty entry; None if it is sound."""
        if version != ENTRY_VERSION or first > last:
            return "version 0, first <= last", f"version {version}, {first}..{last}"
        if last < index.base_offset or (index.end_offset is not None and last >= index.end_offset):
            end = "" if index.end_offset is None else f" and below {index.end_offset}"
            return f"a marker from {index.base_offset} on{end}, as in the segment", str(last)
        if self._last_offsets and last <= self._last_offsets[-1]:
            return f"a marker beyond {self._last_offsets[-1]}, that of the entry before", str(last)
        return None

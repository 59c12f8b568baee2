"""The last records of the keys of a reference that a log lacks, in flat columns (decision).

A log may lack millions of them, of which a list names only a few. The certainty of each decides
first, so that no number of notes hides an error.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Final

from kafkawire.key_table_loops import EXPORT_COLUMNS, OFFSET_COLUMN, TIME_COLUMN, TOMBSTONE_COLUMN
from logcheck.finding import Severity

NO_SUCCESSOR: Final = -1


class Kind(IntEnum):
    """Kinds of missing records."""

    VALUE = 0
    TOMBSTONE = 1
    EXPIRED = 2
    """A tombstone whose time is over: only an older record of its key may not exist.

    A cleaner removes the older records first. But a replica that lags for longer than the leader
    keeps the tombstone never copies it, and keeps the older record.
    """


class UnseenRecords:
    """The records that a log lacks, by offset; 65 bytes for each."""

    def __init__(
        self, rows: bytes, due_tombstones_ms: range, is_known: Callable[[int], bool]
    ) -> None:
        """Take the rows of `KeyTable.unseen` whose offset `is_known`."""
        self.rows = rows
        self.offsets = array("q")
        self._kinds = bytearray()
        numbers = memoryview(rows).cast("q")
        columns = (
            numbers[first::EXPORT_COLUMNS]
            for first in (OFFSET_COLUMN, TIME_COLUMN, TOMBSTONE_COLUMN)
        )
        for offset, timestamp_ms, is_tombstone in zip(*columns, strict=True):
            if is_known(offset):
                kind = Kind.TOMBSTONE if is_tombstone else Kind.VALUE
                if is_tombstone and timestamp_ms not in due_tombstones_ms:
                    kind = Kind.EXPIRED
                self.offsets.append(offset)
                self._kinds.append(kind)

    @property
    def has_due(self) -> bool:
        """Whether any of the records must exist."""
        return any(kind != Kind.EXPIRED for kind in self._kinds)

    def is_due(self, offset: int) -> bool:
        """Whether the record at `offset` is missing and must exist."""
        return self.kind_at(offset) in (Kind.VALUE, Kind.TOMBSTONE)

    @property
    def expired(self) -> Sequence[int]:
        """The offsets of the tombstones whose time is over."""
        return array("q", (offset for offset, kind in self if kind is Kind.EXPIRED))

    def __iter__(self) -> Iterator[tuple[int, Kind]]:
        """Yield the offset and the kind of each record."""
        return zip(self.offsets, map(Kind, self._kinds), strict=True)

    def kind_at(self, offset: int) -> Kind | None:
        """Return the kind of the missing record at `offset`; None if no record is missing."""
        slot = slot_of(self.offsets, offset)
        return None if slot is None else Kind(self._kinds[slot])


class Severities:
    """The certainty that records must not be missing."""

    def __init__(self, certain: UnseenRecords, contradicted: Sequence[int]) -> None:
        """No other cleaner has removed the records at the `contradicted` offsets (ascending)."""
        self.certain = certain
        self._contradicted = contradicted

    def of(self, offset: int) -> Severity:
        """Return the certainty that the record at `offset` must not be missing."""
        kind = self.certain.kind_at(offset)
        if kind in (Kind.VALUE, Kind.TOMBSTONE):
            return Severity.ERROR
        is_contradicted = slot_of(self._contradicted, offset) is not None
        is_doubtful = kind is Kind.EXPIRED or is_contradicted
        return Severity.WARNING if is_doubtful else Severity.NOTE


class Spans:
    """The offsets of missing records, and of the first later record of each key."""

    def __init__(self, offsets: Sequence[int]) -> None:
        """The `offsets` are ascending."""
        self.offsets = offsets
        self.successors = array("q", [NO_SUCCESSOR]) * len(offsets)
        self.has_any = False
        """Whether any of them has a successor."""

    def end_at(self, offset: int, successor: int) -> None:
        """Add a later record of the key of the one at `offset`; the first one counts."""
        slot = slot_of(self.offsets, offset)
        if slot is not None and not NO_SUCCESSOR < self.successors[slot] <= successor:
            self.successors[slot] = successor
            self.has_any = True


def slot_of(ascending: Sequence[int], number: int) -> int | None:
    """Return the place of `number`; None if it is not there."""
    slot = bisect_left(ascending, number)
    return slot if slot < len(ascending) and ascending[slot] == number else None

"""The offsets of transactions by producer, for lookups of the batches in them (decision)."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

Transaction = tuple[int, int, int]
"""Producer id, first offset and last offset (the marker's) of a transaction."""


class TransactionRanges:
    """A set of transactions. A damaged index may contain transactions that overlap."""

    def __init__(self, transactions: Iterable[Transaction] = ()) -> None:
        # Flat columns: a partition may have a million transactions, each of another producer.
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        """The largest last offset of the producer's transactions so far."""
        previous, newest = None, 0
        for producer_id, first, last in sorted(transactions):
            newest = max(last, newest) if producer_id == previous else last
            previous = producer_id
            self._producer_ids.append(producer_id)
            self._first_offsets.append(first)
            self._last_offsets.append(newest)

    def last_offset(self, producer_id: int, offset: int) -> int | None:
        """Return the last offset of the producer's transaction around `offset`, if there is one."""
        start = bisect_left(self._producer_ids, producer_id)
        end = bisect_right(self._producer_ids, producer_id, start)
        slot = bisect_right(self._first_offsets, offset, start, end) - 1
        if slot < start or offset > self._last_offsets[slot]:
            return None
        return self._last_offsets[slot]

    def covers(self, producer_id: int, offset: int) -> bool:
        """Whether `offset` lies within a transaction of the producer."""
        return self.last_offset(producer_id, offset) is not None

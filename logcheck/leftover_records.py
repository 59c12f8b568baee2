"""S9: records that a cleaner would have removed (decision).

A replica may lack the last record of a key, and any later one: the cleaner of its leader had
removed it for a later record before the replica copied the log. That cleaner had passed the later
record. So between the two offsets, it had also removed each record that another one supersedes.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kafkawire.columns_loops import SoundBatch
from kafkawire.key_table_loops import Mismatch
from kafkawire.native import KeyTable
from kafkawire.records import BatchHeader
from kafkawire.sentinels import MAX_OFFSET, NO_OFFSET
from logcheck.transaction_ranges import Transaction, TransactionRanges
from logcheck.unseen_record import Spans, slot_of

_BATCH_LIMIT: Final = 1 << 20
"""Maximum number of records of one batch that are looked at."""


class Successors:
    """An observer that finds the first later record of the keys of missing records."""

    def __init__(self, table: KeyTable, aborted: Iterable[Transaction], spans: Spans) -> None:
        """The `table` has the missing records, and `spans` their offsets.

        Ignore the records of `aborted` transactions; they supersede nothing.
        """
        self._table = table
        self._aborted = TransactionRanges(aborted)
        self._spans = spans

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header = batch.header
        if _supersedes(header, self._aborted):
            base, base_ms = header.base_offset, header.base_timestamp_ms
            record_count, limit = header.record_count, _BATCH_LIMIT
            for kind, offset, earlier in self._table.match(
                batch.section, record_count, base, base_ms, None, 0, MAX_OFFSET, 0, limit
            ):
                if kind == Mismatch.NEWER:
                    self._spans.end_at(earlier, offset)


class Leftovers:
    """An observer that looks for records between a missing record and its successor."""

    def __init__(self, table: KeyTable, aborted: Iterable[Transaction], spans: Spans) -> None:
        """`spans` has each missing record and its successor."""
        self._table = table
        self._aborted = TransactionRanges(aborted)
        self._spans = spans
        self._ends = array("q", [MAX_OFFSET]) * len(spans.offsets)
        """By span, in front of the next one: the first successor of a record from there."""

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header = batch.header
        if _supersedes(header, self._aborted):
            base, base_ms = header.base_offset, header.base_timestamp_ms
            record_count, limit = header.record_count, _BATCH_LIMIT
            for record, successor in self._table.note(
                batch.section, record_count, base, base_ms, None, MAX_OFFSET, limit
            ):
                slot = bisect_left(self._spans.offsets, record) - 1
                if slot >= 0 and successor < self._ends[slot]:
                    self._ends[slot] = successor

    def contradicted(self) -> Sequence[int]:
        """Return the missing records, ascending, that no other cleaner can have removed."""
        found, end = array("q"), MAX_OFFSET
        for slot in reversed(range(len(self._ends))):
            end = min(end, self._ends[slot])
            if end <= self._spans.successors[slot]:
                found.append(self._spans.offsets[slot])
        found.reverse()
        return found


class Survivors:
    """An observer that finds an older record of the keys of missing tombstones."""

    def __init__(
        self,
        table: KeyTable,
        aborted: Iterable[Transaction],
        start_offset: int,
        tombstones: Sequence[int],
    ) -> None:
        """The `table` has the missing tombstones, and perhaps others; their offsets ascend.

        Ignore the records below `start_offset`, and all in `aborted` transactions.
        """
        self._table = table
        self._aborted = TransactionRanges(aborted)
        self._start_offset = start_offset
        self._tombstones = tombstones
        self._older = array("q", [NO_OFFSET]) * len(tombstones)
        """By tombstone: the last older record of its key."""

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header = batch.header
        if _supersedes(header, self._aborted):
            base, base_ms = header.base_offset, header.base_timestamp_ms
            record_count, bounds = header.record_count, (self._start_offset, 0, MAX_OFFSET)
            for kind, offset, last in self._table.match(
                batch.section, record_count, base, base_ms, None, *bounds, _BATCH_LIMIT
            ):
                slot = slot_of(self._tombstones, last) if kind == Mismatch.OLDER else None
                if slot is not None:
                    self._older[slot] = offset

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield an older record that the log still has, and the tombstone of its key."""
        for older, tombstone in zip(self._older, self._tombstones, strict=True):
            if older != NO_OFFSET:
                yield older, tombstone


def _supersedes(header: BatchHeader, aborted: TransactionRanges) -> bool:
    """Whether the records of a batch supersede earlier ones."""
    if header.is_control:
        return False
    is_aborted = header.is_transactional and aborted.covers(header.producer_id, header.base_offset)
    return not is_aborted

"""S9: records that the cleaner of another replica would have removed (decision).

A replica may lack the last record of a key, and any later one: the cleaner of its leader had
removed it for a later record before the replica copied the log. That cleaner had passed the later
record. So between the two offsets, it had also removed each record that another one supersedes.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

from kafkawire.columns_loops import SoundBatch
from kafkawire.key_table_loops import Mismatch
from kafkawire.native import KeyTable
from kafkawire.records import BATCH_HEADER_BYTES, BatchBuilder, BatchHeader
from logcheck.transaction_ranges import Transaction, TransactionRanges

MAX_OFFSET: Final = 2**63 - 1
_BATCH_LIMIT: Final = 1 << 20
"""Maximum number of records of one batch that are looked at."""


class Successors:
    """An observer that finds the first later record of the keys of some records."""

    def __init__(self, table: KeyTable, aborted: Iterable[Transaction]) -> None:
        """Ignore the records of `aborted` transactions; they supersede nothing."""
        self.offsets: dict[int, int] = {}
        """By the offset of a record: the offset of the first later one of its key."""
        self._table = table
        self._aborted = TransactionRanges(aborted)

    def add(self, offset: int, key: bytes) -> None:
        """Look for the successor of the record at `offset`."""
        builder = BatchBuilder()
        builder.append(0, key, None)
        section = memoryview(builder.build())[BATCH_HEADER_BYTES:]
        self._table.note(section, 1, offset, 0, None, MAX_OFFSET)

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
                    self.offsets.setdefault(earlier, offset)


class Leftovers:
    """An observer that looks for records between a missing record and its successor."""

    def __init__(
        self, table: KeyTable, aborted: Iterable[Transaction], spans: Mapping[int, int]
    ) -> None:
        """`spans` has the offset of each missing record, and the offset of its successor."""
        self.contradicted: set[int] = set()
        """The missing records that no other cleaner can have removed."""
        self._table = table
        self._aborted = TransactionRanges(aborted)
        self._spans = sorted(spans.items())
        self._index()

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`."""
        header = batch.header
        if self._spans and _supersedes(header, self._aborted):
            base, base_ms = header.base_offset, header.base_timestamp_ms
            record_count, limit = header.record_count, _BATCH_LIMIT
            for record, successor in self._table.note(
                batch.section, record_count, base, base_ms, None, MAX_OFFSET, limit
            ):
                self._add(record, successor)

    def _add(self, record: int, successor: int) -> None:
        end = bisect_left(self._firsts, record)
        if end and self._furthest[end - 1] >= successor:
            around = {first for first, last in self._spans[:end] if last >= successor}
            self.contradicted |= around
            self._spans = [each for each in self._spans if each[0] not in around]
            self._index()

    def _index(self) -> None:
        self._firsts = [first for first, _ in self._spans]
        self._furthest = list(accumulate((last for _, last in self._spans), max))


def _supersedes(header: BatchHeader, aborted: TransactionRanges) -> bool:
    """Whether the records of a batch supersede earlier ones."""
    if header.is_control:
        return False
    is_aborted = header.is_transactional and aborted.covers(header.producer_id, header.base_offset)
    return not is_aborted

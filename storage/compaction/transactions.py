"""State of transactions while cleaning reads a log batch by batch (decision).

Cleaning drops the records of an aborted transaction at once, but keeps the marker that ends a
transaction until none of its data is left. The state spans segments, because transactions do.
Source: CleanedTransactionMetadata of Kafka 3.9.
"""

from collections.abc import Iterable
from heapq import heapify, heappop

from kafkawire.ids import Offset
from kafkawire.records import BatchHeader, ControlType, read_control_batch
from storage.segment.transaction_index import AbortedTransaction


class UnindexedAbortError(Exception):
    """A marker aborts records that no transaction index lists: an entry or the index is lost."""


class CleanedTransactions:
    """The open transactions at the current batch.

    Records of a transaction without an index entry count as committed until their marker is
    reached. If that aborts them, the methods raise `UnindexedAbortError`.
    """

    def __init__(self) -> None:
        self.kept_aborted: list[AbortedTransaction] = []
        """Aborted transactions with remaining data, for the index of the new segment."""
        self._ahead: list[tuple[Offset, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_data: set[int] = set()
        self._committed: set[int] = set()
        self._committed_with_records: set[int] = set()

    @property
    def undecided(self) -> set[int]:
        """Producers with records that count as committed, and whose marker is still to come."""
        return self._committed_with_records.copy()

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add the index entries of the segment that is read next."""
        self._ahead += [(each.first_offset, each) for each in transactions]
        heapify(self._ahead)

    def on_batch(self, header: BatchHeader) -> bool:
        """Process a data batch; return whether it belongs to an aborted transaction."""
        self._open_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted_with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        if header.record_count:
            self._committed_with_records.add(header.producer_id)
        return False

    def on_control_batch(self, header: BatchHeader, batch: memoryview) -> bool:
        """Process a control batch; return whether its transaction has no data left.

        Raises:
            CorruptBatchError: the batch cannot be read.
            UnindexedAbortError: records that counted as committed are aborted.
        """
        self._open_up_to(header.last_offset)
        if not header.record_count:
            # An earlier cleaning has emptied this batch.
            return True
        marker = read_control_batch(batch)
        if marker is None:
            return False
        producer_id = header.producer_id
        if marker.control_type is ControlType.ABORT:
            return self._close_aborted(producer_id, header.base_offset)
        had_data = producer_id in self._committed
        self._committed.discard(producer_id)
        self._committed_with_records.discard(producer_id)
        return not had_data

    def _close_aborted(self, producer_id: int, marker_offset: int) -> bool:
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None and producer_id in self._committed_with_records:
            raise UnindexedAbortError(
                f"no entry for the records of producer {producer_id} that the marker at "
                f"{marker_offset} aborts"
            )
        had_data = producer_id in self._aborted_with_data
        self._aborted_with_data.discard(producer_id)
        if aborted is not None and had_data:
            self.kept_aborted.append(aborted)
        return not had_data

    def _open_up_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            _, aborted = heappop(self._ahead)
            self._aborted.setdefault(aborted.producer_id, aborted)

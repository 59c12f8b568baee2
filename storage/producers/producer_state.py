"""The state of a log's producers, which prevents duplicate writes (decision).

A leader calls `find_duplicate` before and `on_append` after each append; for transaction markers it
calls `check_markers` and `replay`. A follower replays the batches that it appends, and a start
replays the batches of the log, both without checks.
Invariant: the entry of a producer depends only on the batches below the log end, in their order.
Source: KIP-98, KIP-360, and Kafka's ProducerStateManager and ProducerAppendInfo.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from kafkawire.ids import Offset
from kafkawire.records import BatchHeader, ControlType, EndTransactionMarker
from kafkawire.sentinels import NO_OFFSET, NO_PRODUCER_EPOCH
from storage.errors import (
    CoordinatorFencedError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    StorageError,
)
from storage.producers.producer_entry import (
    MAX_SEQUENCE,
    NO_COORDINATOR_EPOCH,
    RETAINED_BATCHES,
    ProducerEntry,
    WrittenBatch,
)
from storage.segment.transaction_index import AbortedTransaction

_TRANSACTIONAL: Final = 0x10


class LastRecord(NamedTuple):
    """The newest record of a producer, which compaction keeps; None if its epoch has none."""

    offset: Offset | None
    producer_epoch: int


class EndedTransaction(NamedTuple):
    """A transaction with a marker; both offsets are inclusive."""

    first_offset: Offset
    marker_offset: Offset


class NewMarker(NamedTuple):
    """A marker that a transaction coordinator has sent, before it is in the log."""

    producer_id: int
    producer_epoch: int
    control_type: ControlType
    coordinator_epoch: int


class ProducerState:
    """All producers of a log, and its unfinished transactions."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        # First offset -> producer id, ascending. Not a dict: finding the first key of a dict is
        # linear in the number of keys deleted before it.
        self._open: OrderedDict[Offset, int] = OrderedDict()
        # A heap of the transactions whose marker may not be committed yet.
        self._ended: list[EndedTransaction] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(list(self._entries.values()))

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return the entry of a producer."""
        return self._entries.get(producer_id)

    # Checks of a leader

    def find_duplicate(self, header: BatchHeader) -> WrittenBatch | None:
        """Return the batch in the log that this one duplicates; None if this one is new.

        Raises:
            OutOfOrderSequenceError: records of the producer are missing before this batch.
            InvalidProducerEpochError: a newer incarnation of the producer has written since, or the
                epoch is none.
            InvalidTransactionStateError: the batch lies outside of the open transaction.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            if header.producer_epoch < NO_PRODUCER_EPOCH and header.producer_id >= 0:
                raise InvalidProducerEpochError(
                    f"producer {header.producer_id} writes with epoch {header.producer_epoch}"
                )
            # Without state any sequence is accepted: retention may have removed the older batches.
            return None
        if (
            header.base_sequence == entry.next_sequence
            and header.producer_epoch == entry.epoch
            and entry.transaction_first_offset < 0
        ):
            return None
        return self._check(entry, header)

    def _check(self, entry: ProducerEntry, header: BatchHeader) -> WrittenBatch | None:
        if header.producer_epoch == entry.epoch:
            duplicate = entry.find(header.base_sequence, header.last_sequence)
            if duplicate is not None:
                return duplicate
        _check_epoch(entry, header.producer_epoch)
        is_new_epoch = header.producer_epoch != entry.epoch
        expected = 0 if is_new_epoch else entry.next_sequence
        if header.base_sequence != expected and entry.epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequenceError(
                f"producer {entry.producer_id} sends sequence {header.base_sequence} in epoch "
                f"{header.producer_epoch}, expected {expected}"
            )
        if entry.has_transaction and not header.is_transactional:
            raise InvalidTransactionStateError(
                f"producer {entry.producer_id} has a transaction open since offset "
                f"{entry.transaction_first_offset}, and writes outside of it"
            )
        return None

    def check_unsequenced(self, header: BatchHeader) -> None:
        """Check a batch that a coordinator writes for a producer, whose sequences do not count.

        Such a batch duplicates none: two commits of offsets in a transaction look the same.

        Raises:
            InvalidProducerEpochError: a newer incarnation of the producer has written since.
        """
        entry = self._entries.get(header.producer_id)
        if entry is not None:
            _check_epoch(entry, header.producer_epoch)

    def check_markers(self, markers: Sequence[NewMarker]) -> list[StorageError | None]:
        """Return the reason against each of the consecutive `markers`, None if there is none.

        It is an InvalidProducerEpochError or a CoordinatorFencedError: a newer incarnation of the
        producer, or a newer coordinator, has written since.
        """
        refusals: list[StorageError | None] = []
        # Epochs after the markers before, by producer.
        known: dict[int, tuple[int, int]] = {}
        for marker in markers:
            entry = self._entries.get(marker.producer_id)
            before = (
                (NO_PRODUCER_EPOCH, NO_COORDINATOR_EPOCH)
                if entry is None
                else (entry.epoch, entry.coordinator_epoch)
            )
            refusal = _refusal(marker, *known.get(marker.producer_id, before))
            if refusal is None:
                known[marker.producer_id] = (marker.producer_epoch, marker.coordinator_epoch)
            refusals.append(refusal)
        return refusals

    def has_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a producer has a transaction open that it began in this epoch."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.has_transaction and entry.epoch == producer_epoch

    # Updates after an append

    def on_append(self, header: BatchHeader, last_offset: Offset, timestamp_ms: int) -> None:
        """Add the data batch of `header`, which ends at `last_offset` in the log.

        `timestamp_ms` is the largest timestamp of its records in the log.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_id)
        if header.producer_epoch != entry.epoch:
            entry.move_to(header.producer_epoch)
        # Inlined `ProducerEntry.add`, which costs twice as much
        # (benchmarks/micro/test_producers.py).
        delta = header.last_offset_delta
        last_sequence = header.base_sequence
        if last_sequence >= 0:
            last_sequence = (last_sequence + delta) & MAX_SEQUENCE
        batches = entry.batches
        if len(batches) == RETAINED_BATCHES:
            del batches[0]
        batches.append(
            tuple.__new__(WrittenBatch, (last_sequence, last_offset, delta, timestamp_ms))
        )
        entry.next_sequence = (last_sequence + 1) & MAX_SEQUENCE
        entry.last_timestamp_ms = timestamp_ms
        if header.attributes & _TRANSACTIONAL and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = Offset(last_offset - delta)
            self._open[entry.transaction_first_offset] = entry.producer_id

    def replay(
        self, header: BatchHeader, marker: EndTransactionMarker | None = None
    ) -> AbortedTransaction | None:
        """Add a batch of the log; `marker` is the transaction marker in a control batch.

        Returns the transaction that the marker has aborted, if any.
        """
        if header.producer_id >= 0:
            if header.is_control:
                return None if marker is None else self._end_transaction(header, marker)
            self.on_append(header, Offset(header.last_offset), header.max_timestamp_ms)
        return None

    def recall(self, headers: Iterable[BatchHeader]) -> None:
        """Add the batches of each producer before the last one, which a snapshot lacks.

        `headers` belong to consecutive batches of the log, up to the snapshot's offset.
        """
        chains: dict[int, list[WrittenBatch]] = {}
        for header in headers:
            entry = self._entries.get(header.producer_id)
            if entry is None or entry.epoch != header.producer_epoch or header.is_control:
                continue
            chain = chains.setdefault(header.producer_id, [])
            if chain and header.base_sequence != (chain[-1].last_sequence + 1) & MAX_SEQUENCE:
                chain.clear()
            chain.append(
                WrittenBatch(
                    header.last_sequence,
                    header.last_offset,
                    header.last_offset_delta,
                    header.max_timestamp_ms,
                )
            )
        for producer_id, chain in chains.items():
            entry = self._entries[producer_id]
            if entry.batches == chain[-1:]:
                entry.batches = chain[-RETAINED_BATCHES:]

    def recall_from(self, source: "ProducerState") -> None:
        """Add the batches of each producer before the last one that `source` knows.

        Both are states of the same batches, up to the same offset.
        """
        for known in source:
            entry = self._entries.get(known.producer_id)
            if entry is None or entry.epoch != known.epoch:
                continue
            if entry.batches[-1:] == known.batches[-1:]:
                entry.batches = known.batches.copy()

    def _end_transaction(
        self, header: BatchHeader, marker: EndTransactionMarker
    ) -> AbortedTransaction | None:
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_id)
        entry.move_to(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = header.max_timestamp_ms
        if not entry.has_transaction:
            return None
        first_offset, entry.transaction_first_offset = entry.transaction_first_offset, NO_OFFSET
        self._open.pop(first_offset, None)
        marker_offset = Offset(header.base_offset)
        heappush(self._ended, EndedTransaction(first_offset, marker_offset))
        if marker.control_type is not ControlType.ABORT:
            return None
        stable = next(iter(self._open), Offset(marker_offset + 1))
        return AbortedTransaction(entry.producer_id, first_offset, marker_offset, stable)

    def truncate(self, end_offset: Offset) -> bool:
        """Drop batches at `end_offset` or above; return False if that is not possible.

        The state is then unchanged, and the caller must rebuild it from the log. This happens if a
        producer has no batch left, so that an older epoch may apply, or after transactions.
        """
        if any(each.first_offset < end_offset <= each.marker_offset for each in self._ended):
            # The transaction of a producer that may have expired is open again.
            return False
        touched = [entry for entry in self if entry.reaches(end_offset)]
        if any(not entry.has_only_batches for entry in self) or any(
            entry.batches[0].last_offset >= end_offset for entry in touched
        ):
            return False
        for entry in touched:
            entry.truncate(end_offset)
        if self._ended:
            # Transactions of producers that have expired.
            self._ended = self.ended_below(end_offset)
            heapify(self._ended)
        return True

    # Transactions

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Return the offset below which all records are committed and all transactions decided.

        A transaction is decided once its marker is below the high watermark. `high_watermark` must
        not decrease between calls unless the log has been truncated.
        """
        ended = self._ended
        if not self._open and not ended:
            return high_watermark
        while ended and ended[0].marker_offset < high_watermark:
            heappop(ended)
        stable = min(high_watermark, next(iter(self._open), high_watermark))
        return min(stable, ended[0].first_offset) if ended else stable

    @property
    def open_transaction_count(self) -> int:
        """Number of open transactions."""
        return len(self._open)

    def has_transaction_idle_since(self, time_ms: int) -> bool:
        """Whether an open transaction has got no record since `time_ms`, by records' timestamps."""
        return any(
            self._entries[producer_id].last_timestamp_ms < time_ms
            for producer_id in self._open.values()
        )

    def ended_below(self, end_offset: Offset) -> list[EndedTransaction]:
        """Return the transactions whose markers, below `end_offset`, may not be committed yet."""
        return [each for each in self._ended if each.marker_offset < end_offset]

    def add_ended(self, transactions: Iterable[EndedTransaction]) -> None:
        """Add transactions that ended before the snapshot from which this state was loaded."""
        self._ended = list({*self._ended, *transactions})
        heapify(self._ended)

    # As a whole

    def last_records(self) -> dict[int, LastRecord]:
        """Return the newest record of each producer, whose batch compaction keeps, maybe empty.

        Any thread may call this.
        """
        return {
            entry.producer_id: LastRecord(
                Offset(entry.last_batch.last_offset) if entry.last_batch else None, entry.epoch
            )
            for entry in self
        }

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers without a write for `expiration_ms`; return the number removed.

        As in Kafka, record timestamps count. A producer with an open transaction never expires.
        """
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if now_ms - entry.last_timestamp_ms >= expiration_ms and not entry.has_transaction
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def load(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace the state by `entries`."""
        self.clear()
        self._entries.update({entry.producer_id: entry for entry in entries})
        begun = sorted(entry.transaction_first_offset for entry in self if entry.has_transaction)
        by_offset = {entry.transaction_first_offset: entry.producer_id for entry in self}
        self._open.update({offset: by_offset[offset] for offset in begun})

    def clear(self) -> None:
        """Remove all state."""
        self._entries.clear()
        self._open.clear()
        self._ended.clear()


def _check_epoch(entry: ProducerEntry, producer_epoch: int) -> None:
    if producer_epoch < entry.epoch:
        raise InvalidProducerEpochError(
            f"producer {entry.producer_id} writes with epoch {producer_epoch}, "
            f"epoch {entry.epoch} has written since"
        )


def _refusal(marker: NewMarker, epoch: int, coordinator_epoch: int) -> StorageError | None:
    """Return the reason against a marker after writes in these epochs."""
    if marker.producer_epoch < epoch:
        return InvalidProducerEpochError(
            f"a marker ends producer {marker.producer_id} in epoch {marker.producer_epoch}, "
            f"epoch {epoch} has written since"
        )
    if marker.coordinator_epoch < coordinator_epoch:
        return CoordinatorFencedError(
            f"a marker for producer {marker.producer_id} is of coordinator epoch "
            f"{marker.coordinator_epoch}, epoch {coordinator_epoch} has written since"
        )
    return None

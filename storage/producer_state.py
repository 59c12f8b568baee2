"""Who has written what into a log, so that nothing is written twice (decision module, no I/O).

Holds the producers of one log, up to its end. A leader asks `find_duplicate` before it appends, and
tells of what it wrote; what a follower or a start reads from a log is replayed without questions.
Invariant: what a producer's entry says follows from the batches below the log's end alone, in their
order. Source: KIP-98, KIP-360, and Kafka's ProducerStateManager and ProducerAppendInfo.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from kafkawire.ids import Offset
from kafkawire.records import BatchHeader, ControlType, EndTransactionMarker
from storage.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
)
from storage.producer_entry import (
    MAX_SEQUENCE,
    NO_OFFSET,
    NO_PRODUCER_EPOCH,
    RETAINED_BATCHES,
    ProducerEntry,
    WrittenBatch,
)
from storage.transaction_index import AbortedTransaction

_TRANSACTIONAL: Final = 0x10


class LastRecord(NamedTuple):
    """The newest record of a producer, which compaction keeps; None if its epoch wrote none."""

    offset: Offset | None
    producer_epoch: int


class EndedTransaction(NamedTuple):
    """A transaction that has its marker; both offsets are inclusive."""

    first_offset: Offset
    marker_offset: Offset


class ProducerState:
    """All producers that a log knows, and the transactions that are not over."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        # First offset -> producer id, ascending. Not a dict: to find the first key of one is
        # linear in what was deleted before it.
        self._open: OrderedDict[Offset, int] = OrderedDict()
        # A heap of the transactions whose marker may not be committed yet.
        self._ended: list[EndedTransaction] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(list(self._entries.values()))

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return what is known of a producer."""
        return self._entries.get(producer_id)

    # What a leader asks

    def find_duplicate(self, header: BatchHeader) -> WrittenBatch | None:
        """Return what was written already of a producer's batch; None if it is to be written now.

        Raises:
            OutOfOrderSequenceError: records of the producer are missing before this batch.
            InvalidProducerEpochError: a newer incarnation of the producer has written since.
            InvalidTransactionStateError: outside of the transaction that the producer has open.
        """
        entry = self._entries.get(header.producer_id)
        # Without state any sequence will do: retention may have removed all that there was.
        if entry is None or (
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
        if header.producer_epoch < entry.epoch:
            raise InvalidProducerEpochError(
                f"producer {entry.producer_id} writes with epoch {header.producer_epoch}, "
                f"epoch {entry.epoch} has written since"
            )
        is_new_epoch = header.producer_epoch != entry.epoch
        expected = 0 if is_new_epoch else entry.next_sequence
        if header.base_sequence != expected and entry.epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequenceError(
                f"producer {entry.producer_id} sends sequence {header.base_sequence} in epoch "
                f"{header.producer_epoch}, {expected} comes next"
            )
        if entry.has_transaction and not header.is_transactional:
            raise InvalidTransactionStateError(
                f"producer {entry.producer_id} has a transaction open since offset "
                f"{entry.transaction_first_offset}, and writes outside of it"
            )
        return None

    # What stands in the log now

    def on_append(self, header: BatchHeader, last_offset: Offset, timestamp_ms: int) -> None:
        """Note that the batch of `header`, no control batch, ends at `last_offset` in the log.

        `timestamp_ms` is the largest of its records as they stand in the log.
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            entry = self._entries[header.producer_id] = ProducerEntry(header.producer_id)
        if header.producer_epoch != entry.epoch:
            entry.move_to(header.producer_epoch)
        # As `ProducerEntry.add`, which costs twice as much (benchmarks/micro/test_producers.py).
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
        """Note a batch as it stands in the log; `marker` is what a control batch holds, if any.

        Returns the transaction that the marker has aborted, if there was one to abort.
        """
        if header.producer_id >= 0:
            if header.is_control:
                return None if marker is None else self._end_transaction(header, marker)
            self.on_append(header, Offset(header.last_offset), header.max_timestamp_ms)
        return None

    def recall(self, headers: Iterable[BatchHeader]) -> None:
        """Complete what a snapshot had: each producer's batches before the last one.

        `headers` are of neighbouring batches that lie before the snapshot, in their order.
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
        """Forget what lies at `end_offset` or behind it; False if that cannot be told from here.

        Then nothing has changed, and the log must be read again: a producer has nothing left, so
        that an older epoch may count, or there have been transactions.
        """
        touched = [entry for entry in self if entry.reaches(end_offset)]
        if any(not entry.has_only_batches for entry in self) or any(
            entry.batches[0].last_offset >= end_offset for entry in touched
        ):
            return False
        for entry in touched:
            entry.truncate(end_offset)
        if self._ended:
            # Of producers that have expired since.
            self._ended = self.ended_below(end_offset)
            heapify(self._ended)
        return True

    # Transactions

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Return up to where (exclusive) all is committed, and decided if it is transactional.

        A transaction counts as decided when its marker is below the high watermark, which must not
        have been higher in an earlier call unless the log was cut since.
        """
        ended = self._ended
        if not self._open and not ended:
            return high_watermark
        while ended and ended[0].marker_offset < high_watermark:
            heappop(ended)
        stable = min(high_watermark, next(iter(self._open), high_watermark))
        return min(stable, ended[0].first_offset) if ended else stable

    def ended_below(self, end_offset: Offset) -> list[EndedTransaction]:
        """Return the transactions whose markers, below `end_offset`, may not be committed yet."""
        return [each for each in self._ended if each.marker_offset < end_offset]

    def add_ended(self, transactions: Iterable[EndedTransaction]) -> None:
        """Know of transactions that ended before the snapshot that this was loaded from."""
        self._ended = list({*self._ended, *transactions})
        heapify(self._ended)

    # As a whole

    def last_records(self) -> dict[int, LastRecord]:
        """Return the newest record of each producer: compaction keeps its batch, empty if need be.

        Any thread may call this.
        """
        return {
            entry.producer_id: LastRecord(
                Offset(entry.last_batch.last_offset) if entry.last_batch else None, entry.epoch
            )
            for entry in self
        }

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget who wrote nothing for `expiration_ms`; return how many did not.

        Counted by the timestamps of their records, as by Kafka; never while a transaction is open.
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
        """Know exactly what `entries` say."""
        self.clear()
        self._entries.update({entry.producer_id: entry for entry in entries})
        begun = sorted(entry.transaction_first_offset for entry in self if entry.has_transaction)
        by_offset = {entry.transaction_first_offset: entry.producer_id for entry in self}
        self._open.update({offset: by_offset[offset] for offset in begun})

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._open.clear()
        self._ended.clear()

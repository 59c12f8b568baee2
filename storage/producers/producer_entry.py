"""The state of one producer in a log (decision).

Sequence numbers count the records of one producer in one partition. They start at 0 in each epoch,
and wrap to 0 after 2^31 - 1. Kafka keeps the last five batches of each producer, because that many
may be in flight at once. Source: KIP-98, KIP-360, and Kafka's ProducerStateEntry.
"""

from typing import Final, NamedTuple

from kafkawire.ids import Offset
from kafkawire.sentinels import NO_OFFSET, NO_PRODUCER_EPOCH, NO_TIMESTAMP

RETAINED_BATCHES: Final = 5
MAX_SEQUENCE: Final = 2**31 - 1
NO_COORDINATOR_EPOCH: Final = -1


class WrittenBatch(NamedTuple):
    """A batch of a producer in the log; sequences and offsets are inclusive."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def base_sequence(self) -> int:
        """Sequence number of the first record."""
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def base_offset(self) -> Offset:
        """Offset of the first record."""
        return Offset(self.last_offset - self.offset_delta)


class ProducerEntry:
    """One producer: its epoch, its last batches, and whether a transaction is open."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "next_sequence",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp_ms = NO_TIMESTAMP
        self.transaction_first_offset = NO_OFFSET
        """First offset of the open transaction; -1 without one."""
        self.batches: list[WrittenBatch] = []
        """The last batches, oldest first, at most `RETAINED_BATCHES`, all of `epoch`."""
        self.next_sequence = 0
        """Base sequence of the next batch of `epoch`."""

    @property
    def has_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self.transaction_first_offset != NO_OFFSET

    @property
    def last_batch(self) -> WrittenBatch | None:
        """The newest batch of the current epoch, if there is one."""
        return self.batches[-1] if self.batches else None

    @property
    def has_only_batches(self) -> bool:
        """Whether the entry derives from batches only, and not from the end of a transaction."""
        return (
            bool(self.batches)
            and not self.has_transaction
            and self.coordinator_epoch == NO_COORDINATOR_EPOCH
        )

    def reaches(self, offset: Offset) -> bool:
        """Whether a batch holds `offset` or a later one."""
        return bool(self.batches) and self.batches[-1].last_offset >= offset

    def truncate(self, end_offset: Offset) -> None:
        """Drop batches that hold `end_offset` or a later one; at least one batch must remain."""
        while self.batches[-1].last_offset >= end_offset:
            del self.batches[-1]
        last = self.batches[-1]
        self.next_sequence = (last.last_sequence + 1) & MAX_SEQUENCE
        self.last_timestamp_ms = last.timestamp_ms

    def find(self, base_sequence: int, last_sequence: int) -> WrittenBatch | None:
        """Return the batch that holds exactly these sequences, if it is known."""
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.base_sequence == base_sequence:
                return batch
        return None

    def add(self, epoch: int, batch: WrittenBatch) -> None:
        """Add a batch that was written under `epoch`."""
        self.move_to(epoch)
        batches = self.batches
        if len(batches) == RETAINED_BATCHES:
            del batches[0]
        batches.append(batch)
        self.next_sequence = (batch.last_sequence + 1) & MAX_SEQUENCE
        self.last_timestamp_ms = batch.timestamp_ms

    def move_to(self, epoch: int) -> None:
        """Adopt `epoch`; drop the batches of another epoch."""
        if self.epoch != epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0

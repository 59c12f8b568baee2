"""The state of a log's producers, as a broker has it after each batch (decision).

A broker forgets a producer without a write for `PRODUCER_EXPIRATION_MS` by its own clock, unless a
transaction is open. Record timestamps do not show that clock, so a forgotten producer is possible
wherever its last timestamp is old enough by now.

Source: ProducerStateManager and ProducerAppendInfo of Kafka 3.9.
"""

from typing import Final, Protocol

from kafkawire.columns_loops import SoundBatch
from kafkawire.records import BatchHeader, EndTransactionMarker
from kafkawire.records_header import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkawire.sentinels import NO_OFFSET
from logcheck.finding import Severity
from logcheck.log_view import ProducerObserver
from logcheck.marker import MarkerReading
from logcheck.producer_snapshot_bytes import ProducerEntry

PRODUCER_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000
"""Kafka's default of `producer.id.expiration.ms`."""
MAX_SEQUENCE: Final = 2**31 - 1
NO_VALUE: Final = -1
NEVER_KNOWN: Final = -1
"""A number of missing offsets that no log has, so that nothing is known since then."""


class Gaps(Protocol):
    """The holes of a log up to the current batch."""

    missing_count: int
    """The number of offsets that are missing between batches, so far."""

    @property
    def has_damage(self) -> bool:
        """Whether batches may have been skipped because they are damaged."""


class WholeLog:
    """A log without any hole, or with none that matters."""

    missing_count = 0
    has_damage = False


class Producer:
    """The state of one producer; absent values are -1, as in a snapshot."""

    __slots__ = (
        "coordinator_epoch",
        "data_timestamp_ms",
        "epoch",
        "has_open_data",
        "has_timestamp",
        "is_cleared",
        "is_epoch_by_marker",
        "last_offset",
        "last_sequence",
        "leader_epoch",
        "may_be_forgotten",
        "missing_at_batch",
        "missing_at_data",
        "missing_at_marker",
        "offset_delta",
        "seen_offset",
        "timestamp_ms",
        "transaction_first_offset",
    )

    def __init__(self) -> None:
        self.epoch = NO_VALUE
        self.last_sequence = NO_VALUE
        self.leader_epoch = NO_VALUE
        """The epoch of the leader that appended the last batch or marker."""
        self.last_offset: int = NO_OFFSET
        self.offset_delta = 0
        self.timestamp_ms = NO_VALUE
        self.data_timestamp_ms = NO_VALUE
        """The timestamp of the last data batch, even of an older epoch."""
        self.has_timestamp = True
        """Whether no cleaner has changed the timestamp of the last batch or marker."""
        self.coordinator_epoch = NO_VALUE
        self.transaction_first_offset: int = NO_OFFSET
        self.has_open_data = False
        """Whether records of an open transaction exist."""
        self.seen_offset: int = NO_OFFSET
        """The offset of the last batch or marker."""
        self.missing_at_batch = 0
        """The number of offsets missing before the last batch or marker."""
        self.missing_at_marker: int | None = None
        """The number of offsets missing before the last marker; None without any."""
        self.missing_at_data: int | None = None
        """The number of offsets missing before the last data batch; None without any."""
        self.is_epoch_by_marker = False
        """Whether the epoch began with a marker, so that its first sequence is 0."""
        self.may_be_forgotten = False
        """Whether a broker may have forgotten the producer since its last marker."""
        self.is_cleared = False
        """Whether a broker had forgotten the producer's batches when it appended the marker."""

    @property
    def next_sequence(self) -> int:
        """The first sequence of the next batch of the epoch."""
        return (self.last_sequence + 1) & MAX_SEQUENCE

    def has_expired(self, now_ms: int) -> bool:
        """Whether a broker has forgotten the producer at `now_ms`."""
        return not self.has_open_data and now_ms - self.timestamp_ms >= PRODUCER_EXPIRATION_MS


def producer_of(entry: ProducerEntry) -> Producer:
    """Return the state in an entry of a snapshot, before the first batch of a log."""
    producer = Producer()
    producer.epoch = entry.producer_epoch
    producer.last_sequence, producer.last_offset = entry.last_sequence, entry.last_offset
    producer.offset_delta = entry.offset_delta
    producer.timestamp_ms = producer.data_timestamp_ms = entry.timestamp_ms
    producer.coordinator_epoch = entry.coordinator_epoch
    producer.transaction_first_offset = entry.transaction_first_offset
    producer.has_open_data = entry.transaction_first_offset != NO_OFFSET
    producer.seen_offset = max(entry.last_offset, entry.transaction_first_offset)
    producer.missing_at_data = producer.missing_at_marker = 0
    return producer


def continuity(before: Producer, timestamp_ms: int, now_ms: int) -> Severity | None:
    """Return the certainty that a batch with this timestamp must continue its producer's state.

    A warning if only timestamps that are older than their append could explain a forgotten
    producer.
    """
    if not before.has_expired(now_ms):
        return Severity.ERROR
    return None if before.has_expired(timestamp_ms) else Severity.WARNING


class ProducerReplay(ProducerObserver):
    """An observer that keeps the state of each producer."""

    def __init__(self, gaps: Gaps | None = None, now_ms: int = 0) -> None:
        self.producers: dict[int, Producer] = {}
        self._gaps = gaps or WholeLog()
        self._now_ms = now_ms

    def on_producer_batch(self, batch: SoundBatch, reading: MarkerReading) -> None:
        """See `log_view.ProducerObserver`."""
        self.apply(batch, reading.marker)

    def apply(self, batch: SoundBatch, marker: EndTransactionMarker | None) -> None:
        """Add a batch; `marker` is that of a control batch, None if it holds none."""
        header = batch.header
        attributes, record_count = header.attributes, header.record_count
        if attributes & CONTROL_BIT:
            if marker is not None:
                self._end_transaction(header, marker.coordinator_epoch)
            elif record_count == 0:
                self._forget(header)
            return
        producer = self._producer(header)
        if producer.epoch != header.producer_epoch:
            self._begin_epoch(producer, header.producer_epoch)
        producer.is_epoch_by_marker = False
        producer.missing_at_data = self._gaps.missing_count
        producer.last_sequence = header.last_sequence
        producer.last_offset = producer.seen_offset
        producer.offset_delta = header.last_offset_delta
        producer.data_timestamp_ms = producer.timestamp_ms = header.max_timestamp_ms
        producer.has_timestamp = record_count > producer.offset_delta
        producer.is_cleared = False
        if attributes & TRANSACTIONAL_BIT:
            if record_count:
                producer.has_open_data = True
            if producer.transaction_first_offset < 0:
                producer.transaction_first_offset = header.base_offset

    def _forget(self, header: BatchHeader) -> None:
        """Take the state of a producer for unknown, since a cleaner has emptied its marker.

        A broker that appended the marker knew it. One that reads the empty batch ignores it.
        """
        producer = self.producers.get(header.producer_id)
        if producer is None:
            producer = self.producers[header.producer_id] = Producer()
            producer.epoch, producer.missing_at_data = header.producer_epoch, NEVER_KNOWN
        producer.missing_at_batch = producer.missing_at_marker = NEVER_KNOWN

    def _producer(self, header: BatchHeader) -> Producer:
        """Return the producer of a batch or marker, which the log has now reached."""
        producer = self.producers.get(header.producer_id)
        if producer is None:
            producer = self.producers[header.producer_id] = Producer()
        elif not producer.has_open_data and producer.has_expired(self._now_ms):
            producer.may_be_forgotten = True
        producer.seen_offset = header.last_offset
        producer.leader_epoch = header.leader_epoch
        producer.missing_at_batch = self._gaps.missing_count
        return producer

    def _begin_epoch(self, producer: Producer, epoch: int) -> None:
        producer.epoch = epoch
        producer.last_sequence, producer.last_offset, producer.offset_delta = NO_VALUE, NO_OFFSET, 0

    def _end_transaction(self, header: BatchHeader, coordinator_epoch: int) -> None:
        before = self.producers.get(header.producer_id)
        # The timestamp of a marker is the clock of its broker.
        is_cleared = before is not None and before.has_expired(header.max_timestamp_ms)
        producer = self._producer(header)
        producer.is_cleared = producer.is_cleared or is_cleared
        producer.may_be_forgotten = producer.has_open_data = False
        if producer.epoch != header.producer_epoch:
            # Without any batch before, the batches of this epoch may merely be missing.
            producer.is_epoch_by_marker = producer.epoch != NO_VALUE
            self._begin_epoch(producer, header.producer_epoch)
        producer.coordinator_epoch = coordinator_epoch
        producer.timestamp_ms, producer.has_timestamp = header.max_timestamp_ms, True
        producer.missing_at_marker = self._gaps.missing_count
        producer.transaction_first_offset = NO_OFFSET

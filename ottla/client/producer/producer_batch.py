"""Records of one partition that are sent together, and their deliveries (decision).

Records are encoded on arrival. The batch is compressed and sealed when it is first sent. Every
retry sends the same bytes, unless an idempotent producer had to assign new sequence numbers.
Invariant: each delivery is settled exactly once, in the order of the records.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from itertools import count, repeat
from typing import Final, TypeAlias

from kafkawire.compression import Codec
from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.records import (
    BATCH_HEADER_BYTES,
    NO_SEQUENCE,
    BatchBuilder,
    read_header,
    read_records,
    write_header,
)
from kafkawire.sentinels import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from ottla.client.errors import OttlaError
from ottla.client.producer.producer_sequences import MAX_SEQUENCE, ProducerIdentity
from ottla.client.record import BytesLike, Headers, RecordMetadata, UnsentRecord

Delivery: TypeAlias = asyncio.Future[RecordMetadata]


class ProducerBatch:
    """A batch that is filled, sent, perhaps retried, and settled."""

    __slots__ = (
        "_builder",
        "_payload",
        "append",
        "attempt_count",
        "base_sequence",
        "counted_bytes",
        "created_at_s",
        "deliveries",
        "identity",
        "is_closed",
        "is_done",
        "is_full",
        "last_error",
        "may_be_written",
        "on_done",
        "retry_at_s",
        "timestamps_ms",
        "topic_partition",
        "tried_epoch",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        codec: Codec,
        reserved_bytes: int,
        created_at_s: float,
        *,
        level: int | None = None,
        is_transactional: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.created_at_s = created_at_s
        self.counted_bytes = BATCH_HEADER_BYTES
        """Share of `filled_bytes` that was reported to the partitioner."""
        self._builder = BatchBuilder(
            codec, is_transactional=is_transactional, level=level, limit_bytes=reserved_bytes
        )
        self.append = self._builder.append
        """Adds a record, unless it returns -1; the caller also adds its delivery and timestamp."""
        self.deliveries: list[Delivery] = []
        self.timestamps_ms: list[int] = []
        self.is_full = False
        """Whether a record did not fit, so that the batch need not linger."""
        self.is_closed = False
        """Whether the batch accepts no more records."""
        self.is_done = False
        self.on_done: list[Callable[[], None]] = []
        self.attempt_count = 0
        self.retry_at_s = created_at_s
        self.last_error: OttlaError | None = None
        """Error of the last attempt."""
        self.tried_epoch: LeaderEpoch = NO_EPOCH
        """Leader epoch of the last attempt; under a newer epoch the retry need not wait."""
        self.identity: ProducerIdentity | None = None
        """Identity under which records are numbered from `base_sequence`; None if they are not."""
        self.base_sequence = NO_SEQUENCE
        self.may_be_written = False
        """Whether the records may be in the log as part of a larger batch with the same numbers.

        Brokers recognise only whole batches. New numbers could write the records a second time.
        """
        self._payload: bytearray | None = None

    @property
    def filled_bytes(self) -> int:
        """Size without compression."""
        return self._builder.size_bytes

    @property
    def reserved_bytes(self) -> int:
        """Memory reserved for the batch, and the limit of its size while it is open."""
        return self._builder.limit_bytes

    @reserved_bytes.setter
    def reserved_bytes(self, reserved_bytes: int) -> None:
        """Change both."""
        self._builder.limit_bytes = reserved_bytes

    def identify(self, identity: ProducerIdentity, base_sequence: int) -> None:
        """Set producer id, epoch and base sequence; `identity` must be None before."""
        assert self.identity is None
        self.identity, self.base_sequence = identity, base_sequence
        builder = self._builder
        builder.producer_id, builder.producer_epoch = identity
        builder.base_sequence = base_sequence
        if self._payload is not None:
            header = read_header(self._payload)._replace(
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                base_sequence=base_sequence,
            )
            write_header(self._payload, header)

    def payload(self) -> bytearray:
        """Return the encoded batch; it must be closed."""
        assert self.is_closed
        if self._payload is None:
            self._payload = self._builder.build()
        return self._payload

    def complete(self, base_offset: Offset, log_append_time_ms: int) -> None:
        """Settle every delivery: the records are in the log from `base_offset` on."""
        topic, partition = self.topic_partition
        is_create_time = log_append_time_ms == NO_TIMESTAMP
        # Built in C: calling RecordMetadata(...) would double the cost of a delivery.
        written = map(
            tuple.__new__,
            repeat(RecordMetadata),
            zip(
                repeat(topic),
                repeat(partition),
                repeat(NO_OFFSET) if base_offset == NO_OFFSET else count(base_offset),
                self.timestamps_ms if is_create_time else repeat(log_append_time_ms),
                strict=False,
            ),
        )
        for delivery, record in zip(self.deliveries, written, strict=False):
            try:
                delivery.set_result(record)
            except asyncio.InvalidStateError:
                # Cancelled by the application; the record is written nevertheless.
                continue
        self._finish()

    def fail(self, error: OttlaError, by_index: Mapping[int, OttlaError] | None = None) -> None:
        """Settle every delivery with `error`, or with the error of its record in `by_index`."""
        for index, delivery in enumerate(self.deliveries):
            if not delivery.done():
                delivery.set_exception((by_index or {}).get(index, error))
                # Mark the error as retrieved: asyncio would log each unawaited future, and the
                # sender logs the batch.
                delivery.exception()
        self._finish()

    def split(self, now_s: float) -> tuple["ProducerBatch", "ProducerBatch"]:
        """Return two batches with half of the records each; the broker found this one too large.

        They take over its deliveries, callbacks and reserved memory; this batch is done.
        """
        middle = len(self.deliveries) // 2
        assert middle > 0
        first = self._part(0, middle, self.reserved_bytes // 2, now_s)
        rest = self.reserved_bytes - first.reserved_bytes
        second = self._part(middle, len(self.deliveries), rest, now_s)
        on_part_done = _after_both(self.on_done)
        first.on_done.append(on_part_done)
        second.on_done.append(on_part_done)
        self.is_done = True
        return first, second

    def _part(self, start: int, end: int, reserved_bytes: int, now_s: float) -> "ProducerBatch":
        part = ProducerBatch(
            self.topic_partition,
            self._builder.codec,
            # No limit: half of the records may be most of the bytes, and need more bytes than
            # before for timestamps below the one of the first record.
            sys.maxsize,
            self.created_at_s,
            level=self._builder.level,
            is_transactional=self._builder.is_transactional,
        )
        for record in read_records(self.payload())[start:end]:
            added = part.append(record.timestamp_ms, record.key, record.value, record.headers)
            assert added >= 0, "the part has no limit yet"
        part.reserved_bytes = reserved_bytes
        part.deliveries = self.deliveries[start:end]
        part.timestamps_ms = self.timestamps_ms[start:end]
        part.is_closed = True
        part.retry_at_s = now_s
        if self.identity is not None:
            part.identify(self.identity, (self.base_sequence + start) & MAX_SEQUENCE)
            # An earlier attempt may have succeeded before the limit of the topic was lowered.
            part.may_be_written = self.may_be_written or self.attempt_count > 1
        return part

    def _finish(self) -> None:
        assert not self.is_done, "a batch is settled once"
        self.is_done = True
        for callback in self.on_done:
            callback()


def _after_both(callbacks: list[Callable[[], None]]) -> Callable[[], None]:
    """Return the callback of two halves, which may be settled in any order.

    An abort drops a half that waits while the other one is in flight.
    """
    # It has no reference to the whole, whose bytes count no longer.
    left = 2

    def on_part_done() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            for callback in callbacks:
                callback()

    return on_part_done


MAX_RECORD_OVERHEAD_BYTES: Final = 21
"""Maximum size of lengths, deltas and attributes, as in Kafka's clients."""

MAX_HEADER_OVERHEAD_BYTES: Final = 10


def max_batch_size(record: UnsentRecord) -> int:
    """Return the maximum size of a batch of this record alone, in bytes before compression."""
    overhead = BATCH_HEADER_BYTES + MAX_RECORD_OVERHEAD_BYTES
    return overhead + _length(record.key) + _length(record.value) + headers_size(record.headers)


def headers_size(headers: Headers) -> int:
    """Return the maximum size of `headers` in a record, in bytes."""
    return sum(
        MAX_HEADER_OVERHEAD_BYTES + len(name.encode()) + _length(value) for name, value in headers
    )


def _length(data: BytesLike | None) -> int:
    if data is None:
        return 0
    return data.nbytes if isinstance(data, memoryview) else len(data)

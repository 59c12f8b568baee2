"""Build record batches from records, in the same way as Kafka's producer (decision).

Invariant: offsets within a built batch are dense from 0, the base timestamp is the first record's,
and the checksum is right.
"""

from kafkawire.compression import MAX_DECOMPRESSED_BYTES, Codec, compress
from kafkawire.errors import EncodeError
from kafkawire.native import RecordBuffer
from kafkawire.records_header import (
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    CONTROL_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    BytesLike,
    TimestampType,
    read_header,
    write_header,
)
from kafkawire.records_read import record_section
from kafkawire.sentinels import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

_MAX_INT32 = 2**31 - 1


class BatchBuilder:
    """A batch under construction: `append` records, then `build`.

    `append(timestamp_ms, key, value, headers)` returns the record's offset delta, or -1 if the
    batch is full: it has a record already, and would exceed `limit_bytes` before compression.
    """

    __slots__ = (
        "_is_control",
        "_records",
        "append",
        "base_sequence",
        "codec",
        "is_transactional",
        "level",
        "producer_epoch",
        "producer_id",
        "timestamp_type",
    )

    def __init__(
        self,
        codec: Codec = Codec.NONE,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        *,
        limit_bytes: int = _MAX_INT32,
        level: int | None = None,
        is_control: bool = False,
    ) -> None:
        self._records = RecordBuffer(BATCH_HEADER_BYTES, limit_bytes)
        # The buffer's own method: with the compiled scanner no Python code runs between caller and
        # loop (benchmarks/micro/test_records.py).
        self.append = self._records.append
        self.codec = codec
        self.level = level
        self.timestamp_type = timestamp_type
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self._is_control = is_control

    @property
    def record_count(self) -> int:
        """Number of records so far."""
        return self._records.record_count

    @property
    def size_bytes(self) -> int:
        """Size of the batch so far, without compression."""
        return self._records.size_bytes

    @property
    def limit_bytes(self) -> int:
        """Size without compression that no record after the first may exceed; may be changed."""
        return self._records.limit_bytes

    @limit_bytes.setter
    def limit_bytes(self, limit_bytes: int) -> None:
        """Set it, without a look at the records so far."""
        self._records.limit_bytes = limit_bytes

    def build(self, base_offset: int = 0, leader_epoch: int = NO_EPOCH) -> bytearray:
        """Return the batch of the records so far; the builder can take more records afterwards.

        Raises:
            EncodeError: there is no record, or the producer's fields contradict each other.
        """
        self._check_producer()
        records = self._records
        batch = records.to_bytearray()
        if self.codec is not Codec.NONE:
            batch[BATCH_HEADER_BYTES:] = compress(self.codec, records.records(), self.level)
        attributes = self.codec | self.timestamp_type << 3
        attributes |= TRANSACTIONAL_BIT if self.is_transactional else 0
        attributes |= CONTROL_BIT if self._is_control else 0
        header = BatchHeader(
            base_offset=base_offset,
            batch_length=len(batch) - LOG_OVERHEAD_BYTES,
            leader_epoch=leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=records.record_count - 1,
            base_timestamp_ms=records.base_timestamp_ms,
            max_timestamp_ms=records.max_timestamp_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=records.record_count,
        )
        write_header(batch, header)
        return batch

    def _check_producer(self) -> None:
        if not self._records.record_count:
            raise EncodeError("a batch needs a record")
        if self.producer_id == NO_PRODUCER_ID:
            if self.is_transactional:
                raise EncodeError("a transactional batch needs a producer id")
        elif self.producer_epoch < 0:
            raise EncodeError(f"a producer id needs an epoch, got {self.producer_epoch}")
        elif self.base_sequence < 0 and not self._is_control:
            raise EncodeError(f"a producer id needs a base sequence, got {self.base_sequence}")


def recompress(
    batch: BytesLike,
    codec: Codec,
    level: int | None = None,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytearray:
    """Return the same records in a new batch with another codec, for a topic that requires it.

    Raises:
        CorruptBatchError: `batch` cannot be read, or is larger than `max_bytes` when decompressed.
    """
    header = read_header(batch)
    section = compress(codec, record_section(batch, header, max_bytes), level)
    result = bytearray(BATCH_HEADER_BYTES)
    result += section
    attributes = header.attributes & ~CODEC_MASK | codec
    length = len(result) - LOG_OVERHEAD_BYTES
    write_header(result, header._replace(attributes=attributes, batch_length=length))
    return result

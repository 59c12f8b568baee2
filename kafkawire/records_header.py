"""The 61 bytes at the head of a record batch, and all operations on them alone (decision).

Owns the layout of format v2 (magic 2), the only format that Ottla reads and writes:

    base offset 8 | length 4 | leader epoch 4 | magic 1 | CRC-32C 4 | attributes 2 |
    last offset delta 4 | base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2 |
    base sequence 4 | record count 4 | records, compressed or not

Invariant: the checksum covers everything from the attributes to the end. The fields that a leader
assigns (base offset, leader epoch) lie in front of it, so that a batch is stored as it was sent.

Source: KIP-98, and org.apache.kafka.common.record.DefaultRecordBatch of Kafka 3.9.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from kafkawire.compression import Codec
from kafkawire.errors import CorruptBatchError
from kafkawire.sentinels import NO_SEQUENCE

BytesLike: TypeAlias = bytes | bytearray | memoryview

BATCH_HEADER_BYTES: Final = 61
MAGIC: Final = 2

# The length field does not count base offset and length.
LOG_OVERHEAD_BYTES: Final = 12
HEADER: Final = Struct(">qiibIhiqqqhii")
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

_MIN_LENGTH: Final = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES
_MAX_BASE_OFFSET: Final = 2**63 - 2**31
_MAGIC_POSITION: Final = 16
_MAX_TIMESTAMP_POSITION: Final = 35
_LENGTH: Final = Struct(">i")
_OFFSET: Final = Struct(">q")
_EPOCH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_TIMESTAMP: Final = Struct(">q")


class TimestampType(IntEnum):
    """Origin of a batch's timestamps: its producer, or the broker at the time of the append."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


# A lookup by number: calling the enum costs four times as much, several times per batch.
_CODECS: Final = tuple(Codec)
_TIMESTAMP_TYPES: Final = tuple(TimestampType)


class BatchHeader(NamedTuple):
    """The header's fields, in the order of the wire.

    A named tuple, because one struct call creates it (benchmarks/micro/test_records.py).
    """

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the batch, including the header."""
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        """Offset of the last record, whether or not compaction has removed it (inclusive)."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; sequences wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> Codec:
        """Compression of the records.

        Raises:
            CorruptBatchError: the batch names a codec that does not exist.
        """
        number = self.attributes & CODEC_MASK
        if number >= len(_CODECS):
            raise CorruptBatchError(f"unknown codec {number}")
        return _CODECS[number]

    @property
    def timestamp_type(self) -> TimestampType:
        """Origin of the timestamps."""
        return _TIMESTAMP_TYPES[(self.attributes & LOG_APPEND_TIME_BIT) >> 3]

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker of the cluster instead of records of a user."""
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which compaction may remove the batch's tombstones; None until it is set."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None


def read_header(data: BytesLike, position: int = 0) -> BatchHeader:
    """Read the header at `position`; the records need not be present.

    Raises:
        CorruptBatchError: the bytes are too short, not format v2, or hold impossible values.
    """
    try:
        # Without BatchHeader._make, a Python function that costs as much as everything else here.
        header = tuple.__new__(BatchHeader, HEADER.unpack_from(data, position))
    except struct.error:
        raise CorruptBatchError(
            f"a batch header needs {BATCH_HEADER_BYTES} bytes at position {position}, "
            f"{max(0, len(data) - position)} are there"
        ) from None
    if (
        header.magic != MAGIC
        or header.batch_length < _MIN_LENGTH
        or not 0 <= header.base_offset < _MAX_BASE_OFFSET
        or header.last_offset_delta < 0
        or header.record_count < 0
    ):
        raise CorruptBatchError(f"impossible batch header at position {position}: {header}")
    return header


def iterate_batches(data: BytesLike) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield the batches in `data`, each with its bytes (a view, not a copy).

    A truncated last batch ends the iteration silently, because a fetch response may have one.

    Raises:
        CorruptBatchError: no valid batch begins where one must.
    """
    view = memoryview(data)
    position = 0
    while (size := batch_size_at(view, position)) is not None:
        yield read_header(view, position), view[position : position + size]
        position += size


def batch_size_at(data: BytesLike, position: int) -> int | None:
    """Return the size of the batch at `position`; None if `data` ends within it.

    Raises:
        CorruptBatchError: the length there is smaller than a header.
    """
    remaining = len(data) - position
    if remaining < LOG_OVERHEAD_BYTES:
        return None
    length: int = _LENGTH.unpack_from(data, position + 8)[0]
    if length < _MIN_LENGTH:
        raise CorruptBatchError(
            f"batch length {length} at position {position}, the least is {_MIN_LENGTH}"
        )
    size = LOG_OVERHEAD_BYTES + length
    return size if size <= remaining else None


def crc_matches(batch: memoryview, header: BatchHeader) -> bool:
    """Whether the checksum in the header matches the bytes."""
    return header.crc == crc32c(batch[ATTRIBUTES_POSITION : header.size_bytes])


def assign_offsets(batch: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write the fields that a leader assigns into `batch`, in place; the checksum stays valid."""
    _OFFSET.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, LOG_OVERHEAD_BYTES, leader_epoch)


def set_log_append_time(batch: memoryview, timestamp_ms: int) -> None:
    """Set the time of every record of `batch` to the broker's, in place, with a new checksum.

    The bytes of the records keep their own timestamps; a reader that sees the bit ignores them.
    """
    attributes: int = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_POSITION)[0]
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_POSITION, attributes | LOG_APPEND_TIME_BIT)
    set_max_timestamp(batch, timestamp_ms)


def set_max_timestamp(batch: memoryview, timestamp_ms: int) -> None:
    """Correct the largest timestamp in the header of `batch`, in place, with a new checksum."""
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_POSITION, timestamp_ms)
    _write_crc(batch)


def write_header(batch: bytearray, header: BatchHeader) -> None:
    """Write `header` over the head of `batch`, with the checksum of its current bytes."""
    HEADER.pack_into(batch, 0, *header)
    _write_crc(memoryview(batch))


def _write_crc(batch: memoryview) -> None:
    _CRC.pack_into(batch, CRC_POSITION, crc32c(batch[ATTRIBUTES_POSITION:]))

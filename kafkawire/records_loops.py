"""Every loop over the records of a batch, and the check of each produced batch (decision).

The input is the decompressed record section of a batch. Each record is

    length varint | attributes 1 | timestamp delta varlong | offset delta varint |
    key length varint, key | value length varint, value |
    header count varint, then per header: key length varint, key | value length varint, value

with zig-zag varints; a negative length means null. `kafkawire/_records.pyx` is this module's
compiled twin: it has the same names, results and errors, and `native` chooses between them
(docs/adr/0009-compiled-record-scanner.md).

Invariant: a section is either read to its last byte or rejected with CorruptBatchError; a count or
a length that the bytes cannot hold is rejected before anything is allocated for it.

Source: org.apache.kafka.common.record.DefaultRecord of Kafka 3.9.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from kafkawire.errors import CorruptBatchError, EncodeError
from kafkawire.records_header import (
    BATCH_HEADER_BYTES,
    HEADER,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    BytesLike,
    assign_offsets,
    crc_matches,
)

__all__ = [
    "BytesLike",
    "Headers",
    "HeadersLike",
    "RecordBuffer",
    "Row",
    "Survey",
    "assign_offsets",
    "iterate_fields",
    "read_plain_batch",
    "read_rows",
    "survey_records",
]

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
HeadersLike: TypeAlias = Sequence[tuple[str, BytesLike | None]]
Row = TypeVar("Row", bound=tuple[Any, ...])
_Fields: TypeAlias = tuple[int, int, bytes | None, bytes | None, Headers]

MIN_RECORD_BYTES: Final = 7
_LARGE_SECTION_BYTES: Final = 1 << 20
_NOT_PLAIN: Final = 0x2F
"""Attribute bits of batches that are compressed, have log append time, or are markers."""
_NO_TIMESTAMP: Final = -1
_INT32_BITS: Final = 32
_INT64_BITS: Final = 64
_MAX_INT32: Final = 2**31 - 1
_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1
# One below the maximum, so that its distance from a base timestamp of -1 also fits.
MAX_TIMESTAMP_MS: Final = 2**63 - 2


class Survey(NamedTuple):
    """Summary of the records of one batch, for a validator."""

    earliest_timestamp_ms: int
    """Smallest timestamp of records that have one; -1 if none has one."""
    latest_timestamp_ms: int
    """Largest timestamp; -1 if none has one."""
    first_without_key: int
    """Index of the first record with a null key; -1 if all have a key."""
    first_out_of_place: int
    """Index of the first record with an offset delta other than its index; -1 if there is none."""


def read_rows(
    data: BytesLike,
    count: int,
    base_offset: int,
    base_timestamp_ms: int,
    append_timestamp_ms: int | None,
    row_type: type[Row],
    before: tuple[object, ...],
    after: tuple[object, ...],
) -> list[Row]:
    """Read `count` records as rows (*before, offset, timestamp, key, value, headers, *after).

    `row_type` is a tuple class, such as a NamedTuple with those fields; its constructor is not
    called. Every row has the time `append_timestamp_ms`, if that is given. `base_offset` must be
    low enough that no offset exceeds 64 bits.

    Raises:
        CorruptBatchError: the bytes are not `count` records.
    """
    rows = list(iterate_fields(bytes(data), count, base_offset, base_timestamp_ms))
    if append_timestamp_ms is not None:
        rows = [(row[0], append_timestamp_ms, row[2], row[3], row[4]) for row in rows]
    else:
        _check_timestamp(min((row[1] for row in rows), default=0))
        _check_timestamp(max((row[1] for row in rows), default=0))
    if before or after:
        return [tuple.__new__(row_type, before + row + after) for row in rows]
    return list(map(partial(tuple.__new__, row_type), rows))


def survey_records(data: BytesLike, count: int, base_timestamp_ms: int) -> Survey:
    """Walk `count` records and return the summary that a validator needs.

    Raises:
        CorruptBatchError: the bytes are not `count` records.
    """
    earliest_ms = latest_ms = _NO_TIMESTAMP
    without_key = out_of_place = -1
    # Copying a large section, and then its values, would block all other threads.
    is_large = len(data) >= _LARGE_SECTION_BYTES
    section = cast(bytes, memoryview(data)) if is_large else bytes(data)
    fields = iterate_fields(section, count, 0, base_timestamp_ms)
    for index, (offset, timestamp_ms, key, _, _) in enumerate(fields):
        if timestamp_ms != _NO_TIMESTAMP:
            _check_timestamp(timestamp_ms)
            if timestamp_ms < earliest_ms or earliest_ms == _NO_TIMESTAMP:
                earliest_ms = timestamp_ms
            if timestamp_ms > latest_ms:
                latest_ms = timestamp_ms
        if key is None and without_key < 0:
            without_key = index
        if offset != index and out_of_place < 0:
            out_of_place = index
    return Survey(earliest_ms, latest_ms, without_key, out_of_place)


def read_plain_batch(
    batch: memoryview,
    most_bytes: int,
    needs_key: bool,
    times_matter: bool,
    now_ms: int,
    before_max_ms: int,
    after_max_ms: int,
) -> BatchHeader | None:
    """Return the header of a plain, valid batch of a producer; None if it needs a closer look.

    Such a batch is complete, alone, of at most `most_bytes`, with a correct checksum. It is not
    compressed, not a marker, and has timestamps of its producer. Its records have offset deltas
    from 0 without gaps and, with `needs_key`, keys. With `times_matter`, their timestamps are
    within the limits (neither is negative), and the largest one equals that in the header.
    """
    if not BATCH_HEADER_BYTES <= len(batch) <= most_bytes:
        return None
    header = BatchHeader(*HEADER.unpack_from(batch))
    is_framed = (
        header.magic == MAGIC
        and header.base_offset == 0
        and header.batch_length == len(batch) - LOG_OVERHEAD_BYTES
    )
    if not is_framed or header.attributes & _NOT_PLAIN or header.record_count <= 0:
        return None
    if header.last_offset_delta != header.record_count - 1:
        return None
    if header.base_sequence < 0 <= header.producer_id:
        return None
    section = memoryview(batch)[BATCH_HEADER_BYTES:]
    try:
        survey = survey_records(section, header.record_count, header.base_timestamp_ms)
    except CorruptBatchError:
        return None
    earliest_ms, latest_ms, without_key, out_of_place = survey
    if out_of_place >= 0 or (needs_key and without_key >= 0):
        return None
    if times_matter:
        # The latest one stays at -1 if all are below.
        has_times = earliest_ms != _NO_TIMESTAMP
        oldest_ms, newest_ms = now_ms - before_max_ms, now_ms + after_max_ms
        if has_times and not oldest_ms <= earliest_ms <= latest_ms <= newest_ms:
            return None
        if latest_ms != header.max_timestamp_ms:
            return None
    return header if crc_matches(batch, header) else None


def _check_timestamp(timestamp_ms: int) -> None:
    if not _MIN_INT64 <= timestamp_ms <= _MAX_INT64:
        raise CorruptBatchError("a timestamp leaves 64 bits")


def iterate_fields(
    section: bytes, count: int, base_offset: int, base_timestamp_ms: int
) -> Iterator[_Fields]:
    """Yield `count` records one at a time, because a validator must not hold them all.

    A slice may run past the end unnoticed, but then the end of the record differs from its length,
    or the end of the section from that of the last record.
    """
    if count * MIN_RECORD_BYTES > len(section):
        raise CorruptBatchError(f"{len(section)} bytes cannot hold {count} records")
    position = 0
    try:
        for _ in range(count):
            length, position = _read_length(section, position)
            if length < 0:
                raise CorruptBatchError(f"negative record length {length}")
            record_end = position + length
            # The attributes, which are unused in all versions, take one byte.
            number, position = read_varint(section, position + 1, _INT64_BITS)
            timestamp = base_timestamp_ms + _signed(number)
            offset_delta, position = _read_length(section, position)
            key, position = _read_span(section, position)
            value, position = _read_span(section, position)
            headers, position = _read_headers(section, position)
            if position != record_end:
                raise CorruptBatchError(f"a record ends at {position} instead of {record_end}")
            yield base_offset + offset_delta, timestamp, key, value, headers
    except IndexError:
        raise CorruptBatchError(f"a record runs past the end, {len(section)} bytes") from None
    if position != len(section):
        raise CorruptBatchError(f"{count} records end at {position} of {len(section)} bytes")


def _read_headers(section: bytes, position: int) -> tuple[Headers, int]:
    count, position = _read_length(section, position)
    if not 0 <= count <= len(section) - position:
        raise CorruptBatchError(f"impossible count of headers {count}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = _read_span(section, position)
        if key is None:
            raise CorruptBatchError("the key of a header is null")
        value, position = _read_span(section, position)
        # Like Kafka's readers, replace invalid UTF-8 instead of losing the record.
        headers.append((bytes(key).decode(errors="replace"), value))
    return tuple(headers), position


def _read_span(section: bytes, position: int) -> tuple[bytes | None, int]:
    length, start = _read_length(section, position)
    if length < 0:
        return None, start
    return section[start : start + length], start + length


def _read_length(section: bytes, position: int) -> tuple[int, int]:
    number, position = read_varint(section, position, _INT32_BITS)
    return _signed(number), position


def _signed(number: int) -> int:
    """Return the number that a zig-zag varint stands for."""
    return number >> 1 ^ -(number & 1)


def read_varint(section: bytes, position: int, bits: int) -> tuple[int, int]:
    """Read a varint of at most `bits` bits, still zig-zag, and the position after it."""
    number = shift = 0
    while True:
        byte = section[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            raise CorruptBatchError(f"a varint does not end within {bits} bits")
    if number >> bits:
        raise CorruptBatchError(f"a varint exceeds {bits} bits")
    return number, position


def encode_varint(value: int) -> bytes:
    """Return the zig-zag varint of `value`, which must fit 64 bits."""
    number = value << 1 ^ value >> 63
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


# Nearly all lengths and deltas of a batch are in this range; a lookup is 20 times faster than the
# loop.
_VARINTS: Final = [encode_varint(value) for value in range(4096)]
_VARINTS_END: Final = len(_VARINTS)
_NULL: Final = encode_varint(-1)


class RecordBuffer:
    """Encoded records, behind `reserved_bytes` zeros that leave space for a header."""

    __slots__ = (
        "_bytes",
        "_reserved_bytes",
        "base_timestamp_ms",
        "limit_bytes",
        "max_timestamp_ms",
        "record_count",
    )

    def __init__(self, reserved_bytes: int = 0, limit_bytes: int = _MAX_INT32) -> None:
        self._bytes = bytearray(reserved_bytes)
        self._reserved_bytes = reserved_bytes
        self.limit_bytes = limit_bytes
        self.record_count = 0
        self.base_timestamp_ms = _NO_TIMESTAMP
        self.max_timestamp_ms = _NO_TIMESTAMP

    @property
    def size_bytes(self) -> int:
        """Number of bytes so far, including the reserved ones."""
        return len(self._bytes)

    def append(
        self,
        timestamp_ms: int,
        key: BytesLike | None,
        value: BytesLike | None,
        headers: HeadersLike = (),
    ) -> int:
        """Add a record and return its offset delta.

        Returns -1, and adds nothing, if the buffer would exceed its limit. The first record is
        always accepted.

        Raises:
            EncodeError: the timestamp is below -1 (none) or too large, or the buffer would exceed
                2^31 - 1 bytes.
        """
        if not _NO_TIMESTAMP <= timestamp_ms <= MAX_TIMESTAMP_MS:
            raise EncodeError(f"timestamp {timestamp_ms} is not within -1..{MAX_TIMESTAMP_MS}")
        count = self.record_count
        timestamp_delta = timestamp_ms - self.base_timestamp_ms if count else 0

        key_length = value_length = _NULL
        if key is None:
            key = b""
        else:
            if type(key) is not bytes:
                key = bytes(memoryview(key))
            size = len(key)
            key_length = _VARINTS[size] if size < _VARINTS_END else encode_varint(size)
        if value is None:
            value = b""
        else:
            if type(value) is not bytes:
                value = bytes(memoryview(value))
            size = len(value)
            value_length = _VARINTS[size] if size < _VARINTS_END else encode_varint(size)

        # A single join computes the size of the record and copies it in one step.
        body = b"".join(
            (
                b"\0",
                _VARINTS[timestamp_delta]
                if 0 <= timestamp_delta < _VARINTS_END
                else encode_varint(timestamp_delta),
                _VARINTS[count] if count < _VARINTS_END else encode_varint(count),
                key_length,
                key,
                value_length,
                value,
                _encode_headers(headers) if headers else b"\0",
            )
        )
        size = len(body)
        length = _encode_length(size)
        end = len(self._bytes) + len(length) + size
        if end > self.limit_bytes and count:
            return -1
        if end > _MAX_INT32:
            raise EncodeError(f"a batch holds at most {_MAX_INT32} bytes, not {end}")
        self._bytes += length
        self._bytes += body
        if not count:
            self.base_timestamp_ms = timestamp_ms
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
        self.record_count = count + 1
        return count

    def to_bytearray(self) -> bytearray:
        """Return a copy of all bytes, including the reserved ones."""
        return bytearray(self._bytes)

    def records(self) -> bytes:
        """Return a copy of the records alone."""
        return bytes(memoryview(self._bytes)[self._reserved_bytes :])


def _encode_headers(headers: HeadersLike) -> bytes:
    parts = [_encode_length(len(headers))]
    for key, value in headers:
        encoded_key = key.encode()
        parts += (_encode_length(len(encoded_key)), encoded_key)
        if value is None:
            parts.append(_NULL)
        else:
            encoded_value = value if type(value) is bytes else bytes(memoryview(value))
            parts += (_encode_length(len(encoded_value)), encoded_value)
    return b"".join(parts)


def _encode_length(size: int) -> bytes:
    return _VARINTS[size] if size < _VARINTS_END else encode_varint(size)

"""The loops over records for audits: columns from records, and a survey (decision).

`kafkawire/_columns.pyx` is the compiled twin of this module and of `key_table_loops`: it has the
same names, results and errors, and `native` chooses between them.

Invariant: a section is either read to its last byte or rejected with CorruptBatchError.
"""

from array import array
from collections.abc import Iterator
from enum import IntFlag
from typing import Final, NamedTuple

from crc32c import crc32c

from kafkawire.errors import CorruptBatchError
from kafkawire.key_hash import hash_key
from kafkawire.records_header import (
    ATTRIBUTES_POSITION,
    BATCH_HEADER_BYTES,
    CODEC_MASK,
    BatchHeader,
    TimestampType,
    read_header,
)
from kafkawire.records_loops import MIN_RECORD_BYTES, BytesLike, read_varint

_NO_TIMESTAMP: Final = -1


class Column(IntFlag):
    """The columns that `RecordColumns` can extract."""

    OFFSET = 1
    TIMESTAMP = 2
    KEY_HASH = 4
    KEY_BYTES = 8
    VALUE_BYTES = 16
    RECORD_BYTES = 32
    FINGERPRINT = 64
    HEADER_COUNT = 128
    KEY = 256
    VALUE = 512


class Spans(NamedTuple):
    """A column of byte strings; `offsets` has one more entry than there are rows."""

    data: bytes
    offsets: bytes
    validity: bytes


class SectionSurvey(NamedTuple):
    """Summary of the records of one batch."""

    newest_timestamp_ms: int
    """Largest timestamp by the deltas of the records; -1 without records."""
    first_out_of_order: int
    """Index of the first record with an offset that does not grow or lies outside; or -1."""
    without_key: int
    """Number of records with a null key."""
    tombstones: int
    """Number of records with a key and a null value."""


class SoundBatch(NamedTuple):
    """A batch of a file with a correct checksum, and with records that match its header.

    `data` is the complete batch, header included; `section` holds its records, decompressed.
    """

    file: str
    position: int
    header: BatchHeader
    data: memoryview
    section: memoryview
    survey: SectionSurvey


class Fields(NamedTuple):
    """One record in place; `rest` is its encoded value and headers."""

    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    header_count: int
    rest: bytes
    size_bytes: int


def read_plain_batches(data: memoryview, file: str, position: int, limit: int) -> list[SoundBatch]:
    """Return the plain batches at the head of `data`.

    A plain batch is complete, sound and uncompressed. The batches are adjacent; `position` is the
    file position of the first one. The list has at most `limit` batches, and ends before the first
    batch that is not plain.
    """
    found: list[SoundBatch] = []
    at = 0
    while len(found) < limit:
        batch = _plain_batch_at(data, at, file, position + at)
        if batch is None:
            break
        found.append(batch)
        at += len(batch.data)
    return found


def _plain_batch_at(data: memoryview, at: int, file: str, position: int) -> SoundBatch | None:
    try:
        header = read_header(data, at)
        end = at + header.size_bytes
        if end > len(data) or header.attributes & CODEC_MASK:
            return None
        if crc32c(data[at + ATTRIBUTES_POSITION : end]) != header.crc:
            return None
        section = data[at + BATCH_HEADER_BYTES : end]
        survey = survey_section(
            section, header.record_count, header.last_offset_delta, header.base_timestamp_ms
        )
    except CorruptBatchError:
        return None
    is_create_time = header.timestamp_type is TimestampType.CREATE_TIME
    if (
        survey.first_out_of_order >= 0
        or (is_create_time and survey.newest_timestamp_ms != header.max_timestamp_ms)
        or header.record_count > header.last_offset_delta + 1
    ):
        return None
    return SoundBatch(file, position, header, data[at:end], section, survey)


def survey_section(
    data: BytesLike, count: int, last_offset_delta: int, base_timestamp_ms: int
) -> SectionSurvey:
    """Walk `count` records and return the summary that an audit needs.

    Raises:
        CorruptBatchError: the bytes are not `count` records.
    """
    newest_ms = _NO_TIMESTAMP
    out_of_order = previous = -1
    without_key = tombstones = 0
    for index, fields in enumerate(walk_fields(data, count)):
        newest_ms = max(newest_ms, _wrapped(base_timestamp_ms + fields.timestamp_delta))
        is_in_order = previous < fields.offset_delta <= last_offset_delta
        if not is_in_order and out_of_order < 0:
            out_of_order = index
        previous = fields.offset_delta
        without_key += fields.key is None
        tombstones += fields.key is not None and fields.value is None
    return SectionSurvey(newest_ms, out_of_order, without_key, tombstones)


class RecordColumns:
    """Columns of records, filled batch by batch; columns that are not requested cost nothing."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._clear()

    def _clear(self) -> None:
        self.row_count = 0
        self._numbers = {
            name: array(code) for column, name, code in _NUMBERS if self._columns & column
        }
        self._spans: dict[str, list[bytes | None]] = {
            name: [] for column, name in _SPANS if self._columns & column
        }
        self.span_bytes = 0

    def append(
        self,
        data: BytesLike,
        count: int,
        base_offset: int,
        base_timestamp_ms: int,
        append_timestamp_ms: int | None,
    ) -> None:
        """Add the records of one batch: all of them, or none.

        Raises:
            CorruptBatchError: the bytes are not `count` records.
        """
        rows = list(walk_fields(data, count))
        times = wrapped_timestamps(rows, base_timestamp_ms, append_timestamp_ms)
        for fields, timestamp_ms in zip(rows, times, strict=True):
            first, second = hash_key(fields.key) if fields.key is not None else (0, 0)
            row = {
                "offset": base_offset + fields.offset_delta,
                "timestamp_ms": timestamp_ms,
                "key_hash_high": first,
                "key_hash_low": second,
                "key_bytes": -1 if fields.key is None else len(fields.key),
                "value_bytes": -1 if fields.value is None else len(fields.value),
                "record_bytes": fields.size_bytes,
                "fingerprint": hash_key(fields.rest)[0],
                "header_count": fields.header_count,
            }
            for name, column in self._numbers.items():
                column.append(row[name])
            for name, spans in self._spans.items():
                span = fields.key if name == "key" else fields.value
                spans.append(span)
                self.span_bytes += len(span or b"")
        self.row_count += count

    def take(self) -> dict[str, bytes | Spans]:
        """Return the columns so far, in native byte order, and start empty ones."""
        taken: dict[str, bytes | Spans] = {
            name: column.tobytes() for name, column in self._numbers.items()
        }
        taken |= {name: _pack(spans) for name, spans in self._spans.items()}
        self._clear()
        return taken


_NUMBERS: Final = (
    (Column.OFFSET, "offset", "q"),
    (Column.TIMESTAMP, "timestamp_ms", "q"),
    (Column.KEY_HASH, "key_hash_high", "q"),
    (Column.KEY_HASH, "key_hash_low", "q"),
    (Column.KEY_BYTES, "key_bytes", "i"),
    (Column.VALUE_BYTES, "value_bytes", "i"),
    (Column.RECORD_BYTES, "record_bytes", "i"),
    (Column.FINGERPRINT, "fingerprint", "q"),
    (Column.HEADER_COUNT, "header_count", "i"),
)
_SPANS: Final = ((Column.KEY, "key"), (Column.VALUE, "value"))


def _pack(spans: list[bytes | None]) -> Spans:
    offsets = array("i", [0])
    validity = bytearray((len(spans) + 7) // 8)
    for index, span in enumerate(spans):
        offsets.append(offsets[-1] + len(span or b""))
        if span is not None:
            validity[index >> 3] |= 1 << (index & 7)
    return Spans(b"".join(span or b"" for span in spans), offsets.tobytes(), bytes(validity))


def wrapped_timestamps(
    rows: list[Fields], base_timestamp_ms: int, append_timestamp_ms: int | None
) -> list[int]:
    """Return the timestamp of each record, wrapped to 64 bits."""
    if append_timestamp_ms is not None:
        return [append_timestamp_ms] * len(rows)
    # No error on overflow: the audit of a damaged batch must not fail itself.
    return [_wrapped(base_timestamp_ms + row.timestamp_delta) for row in rows]


def _wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def walk_fields(data: BytesLike, count: int) -> Iterator[Fields]:
    """Yield `count` records in order.

    Raises:
        CorruptBatchError: the bytes are not `count` records.
    """
    section = bytes(data)
    if count * MIN_RECORD_BYTES > len(section):
        raise CorruptBatchError(f"{len(section)} bytes cannot hold {count} records")
    position = 0
    try:
        for _ in range(count):
            start = position
            size, position = _read_number(section, position, 32)
            end = position + size
            if size < MIN_RECORD_BYTES - 1 or end > len(section):
                raise CorruptBatchError(f"a record at {start} cannot have {size} bytes")
            # Unused in all versions.
            attributes = section[position]
            timestamp_delta, position = _read_number(section, position + 1, 64)
            offset_delta, position = _read_number(section, position, 32)
            key, position = _read_span(section, position)
            rest = position
            value, position = _read_span(section, position)
            header_count, position = _read_number(section, position, 32)
            if not 0 <= header_count <= end - position:
                raise CorruptBatchError(f"impossible count of headers {header_count}")
            for _ in range(header_count):
                name, position = _read_span(section, position)
                if name is None:
                    raise CorruptBatchError("a header without a name")
                _, position = _read_span(section, position)
            if position != end:
                raise CorruptBatchError(f"a record ends at {position} instead of {end}")
            yield Fields(
                attributes,
                timestamp_delta,
                offset_delta,
                key,
                value,
                header_count,
                section[rest:end],
                end - start,
            )
    except IndexError:
        raise CorruptBatchError(f"a record runs past the end, {len(section)} bytes") from None
    if position != len(section):
        raise CorruptBatchError(f"{count} records end at {position} of {len(section)} bytes")


def _read_span(section: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = _read_number(section, position, 32)
    if size < 0:
        return None, position
    return section[position : position + size], position + size


def _read_number(section: bytes, position: int, bits: int) -> tuple[int, int]:
    number, position = read_varint(section, position, bits)
    return number >> 1 ^ -(number & 1), position

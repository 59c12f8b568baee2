"""Decompress a batch and read its records (decision).

Invariant: for any input, the result is all records of the batch or CorruptBatchError. Time and
memory are bounded by the size of the batch and by `max_bytes`.
"""

from typing import NamedTuple

from kafkawire.compression import MAX_DECOMPRESSED_BYTES, Codec, Decompressor
from kafkawire.errors import CorruptBatchError
from kafkawire.native import read_rows
from kafkawire.records_header import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    BytesLike,
    TimestampType,
    read_header,
)
from kafkawire.records_loops import Headers, Row


class Record(NamedTuple):
    """One record; `headers` are pairs of a name and a value, in the producer's order."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def read_records(batch: BytesLike, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> list[Record]:
    """Read every record of `batch`, which begins at the view's start; compacted ones are absent.

    The checksum is not checked; use `crc_matches`.

    Raises:
        CorruptBatchError: the batch is damaged, or larger than `max_bytes` when decompressed.
    """
    return read_records_as(Record, batch, max_bytes=max_bytes)


def read_records_as(
    row_type: type[Row],
    batch: BytesLike,
    *,
    before: tuple[object, ...] = (),
    after: tuple[object, ...] = (),
    header: BatchHeader | None = None,
    section: BytesLike | None = None,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[Row]:
    """Read every record of `batch` directly into a tuple class of the caller.

    Each row is (*before, offset, timestamp_ms, key, value, headers, *after), and `row_type` is a
    NamedTuple with those fields (or `tuple`): one allocation per record, no constructor call. A
    caller that has the `header` or the decompressed `section` can pass them to save time.

    Raises:
        CorruptBatchError: as `read_records`.
    """
    if header is None:
        header = read_header(batch)
    return read_rows(
        record_section(batch, header, max_bytes) if section is None else section,
        header.record_count,
        header.base_offset,
        header.base_timestamp_ms,
        header.max_timestamp_ms if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None,
        row_type,
        before,
        after,
    )


def record_section(
    batch: BytesLike,
    header: BatchHeader,
    max_bytes: int,
    decompressor: Decompressor | None = None,
) -> BytesLike:
    """Return the bytes of `batch` behind its header, decompressed.

    A `decompressor` for many batches saves time.

    Raises:
        CorruptBatchError: the batch is truncated, damaged, or larger than `max_bytes` when
            decompressed.
    """
    if len(batch) < header.size_bytes:
        raise CorruptBatchError(f"a batch of {header.size_bytes} bytes is cut at {len(batch)}")
    section = memoryview(batch)[BATCH_HEADER_BYTES : header.size_bytes]
    # An empty batch may still name a codec, but compaction leaves no bytes to decompress.
    if header.codec is Codec.NONE or not header.record_count:
        return section
    return (decompressor or Decompressor()).decompress(header.codec, section, max_bytes)

"""Iteration over the batches of a log file by their headers (edge).

`find_batch` and `last_boundary` serve reads and decode four fields per batch. `walk_headers` yields
complete headers, `walk_produced` only headers that carry a producer id. All of these trust a header
that looks sane. `walk_valid` trusts nothing and serves recovery. Every scan starts at the first
byte of a batch.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from kafkawire.errors import CorruptBatchError
from kafkawire.records import BATCH_HEADER_BYTES, MAGIC, BatchHeader, crc_matches, read_header
from storage.errors import CorruptLogError
from storage.segment.log_file import LogFile

NO_LIMIT: Final = 2**63
SCAN_BYTES: Final = 4096
"""One read covers the distance between two index entries (benchmarks/micro/test_log_read.py)."""
RECOVERY_READ_BYTES: Final = 1024 * 1024
PRODUCER_SCAN_BYTES: Final = 64 * 1024

# Base offset, length, magic, last offset delta. Skipping a batch costs 0.2 us this way and three
# times as much with `read_header` (benchmarks/micro/test_log_read.py).
_FIELDS: Final = Struct(">qi4xb6xi")
# Length, magic, producer id.
_PRODUCER_FIELDS: Final = Struct(">8xi4xb26xq")
_PREFIX_BYTES: Final = 12
_LEAST_LENGTH: Final = BATCH_HEADER_BYTES - _PREFIX_BYTES


class BatchPlace(NamedTuple):
    """Position of a batch in its file, and its range of offsets (both inclusive)."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


def find_batch(
    file: LogFile, position: int, end: int, offset: int, first_last_offset: int = NO_LIMIT
) -> BatchPlace | None:
    """Return the first batch in `position`..`end` that ends at or after `offset`, or None.

    The batch at `position` must not end above `first_last_offset`.

    Raises:
        CorruptLogError: no batch starts where one must, or the first batch ends above
            `first_last_offset`.
    """
    unpack = _FIELDS.unpack_from
    while position < end:
        chunk = file.read(position, SCAN_BYTES)
        last = min(len(chunk), end - position) - BATCH_HEADER_BYTES
        at = 0
        while at <= last:
            base_offset, length, magic, last_offset_delta = unpack(chunk, at)
            if magic != MAGIC or length < _LEAST_LENGTH or last_offset_delta < 0:
                raise CorruptLogError(file.path, position + at, "no batch starts here")
            last_offset = base_offset + last_offset_delta
            if last_offset > first_last_offset:
                raise CorruptLogError(file.path, position + at, f"ends above {first_last_offset}")
            first_last_offset = NO_LIMIT
            if last_offset >= offset:
                return _place(
                    file, position + at, _PREFIX_BYTES + length, end, base_offset, last_offset
                )
            at += _PREFIX_BYTES + length
        if at == 0:
            raise CorruptLogError(file.path, position, f"no whole header before the end at {end}")
        position += at
    return None


def _place(
    file: LogFile, position: int, size_bytes: int, end: int, base_offset: int, last_offset: int
) -> BatchPlace:
    if position + size_bytes > end:
        raise CorruptLogError(file.path, position, f"{size_bytes} bytes, but the end is at {end}")
    return BatchPlace(position, size_bytes, base_offset, last_offset)


def last_boundary(
    file: LogFile, position: int, end: int, limit: int, first_last_offset: int = NO_LIMIT
) -> int:
    """Return the last position up to `limit` where a batch ends, or `position` without one.

    The batch at `position` must not end above `first_last_offset`. The search stops at damage: the
    region then ends with the last good batch before it.

    Raises:
        CorruptLogError: no batch starts at `position`, or it ends above `first_last_offset`.
    """
    unpack = _FIELDS.unpack_from
    boundary = position
    while boundary < end:
        chunk = file.read(boundary, SCAN_BYTES)
        last = min(len(chunk), end - boundary) - BATCH_HEADER_BYTES
        at = 0
        while at <= last:
            base_offset, length, magic, last_offset_delta = unpack(chunk, at)
            if (
                magic != MAGIC
                or length < _LEAST_LENGTH
                or base_offset + last_offset_delta > first_last_offset
            ):
                if boundary + at == position:
                    raise CorruptLogError(file.path, position, "no batch that could be here")
                return boundary + at
            first_last_offset = NO_LIMIT
            if boundary + at + _PREFIX_BYTES + length > limit:
                return boundary + at
            at += _PREFIX_BYTES + length
        if at == 0:
            break
        boundary += at
    return boundary


def walk_headers(file: LogFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each batch from `position` to `end`.

    Raises:
        CorruptLogError: no batch starts where one must, or a batch ends beyond `end`.
    """
    chunk, chunk_start = b"", position
    while position < end:
        if position + BATCH_HEADER_BYTES > chunk_start + len(chunk):
            chunk, chunk_start = file.read(position, SCAN_BYTES), position
        try:
            header = read_header(chunk, position - chunk_start)
        except CorruptBatchError as error:
            raise CorruptLogError(file.path, position, str(error)) from error
        next_position = position + header.size_bytes
        if next_position > end:
            raise CorruptLogError(
                file.path, position, f"batch ends at {next_position}, file at {end}"
            )
        yield position, header
        position = next_position


def walk_produced(file: LogFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each batch in `position`..`end` that has a producer id.

    Skipping a batch without one costs a quarter of `walk_headers`.

    Raises:
        CorruptLogError: no batch starts where one must.
    """
    unpack = _PRODUCER_FIELDS.unpack_from
    chunk, chunk_start = b"", position
    length = 0
    while position < end:
        at = position - chunk_start
        if at + BATCH_HEADER_BYTES > len(chunk):
            # Skip a large batch instead of reading it.
            size = PRODUCER_SCAN_BYTES if length < SCAN_BYTES else SCAN_BYTES
            chunk, chunk_start, at = file.read(position, size), position, 0
            if len(chunk) < BATCH_HEADER_BYTES:
                raise CorruptLogError(file.path, position, f"no whole header before {end}")
        length, magic, producer_id = unpack(chunk, at)
        if magic != MAGIC or length < _LEAST_LENGTH:
            raise CorruptLogError(file.path, position, "no batch starts here")
        if producer_id >= 0:
            try:
                header = read_header(chunk, at)
            except CorruptBatchError as error:
                raise CorruptLogError(file.path, position, str(error)) from error
            yield position, header
        position += _PREFIX_BYTES + length


def walk_valid(file: LogFile, first_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each batch that is complete and in order, from byte 0.

    The walk stops at the first byte that does not begin such a batch. The bytes behind it cannot
    be trusted, even if they look like batches. `first_offset` is the lowest offset that the first
    batch may have.
    """
    position, next_offset = 0, first_offset
    chunk, chunk_start = memoryview(b""), 0
    while position + BATCH_HEADER_BYTES <= file.size_bytes:
        at = position - chunk_start
        header = _header_of_whole_batch(chunk, at)
        if header is None:
            chunk, chunk_start, at = _read_batch(file, position), position, 0
            header = _header_of_whole_batch(chunk, at)
        if (
            header is None
            or header.base_offset < next_offset
            or not crc_matches(chunk[at : at + header.size_bytes], header)
        ):
            return
        yield position, header
        position += header.size_bytes
        next_offset = header.next_offset


def _header_of_whole_batch(chunk: memoryview, at: int) -> BatchHeader | None:
    """Return the header at `at`, or None if it is invalid or `chunk` ends inside the batch."""
    try:
        header = read_header(chunk, at)
    except CorruptBatchError:
        return None
    return header if at + header.size_bytes <= len(chunk) else None


def _read_batch(file: LogFile, position: int) -> memoryview:
    """Read from `position` on: at least the complete batch there, if the file holds it."""
    rest = file.size_bytes - position
    chunk = memoryview(file.read(position, min(RECOVERY_READ_BYTES, rest)))
    try:
        size = read_header(chunk).size_bytes
    except CorruptBatchError:
        return chunk
    if len(chunk) < size <= rest:
        return memoryview(file.read(position, size))
    return chunk

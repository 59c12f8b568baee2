"""Iterates over the batches of a segment and reports invalid bytes. Decision: no I/O.

Each batch states its own length. A damaged length therefore hides all later batches and ends the
walk.
"""

import struct
from collections.abc import Iterator
from typing import Final

from kafkawire.errors import CorruptBatchError
from kafkawire.records import BATCH_HEADER_BYTES, MAGIC, BatchHeader, read_header
from ottla.cli.logs.finding import Damage, Finding, Report
from ottla.cli.logs.source import ByteSource

# Base offset, length, leader epoch and magic.
_PREFIX: Final = struct.Struct(">qiib")
LENGTH_OVERHEAD_BYTES: Final = 12
_ZERO_BLOCK_BYTES: Final = 64 * 1024


def walk(
    source: ByteSource, file: str, report: Report, *, with_data: bool = True
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield (position, header, bytes) of each batch; the bytes are empty without `with_data`.

    A batch of an older format, or with an invalid header, is reported and skipped. A torn or zero
    tail ends the walk.
    """
    position = 0
    while position < source.size_bytes:
        size_bytes = _batch_size(source, file, position, report)
        if size_bytes is None:
            return
        data = source.read(position, size_bytes if with_data else BATCH_HEADER_BYTES)
        header = _read_header(data, file, position, report)
        if header is not None:
            yield position, header, data if with_data else data[:0]
        position += size_bytes


def _read_header(data: memoryview, file: str, position: int, report: Report) -> BatchHeader | None:
    offset, _length, _epoch, magic = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        text = f"the format is version {magic}, only {MAGIC} can be read"
        report(_finding(Damage.BAD_MAGIC, file, position, offset, text))
        return None
    try:
        return read_header(data)
    except CorruptBatchError as error:
        report(_finding(Damage.BAD_HEADER, file, position, offset, str(error)))
        return None


def _batch_size(source: ByteSource, file: str, position: int, report: Report) -> int | None:
    """Return the size of the batch at `position`, or None after a report if it is incomplete."""
    if not source.has_grown_to(position + _PREFIX.size):
        report(_tail(source, file, position, None))
        return None
    offset, length, _epoch, _magic = _PREFIX.unpack_from(source.read(position, _PREFIX.size))
    size_bytes: int = LENGTH_OVERHEAD_BYTES + length
    if size_bytes < BATCH_HEADER_BYTES:
        if length == 0 and offset == 0 and _is_zero_from(source, position):
            report(_zero_tail(source, file, position))
        else:
            text = f"the length {length} is too small for a batch; no later batch can be read"
            report(_finding(Damage.BAD_LENGTH, file, position, offset, text))
        return None
    if not source.has_grown_to(position + size_bytes):
        report(_tail(source, file, position, offset, size_bytes))
        return None
    return size_bytes


def _tail(
    source: ByteSource, file: str, position: int, offset: int | None, size_bytes: int | None = None
) -> Finding:
    left = source.size_bytes - position
    if size_bytes is None:
        if _is_zero_from(source, position):
            return _zero_tail(source, file, position)
        text = f"the last {left} bytes are too few for a batch; recovery cuts the file here"
    else:
        text = (
            f"a batch of {size_bytes} bytes begins here, but only {left} bytes are left: "
            "its end or its length is damaged; recovery cuts the file here"
        )
    return _finding(Damage.TORN_TAIL, file, position, offset, text)


def _zero_tail(source: ByteSource, file: str, position: int) -> Finding:
    text = (
        f"the last {source.size_bytes - position} bytes are zero: a preallocated active segment, "
        "or data lost in a power failure; recovery cuts the file here"
    )
    return _finding(Damage.ZERO_TAIL, file, position, None, text)


def _is_zero_from(source: ByteSource, position: int) -> bool:
    for start in range(position, source.size_bytes, _ZERO_BLOCK_BYTES):
        block = source.read(start, _ZERO_BLOCK_BYTES)
        if block != bytes(len(block)):
            return False
    return True


def _finding(damage: Damage, file: str, position: int, offset: int | None, text: str) -> Finding:
    return Finding(damage=damage, file=file, position=position, offset=offset, text=text)

"""Walking the batches of a log file by their headers (edge: reads only).

`walk_headers` trusts the bytes, as far as headers can be sane: it serves lookups. `walk_valid`
trusts nothing and serves recovery. Both start where a batch starts.
"""

from collections.abc import Iterator
from typing import Final

from kafkawire.errors import CorruptBatchError
from kafkawire.records import BATCH_HEADER_BYTES, BatchHeader, crc_matches, read_header
from storage.errors import CorruptLogError
from storage.log_file import LogFile

SCAN_BYTES: Final = 4096
"""One read then covers what lies between two index entries (benchmarks/micro/test_log_read.py)."""
RECOVERY_READ_BYTES: Final = 1024 * 1024


def walk_headers(file: LogFile, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch from `position` to `end`.

    Raises:
        CorruptLogError: no batch starts there, or it ends beyond `end`.
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


def walk_valid(file: LogFile, first_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each batch that is whole and in order, from the file's start.

    Stops at the first byte that does not begin such a batch: what follows is not to be trusted,
    even if it looks well again. `first_offset` is the lowest offset that the first batch may have.
    """
    position, next_offset = 0, first_offset
    chunk, chunk_start = memoryview(b""), 0
    while position + BATCH_HEADER_BYTES <= file.size_bytes:
        at = position - chunk_start
        size = _claimed_size(chunk, at)
        if size is None or at + size > len(chunk):
            chunk, chunk_start, at = _read_batch(file, position), position, 0
            size = _claimed_size(chunk, at)
        if size is None or size > len(chunk) - at:
            return
        batch = chunk[at : at + size]
        header = read_header(batch)
        if header.base_offset < next_offset or not crc_matches(batch, header):
            return
        yield position, header
        position += size
        next_offset = header.next_offset


def _claimed_size(chunk: memoryview, at: int) -> int | None:
    """Size of the batch at `at` as its header tells it; None when no header is there."""
    try:
        return read_header(chunk, at).size_bytes
    except CorruptBatchError:
        return None


def _read_batch(file: LogFile, position: int) -> memoryview:
    """Read from `position` at least the whole batch there, if the file holds it."""
    chunk = memoryview(file.read(position, min(RECOVERY_READ_BYTES, file.size_bytes - position)))
    size = _claimed_size(chunk, 0)
    if size is not None and len(chunk) < size <= file.size_bytes - position:
        return memoryview(file.read(position, size))
    return chunk

"""Sequential read of all batches of a segment (edge)."""

from collections.abc import Callable, Iterator
from pathlib import Path

from kafkawire.errors import CorruptBatchError
from kafkawire.records import BATCH_HEADER_BYTES, BatchHeader, crc_matches, read_header
from storage.compaction.job import SourceSegment
from storage.disk.layout import LOG_SUFFIX, segment_file
from storage.errors import CorruptLogError
from storage.segment.log_file import LogFile


def open_source(directory: Path, segment: SourceSegment) -> LogFile:
    """Open the log file of a segment, limited to its size in the job."""
    path = segment_file(directory, segment.base_offset, LOG_SUFFIX)
    return LogFile(path, segment.size_bytes)


def read_batches(
    file: LogFile, buffer_bytes: int, on_read: Callable[[int], None]
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield each batch of `file` with its header, after a check of its checksum.

    `on_read` is called with the number of bytes of each read, and may block. A batch that is larger
    than the buffer is read alone, regardless of the current limits of its topic.

    Raises:
        CorruptLogError: the file is damaged. The batches before the damage were yielded.
    """
    position = 0
    while position < file.size_bytes:
        chunk = _read_whole(file, position, buffer_bytes)
        on_read(len(chunk))
        at = 0
        while len(chunk) - at >= BATCH_HEADER_BYTES:
            header = _header_at(file, chunk, at, position + at)
            if at + header.size_bytes > len(chunk):
                break
            batch = chunk[at : at + header.size_bytes]
            if not crc_matches(batch, header):
                raise CorruptLogError(file.path, position + at, "the checksum is wrong")
            yield header, batch
            at += header.size_bytes
        if at == 0:
            raise CorruptLogError(file.path, position, "the last batch is cut short")
        position += at


def _read_whole(file: LogFile, position: int, buffer_bytes: int) -> memoryview:
    """Read from `position` on: at least the complete batch there, if the file holds it."""
    rest = file.size_bytes - position
    chunk = file.read(position, min(rest, max(buffer_bytes, BATCH_HEADER_BYTES)))
    if len(chunk) >= BATCH_HEADER_BYTES:
        size = _header_at(file, memoryview(chunk), 0, position).size_bytes
        if len(chunk) < size <= rest:
            chunk = file.read(position, size)
    return memoryview(chunk)


def _header_at(file: LogFile, chunk: memoryview, at: int, position: int) -> BatchHeader:
    try:
        return read_header(chunk, at)
    except CorruptBatchError as error:
        raise CorruptLogError(file.path, position, str(error)) from error

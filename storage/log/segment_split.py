"""Split of a segment whose offset range is too large for its indexes (edge).

An index stores offsets relative to the segment's base offset in 31 bits. The cleaner of Kafka
before 1.1 could merge segments beyond that range (KAFKA-6264). Such a segment is split when its log
is loaded, before any other step:

1. The batches are written to new segments, as `.cleaned` files, and all of these are synced.
2. These files are renamed to `.swap`, the last segment first. Until the first segment is renamed, a
   start finds a `.cleaned` file below the others and drops them all (storage/log/leftover.py).
3. The old files are renamed to `.deleted`, then the new files from `.swap` to their live names, the
   first segment first. The `.swap` files that a crash leaves lie behind the live ones.

Only merged segments are split, and the last segment of a log never is one. There, an offset out of
range is damage, and recovery truncates it. Source: LocalLog.splitOverflowedSegment of Kafka 3.9.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from kafkawire.ids import Offset
from kafkawire.records import BatchHeader
from storage.config.log_config import LogConfig
from storage.disk.checkpoint import sync_directory
from storage.disk.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_file,
)
from storage.errors import CorruptLogError
from storage.log.leftover import FoundSegment
from storage.segment.batch_scan import walk_headers
from storage.segment.cleaned_segment import CleanedSegment, remove_all_cleaned
from storage.segment.log_file import LogFile
from storage.segment.offset_index import MAX_RELATIVE_OFFSET
from storage.segment.segment_files import SegmentFiles
from storage.segment.transaction_index import AbortedTransaction, read_aborted

BUFFER_BYTES: Final = 1024 * 1024

log = structlog.get_logger(__name__)


class _Source(NamedTuple):
    """A segment that may need a split; its offsets are below `limit`."""

    base_offset: Offset
    file: LogFile
    limit: Offset


def split_overflowed(directory: Path, found: Sequence[FoundSegment], config: LogConfig) -> bool:
    """Split every segment in `directory` that needs it; return whether any did.

    A segment with damaged headers is left unchanged.
    """
    sources = [
        _open(directory, segment, following.base_offset)
        for segment, following in pairwise(found)
        # Otherwise none of its offsets can be out of range, and nothing has to be read.
        if following.base_offset - segment.base_offset > MAX_RELATIVE_OFFSET + 1
    ]
    return sum(_split(directory, source, config) for source in sources) > 0


def _open(directory: Path, segment: FoundSegment, limit: Offset) -> _Source:
    path = segment_file(directory, segment.base_offset, LOG_SUFFIX)
    return _Source(segment.base_offset, LogFile(path, segment.size_bytes), limit)


def _split(directory: Path, source: _Source, config: LogConfig) -> bool:
    try:
        bases = _new_bases(source)
        if len(bases) == 1:
            return False
        _write(directory, source, bases, config)
    except (CorruptLogError, ValueError) as error:
        remove_all_cleaned(directory)
        log.error("segment.not_split", path=str(source.file.path), error=str(error))
        return False
    _swap(directory, source.base_offset, bases)
    log.info("segment.split", path=str(source.file.path), base_offsets=bases)
    return True


def _new_bases(source: _Source) -> list[Offset]:
    """Return the base offsets of the new segments.

    Raises:
        CorruptLogError: a header is damaged, or the batches are out of order.
    """
    bases, next_offset = [source.base_offset], source.base_offset
    for position, header in walk_headers(source.file, 0, source.file.size_bytes):
        if not next_offset <= header.base_offset <= header.last_offset < source.limit:
            raise CorruptLogError(source.file.path, position, "the offsets are out of order")
        if _is_too_far(header, bases[-1]):
            bases.append(Offset(header.base_offset))
        next_offset = Offset(header.next_offset)
    return bases


def _is_too_far(header: BatchHeader, base_offset: Offset) -> bool:
    return header.last_offset - base_offset > MAX_RELATIVE_OFFSET


def _write(directory: Path, source: _Source, bases: Sequence[Offset], config: LogConfig) -> None:
    """Write and sync the new segments, with the modification time of the original.

    Batches are copied unchanged, even if their records are damaged.

    Raises:
        ValueError: the transaction index cannot be read.
    """
    aborted = _aborted(directory, source.base_offset)
    modified_ns = source.file.path.stat().st_mtime_ns
    rest = walk_headers(source.file, 0, source.file.size_bytes)
    batch = next(rest, None)
    for base_offset, limit in pairwise([*bases, source.limit]):
        target = CleanedSegment(directory, base_offset, config, BUFFER_BYTES)
        while batch is not None and batch[1].base_offset < limit:
            position, header = batch
            target.append(memoryview(source.file.read(position, header.size_bytes)))
            batch = next(rest, None)
        of_it = [each for each in aborted if base_offset <= each.last_offset < limit]
        target.finish(of_it, modified_ns)


def _aborted(directory: Path, base_offset: Offset) -> list[AbortedTransaction]:
    path = segment_file(directory, base_offset, TRANSACTION_INDEX_SUFFIX)
    return read_aborted(path.read_bytes()) if path.exists() else []


def _swap(directory: Path, base_offset: Offset, bases: Sequence[Offset]) -> None:
    """Replace the segment at `base_offset` by the new segments, which are on disk."""
    for new in reversed(list(_files(directory, bases))):
        new.change_state(CLEANED_SUFFIX, SWAP_SUFFIX)
    sync_directory(directory)
    deleted = SegmentFiles(directory, base_offset).change_state("", DELETED_SUFFIX)
    for new in _files(directory, bases):
        new.change_state(SWAP_SUFFIX, "")
    sync_directory(directory)
    for path in deleted:
        path.unlink()


def _files(directory: Path, bases: Sequence[Offset]) -> Iterator[SegmentFiles]:
    return (SegmentFiles(directory, base_offset) for base_offset in bases)

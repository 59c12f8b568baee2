"""Recovery of a log after a crash (edge).

The rule is Kafka's: every batch from the recovery point on is checked (length, format, checksum,
order of offsets), and the log ends at the first byte that does not begin a valid batch. Nothing
behind that byte is kept, even if it looks valid, and nothing in the middle is repaired. `loading`
finds the segment that holds the recovery point, and recovers from there.
"""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Final

import structlog

from kafkawire.ids import LeaderEpoch, Offset
from storage.disk.checkpoint import drop_pages
from storage.disk.layout import COPIED_TO, LOG_SUFFIX, parse_segment_file
from storage.errors import CorruptLogError
from storage.log.leader_epochs import LeaderEpochs
from storage.segment.batch_scan import find_batch, walk_headers, walk_valid
from storage.segment.index_file import IndexFile
from storage.segment.offset_index import MAX_RELATIVE_OFFSET
from storage.segment.segment import Segment

log = structlog.get_logger(__name__)

SAMPLED_ENTRIES: Final = 1024


def disown_copy(directory: Path) -> None:
    """Have no later start continue a copy of the log in `directory`, which is to lose records.

    See `log_copying`.
    """
    (directory / COPIED_TO).unlink(missing_ok=True)


def drop_cached(directory: Path, recovery_point: Offset) -> None:
    """Have the files of the segments to recover read from the disk, not from the page cache.

    After a failed sync the kernel counts pages as clean that are not on disk. A recovery that read
    them would raise the recovery point over records that the next loss of power removes.

    Raises:
        OSError: the disk still fails.
    """
    names = {path: parse_segment_file(path.name) for path in directory.iterdir() if path.is_file()}
    files = {path: name for path, name in names.items() if name is not None}
    below = [
        name.base_offset
        for name in files.values()
        if name.suffix == LOG_SUFFIX and name.base_offset < recovery_point
    ]
    first = max(below, default=Offset(0))
    for path, name in files.items():
        if name.base_offset >= first:
            drop_pages(path)


def recover_segment(segment: Segment, epochs: LeaderEpochs, limit: Offset | None) -> int:
    """Check `segment` from its first byte, truncate it at the first bad one, rebuild its indexes.

    Offsets must be below `limit`, the base offset of the next segment (None: there is none).
    Returns the number of truncated bytes. The leader epochs of the batches are added to `epochs`.
    The segment and its files are closed afterwards.
    """
    end = 0
    too_high = segment.base_offset + MAX_RELATIVE_OFFSET + 1
    if limit is not None:
        too_high = min(too_high, limit)
    segment.start_indexing()
    for position, header in walk_valid(segment.file, segment.base_offset):
        if header.last_offset >= too_high:
            break
        segment.add_batch(position, header)
        end = position + header.size_bytes
        if header.leader_epoch > epochs.latest:
            epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
    cut_bytes = segment.size_bytes - end
    if cut_bytes:
        # First, because a start after a crash in between finds nothing to cut.
        disown_copy(segment.files.directory)
    segment.file.truncate(end)
    segment.close()
    segment.release()
    return cut_bytes


def read_epochs(segments: Iterable[Segment], end_offset: Offset) -> LeaderEpochs:
    """Rebuild the leader epochs of the readable batches that begin below `end_offset`.

    Reading ends at a batch without an epoch, so that a start does not read a log of such batches.
    Epochs without a batch are not found, but nothing depends on them.
    """
    epochs = LeaderEpochs()
    for segment in segments:
        try:
            for _, header in walk_headers(segment.file, 0, segment.size_bytes):
                if header.base_offset >= end_offset or header.leader_epoch < 0:
                    return epochs
                if header.leader_epoch > epochs.latest:
                    epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
        except CorruptLogError as error:
            log.error("log.damaged", path=str(error.path), error=str(error))
        finally:
            segment.release()
    return epochs


def are_indexes_right(segment: Segment) -> bool:
    """Whether the indexes of `segment` are sorted and, by a sample, consistent with its log.

    All entries are read, and up to `SAMPLED_ENTRIES` of them are looked up in the log. A wrong
    entry outside the sample is detected on use.
    """
    _ = segment.file
    index = segment.index
    if not (_is_sorted(index.offsets.file) and _is_sorted(index.times.file)):
        return False
    try:
        return _do_offsets_fit(segment) and _do_times_fit(segment)
    except CorruptLogError:
        return False


def _do_offsets_fit(segment: Segment) -> bool:
    offsets, file = segment.index.offsets, segment.file
    for slot in range(0, len(offsets), len(offsets) // SAMPLED_ENTRIES + 1):
        offset, position = offsets.entry(slot)
        place = find_batch(file, position, file.size_bytes, offset, offset)
        if place is None or place.position != position:
            return False
    return True


def _do_times_fit(segment: Segment) -> bool:
    times = segment.index.times
    for slot in range(0, len(times), len(times) // SAMPLED_ENTRIES + 1):
        timestamp_ms, offset = times.entry(slot)
        place = segment.find(offset)
        if place is None or place.last_offset != offset:
            return False
        if segment.read_header(place).max_timestamp_ms != timestamp_ms:
            return False
    return True


def _is_sorted(file: IndexFile) -> bool:
    entries = file.read_all()
    return all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(entries))

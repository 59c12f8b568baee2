"""Lookup of regions and times in one segment (edge)."""

from kafkawire.ids import Offset
from storage.errors import CorruptLogError
from storage.segment.batch_scan import last_boundary
from storage.segment.log_file import FileRegion
from storage.segment.segment import Segment
from storage.segment.time_index import TimeIndexEntry


def read_region(
    segment: Segment,
    offset: Offset,
    max_bytes: int,
    end_offset: Offset | None,
    *,
    min_one_batch: bool,
) -> FileRegion | None:
    """Return complete batches from the one that holds `offset`, or the next one, on.

    The result is None if all batches end below `offset`. The region ends before the batch that
    holds `end_offset` (None: no limit) and after at most `max_bytes`; with `min_one_batch` it
    includes the first batch even if that is larger.

    Raises:
        CorruptLogError: the log is damaged in the requested range.
    """
    place = segment.find(offset)
    if place is None:
        return None
    file, start = segment.file, place.position
    size = _end_position(segment, end_offset) - start
    if size > max_bytes:
        if place.size_bytes <= max_bytes:
            size = _last_boundary(segment, start, start + max_bytes) - start
        else:
            size = place.size_bytes if min_one_batch else 0
    return FileRegion(file, start, size)


def _last_boundary(segment: Segment, start: int, limit: int) -> int:
    """Return the last position up to `limit` where a region from `start` on may end."""
    file, index = segment.file, segment.index
    entry = index.offsets.last_entry_in(start, limit, index.interval_bytes)
    if entry is not None:
        try:
            return last_boundary(file, entry.position, file.size_bytes, limit, entry.offset)
        except CorruptLogError:
            # A wrong entry, or damage in the log; the next read there detects it.
            pass
    return last_boundary(file, start, file.size_bytes, limit)


def _end_position(segment: Segment, end_offset: Offset | None) -> int:
    """Return the position before which every batch lies below `end_offset`."""
    place = None if end_offset is None else segment.find(end_offset)
    return segment.size_bytes if place is None else place.position


def largest_timestamp(segment: Segment) -> TimeIndexEntry:
    """Return the largest timestamp in `segment`, and the last offset of the first batch with it."""
    if not segment.is_counted:
        # Opening the file counts the segment. The caller releases it: a search opens all segments.
        _ = segment.file
        segment.release()
    return TimeIndexEntry(segment.index.max_timestamp_ms, segment.index.max_timestamp_offset)


def newest_ms(segment: Segment) -> int:
    """Return the newest timestamp in `segment`, or the time of its last write without one."""
    timestamp_ms = largest_timestamp(segment).timestamp_ms
    return timestamp_ms if timestamp_ms >= 0 else segment.files.modified_ms()


def position_of_time(segment: Segment, timestamp_ms: int, start_offset: Offset) -> int:
    """Return the start position of a scan for the first record that is not older than the time."""
    _ = segment.file
    entry = segment.index.times.lookup(timestamp_ms)
    if entry.timestamp_ms >= 0 and not _fits(segment, entry):
        segment.mend_index()
        entry = segment.index.times.lookup(timestamp_ms)
    place = segment.find(max(entry.offset, start_offset))
    return segment.size_bytes if place is None else place.position


def _fits(segment: Segment, entry: TimeIndexEntry) -> bool:
    """Whether the batch of the entry has the entry's timestamp."""
    place = segment.find(entry.offset)
    if place is None or place.base_offset > entry.offset:
        return False
    return segment.read_header(place).max_timestamp_ms == entry.timestamp_ms

"""Finding regions and times in one segment (edge: reads, and mends damaged indexes)."""

from kafkawire.ids import Offset
from storage.batch_scan import walk_headers
from storage.log_file import FileRegion
from storage.segment import Segment
from storage.time_index import TimeIndexEntry


def read_region(
    segment: Segment,
    offset: Offset,
    max_bytes: int,
    end_offset: Offset | None,
    *,
    min_one_batch: bool,
) -> FileRegion | None:
    """Return whole batches, from the one that holds `offset` or the next one there is.

    None when all batches end below `offset`. The region ends before the batch that holds
    `end_offset` (None: no limit) and after at most `max_bytes`; with `min_one_batch` the first
    batch comes even if it is larger.

    Raises:
        CorruptLogError: the log is damaged where it was to be read.
    """
    found = segment.find(offset)
    if found is None:
        return None
    position, header = found
    size = _end_position(segment, end_offset) - position
    if size > max_bytes:
        if header.size_bytes <= max_bytes:
            size = _last_boundary(segment, position, position + max_bytes) - position
        else:
            size = header.size_bytes if min_one_batch else 0
    return FileRegion(segment.file, position, size)


def _end_position(segment: Segment, end_offset: Offset | None) -> int:
    """Position before which every batch lies below `end_offset`."""
    found = None if end_offset is None else segment.find(end_offset)
    return segment.size_bytes if found is None else found[0]


def _last_boundary(segment: Segment, position: int, limit: int) -> int:
    """Return the last position up to `limit` where a batch ends; one ends at `position`."""
    start = max(position, segment.index.offsets.lookup_position(limit).position)
    for batch_position, header in walk_headers(segment.file, start, segment.size_bytes):
        if batch_position + header.size_bytes > limit:
            return batch_position
    return segment.size_bytes


def largest_timestamp(segment: Segment) -> TimeIndexEntry:
    """Return the largest timestamp in `segment`, and the last offset of the first batch with it."""
    if not segment.is_counted:
        # Opens the file, which counts. It is let go again: a search looks at every segment.
        _ = segment.file
        segment.release()
    return TimeIndexEntry(segment.index.max_timestamp_ms, segment.index.max_timestamp_offset)


def position_of_time(segment: Segment, timestamp_ms: int, start_offset: Offset) -> int:
    """Return where a scan for the first record that is not older than the time has to start."""
    _ = segment.file
    entry = segment.index.times.lookup(timestamp_ms)
    if entry.timestamp_ms >= 0 and not _fits(segment, entry):
        segment.index_again()
        entry = segment.index.times.lookup(timestamp_ms)
    found = segment.find(max(entry.offset, start_offset))
    return segment.size_bytes if found is None else found[0]


def _fits(segment: Segment, entry: TimeIndexEntry) -> bool:
    """Whether the batch that the entry names has the entry's timestamp."""
    found = segment.find(entry.offset)
    if found is None:
        return False
    _, header = found
    return header.base_offset <= entry.offset and header.max_timestamp_ms == entry.timestamp_ms

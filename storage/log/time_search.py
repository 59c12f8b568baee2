"""Exact search for the offset of a timestamp (edge).

The time index only yields the start of the search. The result is exact by record timestamps, as if
every record had been read.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kafkawire.errors import CorruptBatchError
from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import BatchHeader, Record, read_records
from storage.errors import CorruptLogError
from storage.segment.batch_scan import walk_headers
from storage.segment.segment import Segment
from storage.segment.segment_lookup import largest_timestamp, position_of_time


class TimestampOffset(NamedTuple):
    """A record's timestamp, its offset, and the leader epoch that wrote it."""

    timestamp_ms: int
    offset: Offset
    leader_epoch: LeaderEpoch


def count(segments: Iterable[Segment], max_count: int) -> bool:
    """Count up to `max_count` segments; return whether some are left.

    The first search of a log has to open each of its closed segments once, to count it.
    """
    left = [segment for segment in segments if not segment.is_counted]
    for segment in left[:max_count]:
        largest_timestamp(segment)
    return len(left) > max_count


def first_from(
    segments: Iterable[Segment], timestamp_ms: int, start_offset: Offset, end_offset: Offset
) -> TimestampOffset | None:
    """Return the first record in `start_offset`..`end_offset` with at least `timestamp_ms`."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            return None
        if largest_timestamp(segment).timestamp_ms < timestamp_ms:
            continue
        start = position_of_time(segment, timestamp_ms, start_offset)
        for position, header in walk_headers(segment.file, start, segment.size_bytes):
            if header.base_offset >= end_offset:
                return None
            if header.max_timestamp_ms < timestamp_ms or header.last_offset < start_offset:
                continue
            for record in _records(segment, position, header):
                if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                    return _timestamp_offset(record, header) if record.offset < end_offset else None
    return None


def latest(segments: Iterable[Segment]) -> TimestampOffset | None:
    """Return the first record with the largest timestamp; None if no record has a timestamp."""
    by_time = [(largest_timestamp(segment), segment) for segment in segments]
    (timestamp_ms, offset), segment = max(by_time, key=lambda pair: pair[0].timestamp_ms)
    place = segment.find(offset) if timestamp_ms >= 0 else None
    if place is None:
        return None
    header = segment.read_header(place)
    records = _records(segment, place.position, header)
    newest = (record for record in records if record.timestamp_ms == timestamp_ms)
    return next((_timestamp_offset(record, header) for record in newest), None)


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    try:
        return read_records(segment.file.read(position, header.size_bytes))
    except CorruptBatchError as error:
        raise CorruptLogError(segment.file.path, position, str(error)) from error


def _timestamp_offset(record: Record, header: BatchHeader) -> TimestampOffset:
    return TimestampOffset(
        record.timestamp_ms, Offset(record.offset), LeaderEpoch(header.leader_epoch)
    )

"""The current end of each growing log, which is the progress of a stream (edge).

Progress is a record offset and the numbers of index entries in one segment, never a position in a
`.log` file: a broker rolls, deletes and compacts segments while the stream runs.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from analytics.discovery import find_replicas
from analytics.file_store import OpenFile
from logcheck.batch_walk import Batch, Walk
from logcheck.offset_index_check import ENTRY as INDEX_ENTRY
from logcheck.replica_files import SegmentFiles
from logcheck.time_index_check import ENTRY as TIME_ENTRY

UNKNOWN: Final = -1
# An active index is ten megabytes long and mostly zero: read only chunks of it.
_INDEX_CHUNK_BYTES: Final = 64 * 1024


class LogEnd(NamedTuple):
    """The current end of a log; in JSON a list of these numbers."""

    next_offset: int = UNKNOWN
    """Offset after the last complete batch (exclusive)."""
    leader_epoch: int = UNKNOWN
    """Leader epoch of that batch."""
    segment_base: int = UNKNOWN
    """Base offset of the active segment; earlier segments are sealed."""
    index_count: int = 0
    """Number of entries in its offset index."""
    time_count: int = 0
    """Number of entries in its time index."""


class LogEnds:
    """Finder of the ends of logs. It remembers the previous ends and reads only new batches."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, LogEnd]] = {}
        self._ends: dict[str, LogEnd] = {}

    def find(self, path: str) -> dict[str, LogEnd]:
        """Return the end of each log in `path`, by the log's name `TOPIC-PARTITION`.

        If a broker deletes a segment meanwhile, the log keeps its previous end until the next call.
        """
        ends: dict[str, LogEnd] = {}
        for replica in find_replicas(path, lambda _: None):
            name = f"{replica.topic}-{replica.partition}"
            end = self._log_end(replica.segments) or self._ends.get(name)
            if end is not None:
                ends[name] = end
        self._ends = ends
        return ends

    def _log_end(self, segments: Sequence[SegmentFiles]) -> LogEnd | None:
        for segment in reversed(segments):
            try:
                end = self._segment_end(segment)
            except OSError:
                return None
            if end.next_offset != UNKNOWN:
                return end
        return None

    def _segment_end(self, segment: SegmentFiles) -> LogEnd:
        position, known = self._known.get(
            segment.log, (0, LogEnd(segment_base=segment.base_offset))
        )
        # Indexes first: a broker writes a batch before its entry, so counted entries have a batch.
        index_count = _count(segment.index, INDEX_ENTRY, known.index_count)
        time_count = _count(segment.timeindex, TIME_ENTRY, known.time_count)
        next_offset, epoch = known.next_offset, known.leader_epoch
        with OpenFile(segment.log) as source:
            if source.size_bytes < position:
                # The log was truncated, as a follower's log is after a change of leader.
                position, next_offset, epoch = 0, UNKNOWN, UNKNOWN
                index_count = _count(segment.index, INDEX_ENTRY, 0)
                time_count = _count(segment.timeindex, TIME_ENTRY, 0)
            walk = Walk(source, segment.log, lambda _: None, is_tail_allowed=True)
            for item in walk.items(position):
                if isinstance(item, Batch):
                    next_offset, epoch = item.header.last_offset + 1, item.header.leader_epoch
                    position = item.position + len(item.data)
        end = LogEnd(next_offset, epoch, segment.base_offset, index_count, time_count)
        if next_offset != UNKNOWN:
            self._known[segment.log] = position, end
        return end


def _count(file: str | None, layout: Struct, known: int) -> int:
    """Return the number of entries before the padding, of which `known` were counted before."""
    if file is None:
        return 0
    count, unused = known, bytes(layout.size)
    chunk_bytes = _INDEX_CHUNK_BYTES - _INDEX_CHUNK_BYTES % layout.size
    with OpenFile(file) as source:
        while True:
            chunk = bytes(source.read_at(count * layout.size, chunk_bytes))
            for start in range(0, len(chunk) - layout.size + 1, layout.size):
                if chunk[start : start + layout.size] == unused:
                    return count
                count += 1
            if len(chunk) < chunk_bytes:
                return count

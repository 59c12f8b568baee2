"""Edge: how far a growing log has come: what a stream's offset says of each log.

Progress is counted in record offsets and in index entries of one segment, never in bytes of a
`.log` file: a broker rolls, deletes and compacts segments while the stream runs.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from analytics.batch_walk import Batch, Walk
from analytics.checks.offset_index import ENTRY as INDEX_ENTRY
from analytics.checks.time_index import ENTRY as TIME_ENTRY
from analytics.discovery import find_replicas
from analytics.file_store import OpenFile
from analytics.task import SegmentFiles

UNKNOWN: Final = -1
# Of an active index, ten megabytes of which are zero: what is read at once.
_INDEX_CHUNK_BYTES: Final = 64 * 1024


class LogEnd(NamedTuple):
    """How far a log has come; as JSON a list of these numbers."""

    next_offset: int = UNKNOWN
    """The offset behind the last whole batch; what is still being written does not count."""
    leader_epoch: int = UNKNOWN
    """The epoch of that batch."""
    segment_base: int = UNKNOWN
    """The segment that is being written; those before it are sealed."""
    index_count: int = 0
    """Entries that its offset index has."""
    time_count: int = 0
    """Entries that its time index has."""


class LogEnds:
    """Finds where logs end; remembers where it looked last, so that only growth is read."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, LogEnd]] = {}
        self._ends: dict[str, LogEnd] = {}

    def find(self, path: str) -> dict[str, LogEnd]:
        """The end of each log below `path`, under its name `TOPIC-PARTITION`.

        A segment that a broker deletes meanwhile is seen the next time.
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
        # Indexes first: a broker writes a batch before its entry, so what is counted is there.
        index_count = _count(segment.index, INDEX_ENTRY, known.index_count)
        time_count = _count(segment.timeindex, TIME_ENTRY, known.time_count)
        next_offset, epoch = known.next_offset, known.leader_epoch
        with OpenFile(segment.log) as source:
            if source.size_bytes < position:
                # Truncated, as a follower is after a change of leaders.
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
    """How many entries are in front of the padding, of which `known` were there before."""
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

"""Edge: the batches of a growing log between two offsets, each checked as it was appended."""

from collections.abc import Iterator
from typing import Final

from analytics.batch_walk import Batch, Hole, Walk
from analytics.checks.batches import BatchCheck
from analytics.checks.index_bytes import read_entries
from analytics.checks.offset_index import ENTRY
from analytics.discovery import find_replicas
from analytics.file_store import OpenFile, read_bytes
from analytics.finding import Check, Finding
from analytics.task import ReplicaFiles, SegmentFiles

Row = tuple[str | int | None, ...]
UNKNOWN: Final = -1


class LogEnds:
    """Finds where logs end; remembers where it looked last, so that only growth is read."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, list[int]]] = {}

    def find(self, path: str) -> dict[str, list[int]]:
        """The offset behind the last whole batch of each log, and that batch's epoch.

        A batch that is still being written does not count. A segment that a broker deletes
        meanwhile is seen the next time.
        """
        ends: dict[str, list[int]] = {}
        for replica in find_replicas(path, lambda _: None):
            for segment in reversed(replica.segments):
                end = self._segment_end(segment)
                if end is not None:
                    ends[f"{replica.topic}-{replica.partition}"] = end
                    break
        return ends

    def _segment_end(self, segment: SegmentFiles) -> list[int] | None:
        position, end = self._known.get(segment.log, (0, None))
        try:
            with OpenFile(segment.log) as source:
                if source.size_bytes < position:
                    # Truncated, as a follower is after a change of leaders.
                    position, end = 0, None
                walk = Walk(source, segment.log, lambda _: None, is_tail_allowed=True)
                for item in walk.items(position):
                    if isinstance(item, Batch):
                        end = [item.header.last_offset + 1, item.header.leader_epoch]
                        position = item.position + len(item.data)
        except OSError:
            return None
        if end is not None:
            self._known[segment.log] = position, end
        return end


def read_batches(path: str, name: str, start: tuple[int, int], end_offset: int) -> Iterator[Row]:
    """Yield a row per batch of the log `name` from `start` (offset, epoch) up to `end_offset`."""
    for replica in find_replicas(path, lambda _: None):
        if f"{replica.topic}-{replica.partition}" == name:
            yield from _Follower(replica, *start).rows(end_offset)


class _Follower:
    """Follows one log from an offset on, as a follower replica would."""

    def __init__(self, replica: ReplicaFiles, next_offset: int, leader_epoch: int) -> None:
        self._replica = replica
        self._next_offset = next_offset
        self._leader_epoch = leader_epoch

    def rows(self, end_offset: int) -> Iterator[Row]:
        segments = self._replica.segments
        for number, segment in enumerate(segments):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else None
            if following is not None and following <= self._next_offset:
                continue
            findings: list[Finding] = []
            try:
                with OpenFile(segment.log) as source:
                    is_active = following is None
                    walk = Walk(source, segment.log, findings.append, is_tail_allowed=is_active)
                    yield from self._walk(walk, segment, findings, end_offset, is_active=is_active)
            except OSError:
                # Deleted by its broker meanwhile: retention is no violation.
                continue

    def _walk(
        self,
        walk: Walk,
        segment: SegmentFiles,
        findings: list[Finding],
        end_offset: int,
        *,
        is_active: bool,
    ) -> Iterator[Row]:
        check = BatchCheck(segment.log, findings.append)
        for item in walk.items(self._seek(segment)):
            if isinstance(item, Hole):
                if not (item.is_tail and is_active):
                    yield self._damage(segment.log, findings[-1])
                    self._next_offset = UNKNOWN
                continue
            header = item.header
            if header.base_offset >= end_offset:
                return
            if header.last_offset < self._next_offset:
                continue
            sound = check.open(item)
            problem = self._problem(item) if sound is not None else _told(findings[-1])
            yield (
                self._replica.topic,
                self._replica.partition,
                segment.log,
                item.position,
                header.base_offset,
                header.last_offset,
                header.leader_epoch,
                header.record_count,
                header.size_bytes,
                header.max_timestamp_ms,
                *problem,
            )
            self._next_offset = header.last_offset + 1
            self._leader_epoch = max(self._leader_epoch, header.leader_epoch)

    def _seek(self, segment: SegmentFiles) -> int:
        """Where to begin in the segment: at the last index entry before what is wanted."""
        if segment.index is None or self._next_offset <= segment.base_offset:
            return 0
        data = read_bytes(segment.index)
        entries = read_entries(data, ENTRY, segment.index, Check.OFFSET_INDEX, lambda _: None)
        wanted = self._next_offset - segment.base_offset
        return max((place for offset, place in entries if offset < wanted), default=0)

    def _problem(self, item: Batch) -> tuple[str | None, str | None, str | None]:
        header, wanted = item.header, self._next_offset
        if wanted != UNKNOWN and header.base_offset < wanted:
            return "offset_overlap", f"offset {wanted} or more", f"offset {header.base_offset}"
        if wanted != UNKNOWN and header.base_offset > wanted:
            return "offset_gap", f"offset {wanted}", f"offset {header.base_offset}"
        if header.leader_epoch < self._leader_epoch:
            expected = f"epoch {self._leader_epoch} or later"
            return "epoch_back", expected, f"epoch {header.leader_epoch}"
        return None, None, None

    def _damage(self, file: str, finding: Finding) -> Row:
        place = self._replica.topic, self._replica.partition, file, finding.position
        return (*place, finding.offset, None, None, None, None, None, *_told(finding))


def _told(finding: Finding) -> tuple[str | None, str | None, str | None]:
    return finding.what, finding.expected, finding.found

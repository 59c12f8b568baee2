"""The batches of a growing log between two offsets, checked in the order of their appends (edge).

The index entries that were appended with them are checked too (`stream_indexes`).
"""

from collections.abc import Iterator, Sequence

from analytics.discovery import find_replicas
from analytics.file_store import OpenFile, list_directory, read_bytes
from analytics.place import child_of, name_of, without_end
from analytics.stream_indexes import IndexShare
from analytics.stream_progress import UNKNOWN, LogEnd
from kafkawire.records import BatchHeader
from logcheck.batch_check import BatchCheck
from logcheck.batch_walk import Batch, Hole, Walk
from logcheck.finding import Check, Damage, Finder, Finding, Report, unreadable
from logcheck.history import History, history_of
from logcheck.offset_index_check import ENTRY as INDEX_ENTRY
from logcheck.replica_files import ReplicaFiles, SegmentFiles
from logcheck.segment_columns import SegmentColumns
from logcheck.time_index_check import ENTRY as TIME_ENTRY

Row = tuple[str | int | None, ...]


def read_batches(
    path: str,
    name: str,
    start: LogEnd,
    end: LogEnd,
    *,
    is_strict: bool = False,
    cleanup_policy: str | None = None,
) -> Iterator[Row]:
    """Yield a row per batch of the log `name` between two ends, and per faulty index entry.

    A cleaner may explain missing offsets, unless the topic's `cleanup_policy` is `delete`.
    """
    for replica in _replicas_of(without_end(path), name):
        if f"{replica.topic}-{replica.partition}" == name:
            history = history_of(replica, cleanup_policy)
            yield from _Follower(replica, start, end, history, is_strict=is_strict).rows()


def _replicas_of(root: str, name: str) -> Sequence[ReplicaFiles]:
    """Return the replica in the directory `name`; `root` may be that directory.

    There is a task for each log that has grown: none of them lists the directories of the others.
    """
    try:
        return find_replicas(root if name_of(root) == name else child_of(root, name), _ignore)
    except (FileNotFoundError, NotADirectoryError):
        # The topic was deleted meanwhile, unless all of the directory is gone.
        list_directory(root)
        return ()


def _ignore(_: Finding) -> None:
    pass


class _Follower:
    """A reader of one log from one end to the next, as a follower replica reads it."""

    def __init__(
        self,
        replica: ReplicaFiles,
        start: LogEnd,
        end: LogEnd,
        history: History,
        *,
        is_strict: bool,
    ) -> None:
        self._replica = replica
        self._history = history
        self._start = start
        self._end = end
        self._is_strict = is_strict
        self._next_offset = start.next_offset
        self._leader_epoch = start.leader_epoch
        # The cleaner has rewritten the indexes of the cleaned part.
        self._cleaned_until = replica.cleaner_point or 0

    def rows(self) -> Iterator[Row]:
        segments = self._replica.segments
        if self._next_offset < self._replica.first_base_offset:
            # Retention has deleted batches before they were read.
            self._next_offset = UNKNOWN
        for number, segment in enumerate(segments):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else None
            is_passed = following is not None and following <= self._next_offset
            if segment.base_offset > self._end.segment_base:
                return
            if is_passed and segment.base_offset < self._start.segment_base:
                continue
            try:
                yield from self._read(segment, is_active=following is None)
            except FileNotFoundError:
                # The broker has deleted or cleaned the segment, which is no violation.
                self._next_offset = UNKNOWN
            except OSError as error:
                yield self._damage(unreadable(segment.log, error))
                self._next_offset = UNKNOWN

    def _read(self, segment: SegmentFiles, *, is_active: bool) -> Iterator[Row]:
        share = self._share(segment)
        findings: list[Finding] = []
        columns = SegmentColumns(segment.base_offset, segment.log)
        with OpenFile(segment.log) as source:
            walk = Walk(source, segment.log, findings.append, is_tail_allowed=is_active)

            def find_header(position: int, offset: int) -> BatchHeader | None:
                for item in Walk(source, segment.log, lambda _: None).items(position):
                    if isinstance(item, Hole) or item.header.base_offset > offset:
                        return None
                    if item.header.last_offset >= offset:
                        return item.header
                return None

            position = share.start(segment.base_offset, self._next_offset, find_header)
            yield from self._walk(walk, position, columns, findings, is_active=is_active)
        findings.clear()
        if share.has_new_entries:
            share.check(segment, columns, findings.append, is_strict=self._is_strict)
        yield from (self._damage(finding) for finding in findings)

    def _share(self, segment: SegmentFiles) -> IndexShare:
        """Return the index entries of the segment that were appended between the two ends."""
        base_offset = segment.base_offset
        index = b"" if segment.index is None else read_bytes(segment.index)
        times = b"" if segment.timeindex is None else read_bytes(segment.timeindex)
        is_sealed = base_offset < self._end.segment_base
        if not is_sealed:
            index = index[: self._end.index_count * INDEX_ENTRY.size]
            times = times[: self._end.time_count * TIME_ENTRY.size]
        if base_offset == self._start.segment_base:
            first_index, first_time = self._start.index_count, self._start.time_count
        else:
            first_index = first_time = 0
        if base_offset < self._cleaned_until:
            # These entries serve only to seek; they are not checked.
            first_index, first_time = len(index), len(times)
            is_sealed = False
        return IndexShare(
            index=index,
            times=times,
            first_index=first_index,
            first_time=first_time,
            is_sealed=is_sealed,
        )

    def _walk(
        self,
        walk: Walk,
        start: int,
        columns: SegmentColumns,
        findings: list[Finding],
        *,
        is_active: bool,
    ) -> Iterator[Row]:
        check = BatchCheck(walk.file, findings.append)
        # Batches before the start were checked before; only the index checks need them again.
        is_new = columns.base_offset >= self._next_offset
        for item in walk.items(start):
            if isinstance(item, Hole):
                columns.damage_at(item.position)
                if is_new and not (item.is_tail and is_active):
                    yield self._damage(findings[-1])
                    self._next_offset = UNKNOWN
                continue
            header = item.header
            if header.base_offset >= self._end.next_offset:
                break
            is_new = is_new or header.last_offset + 1 >= self._next_offset
            if header.last_offset < self._next_offset:
                columns.add(item.position, header)
                continue
            findings.clear()
            is_sound = check.open(item) is not None
            if not findings:
                self._check_order(walk.file, item, findings.append)
            problem = findings[0] if findings else None
            if is_sound and (problem is None or problem.damage is not Damage.OFFSET_OVERLAP):
                columns.add(item.position, header)
            else:
                columns.damage_at(item.position)
            yield self._row(walk.file, item, problem)
            self._next_offset = header.last_offset + 1
            self._leader_epoch = max(self._leader_epoch, header.leader_epoch)
        columns.end_position = walk.end_position

    def _row(self, file: str, item: Batch, problem: Finding | None) -> Row:
        header = item.header
        return (
            self._replica.topic,
            self._replica.partition,
            file,
            item.position,
            header.base_offset,
            header.last_offset,
            header.leader_epoch,
            header.record_count,
            header.size_bytes,
            header.max_timestamp_ms,
            *_columns_of(problem),
        )

    def _check_order(self, file: str, item: Batch, report: Report) -> None:
        """Report a batch that goes back, has an older epoch, or leaves a gap."""
        header, wanted = item.header, self._next_offset
        found, place = f"offset {header.base_offset}", (file, item.position, header.base_offset)
        find = Finder(Check.OFFSETS, report).find
        if wanted != UNKNOWN and header.base_offset < wanted:
            find(Damage.OFFSET_OVERLAP, *place, f"offset {wanted} or more", found)
        elif header.leader_epoch < self._leader_epoch:
            expected = f"epoch {self._leader_epoch} or later"
            found = f"epoch {header.leader_epoch}"
            Finder(Check.EPOCHS, report).find(Damage.EPOCH_BACK, *place, expected, found)
        elif header.base_offset > wanted != UNKNOWN:
            severity = self._history.missing(header.base_offset - 1)
            if severity is not None:
                find(Damage.OFFSET_GAP, *place, f"offset {wanted}", found, severity)

    def _damage(self, finding: Finding) -> Row:
        place = self._replica.topic, self._replica.partition, finding.file, finding.position
        return (*place, finding.offset, None, None, None, None, None, *_columns_of(finding))


def _columns_of(problem: Finding | None) -> tuple[str | None, str | None, str | None, str | None]:
    """Return the columns `finding`, `expected`, `found` and `severity` of a row."""
    if problem is None:
        return None, None, None, None
    return problem.damage.value, problem.expected, problem.found, problem.severity.value

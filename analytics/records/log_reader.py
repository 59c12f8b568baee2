"""The batches of one log between two offsets, while a broker may change its files (edge).

Progress is an offset, never a position in a file. A broker rolls, deletes and compacts segments
meanwhile: if a file has vanished, the directory is listed again, and reading continues at the next
offset. Invariant: no offset is yielded twice, and a part of the log that exists is never passed
over silently.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from analytics.errors import DataLossError
from analytics.file_store import OpenFile, list_directory, read_bytes
from analytics.place import name_of, parent_of
from logcheck.batch_walk import Batch, Hole, Walk
from logcheck.file_name import parse_partition_directory
from logcheck.finding import Check, Finding
from logcheck.index_entries import read_entries
from logcheck.offset_index_check import ENTRY
from logcheck.replica_files import ReplicaFiles, SegmentFiles, replica_files
from logcheck.unfinished_swap import finish_swap

MAX_LISTINGS: Final = 100
"""Listings of one directory without any progress; a cleaner renames for milliseconds."""
MAX_STALLED: Final = 2
"""Reads of the newest segment without progress; the first one may have missed a roll."""


class Piece(NamedTuple):
    """A batch, and the part of it to read: the records in `first_offset..end_offset`."""

    file: str
    batch: Batch
    first_offset: int
    end_offset: int
    """Exclusive."""

    @property
    def is_whole(self) -> bool:
        """Whether all records of the batch are to be read."""
        header = self.batch.header
        return self.first_offset <= header.base_offset and header.last_offset < self.end_offset


class LogReader:
    """A reader of the offsets `start..end` (exclusive) of the log in `directory`."""

    def __init__(
        self,
        directory: str,
        start: int,
        end: int,
        *,
        may_lose_data: bool = False,
        may_begin_later: bool = False,
    ) -> None:
        self._directory = directory
        self._next_offset = start
        self._end = end
        self._may_lose_data = may_lose_data
        self._may_begin_later = may_begin_later
        self.lost: list[str] = []
        """A sentence for each part of the log that was skipped, because it is damaged or gone."""
        self.deleted: list[tuple[int, int]] = []
        """With `may_begin_later`, the offsets (inclusive) that retention deleted meanwhile."""

    def pieces(self) -> Iterator[Piece]:
        """Yield the batches in order; their checksums are right.

        Raises:
            DataLossError: a part is damaged or gone, unless `may_lose_data` skips it.
            OSError: a file cannot be read.
        """
        vanished = stalled = 0
        while self._next_offset < self._end:
            before = self._next_offset
            segments = self._list_from_next()
            try:
                # One listing serves for all segments: a partition may have many thousands.
                yield from self._read_all(segments)
            except FileNotFoundError:
                vanished = 1 if self._next_offset > before else vanished + 1
                if vanished == MAX_LISTINGS:
                    raise
                continue
            stalled = 0 if self._next_offset > before else stalled + 1
            if stalled == MAX_STALLED:
                self.lose(f"{segments[-1].log} ends at offset {before}, expected {self._end}")
                return

    def lose(self, sentence: str) -> None:
        """Note that a part of the log cannot be read.

        Raises:
            DataLossError: this reader may not skip it.
        """
        if not self._may_lose_data:
            raise DataLossError(sentence)
        # The end of the log is read twice.
        if sentence not in self.lost:
            self.lost.append(sentence)

    def _list_from_next(self) -> Sequence[SegmentFiles]:
        """Return the segments from that with the next offset on."""
        segments = list_log(self._directory).segments
        if not segments:
            raise DataLossError(f"{self._directory} has no segment any more")
        first = segments[0].base_offset
        if first > self._next_offset:
            # Retention has deleted the beginning.
            if self._may_begin_later:
                self.deleted.append((self._next_offset, min(first, self._end) - 1))
            else:
                self.lose(
                    f"the log in {self._directory} begins at offset {first}, "
                    f"expected {self._next_offset}"
                )
            self._next_offset = min(first, self._end)
        slot = bisect_right(segments, self._next_offset, key=lambda each: each.base_offset) - 1
        return segments[max(slot, 0) :]

    def _read_all(self, segments: Sequence[SegmentFiles]) -> Iterator[Piece]:
        for segment, following in pairwise([*segments, None]):
            if segment is None or self._next_offset >= self._end:
                return
            if following is None:
                yield from self._read(segment)
            elif following.base_offset > self._next_offset:
                yield from self._read(segment)
                reached = min(following.base_offset, self._end)
                self._next_offset = max(self._next_offset, reached)

    def _read(self, segment: SegmentFiles) -> Iterator[Piece]:
        findings: list[Finding] = []
        with OpenFile(segment.log) as source:
            walk = Walk(source, segment.log, findings.append)
            for item in walk.items(seek(source, segment, self._next_offset)):
                if isinstance(item, Hole):
                    self.lose(f"damaged: {findings[-1]}")
                    continue
                header = item.header
                if header.base_offset >= self._end:
                    self._next_offset = self._end
                    return
                if header.last_offset < self._next_offset:
                    continue
                piece = Piece(segment.log, item, self._next_offset, self._end)
                self._next_offset = min(header.last_offset + 1, self._end)
                yield piece
                if self._next_offset == self._end:
                    return


def list_log(directory: str) -> ReplicaFiles:
    """Return the files of a partition's directory, without its checkpoints.

    Raises:
        OSError: the directory cannot be listed.
    """
    entries = list_directory(directory)
    for _ in range(MAX_LISTINGS):
        # A listing during a rename may lack the file under both of its names.
        again = list_directory(directory)
        if [each.name for each in again] == [each.name for each in entries]:
            break
        entries = again
    partition = parse_partition_directory(name_of(directory))
    files = finish_swap(entries, OpenFile)
    return replica_files(partition, parent_of(directory), directory, files, {})


def seek(source: OpenFile, segment: SegmentFiles, offset: int) -> int:
    """Return the position of a batch at or before `offset`, by the index; 0 if it is wrong."""
    if segment.index is None or offset <= segment.base_offset:
        return 0
    try:
        data = read_bytes(segment.index)
    except OSError:
        return 0
    entries = read_entries(data, ENTRY, segment.index, Check.OFFSET_INDEX, lambda _: None)
    slot = bisect_right(entries, offset - segment.base_offset, key=lambda entry: entry[0]) - 1
    if slot < 0:
        return 0
    relative, position = entries[slot]
    if position <= 0:
        return 0
    for item in Walk(source, segment.log, lambda _: None).items(position, position + 1):
        if isinstance(item, Batch):
            header = item.header
            if header.base_offset <= segment.base_offset + relative <= header.last_offset:
                return position
    return 0

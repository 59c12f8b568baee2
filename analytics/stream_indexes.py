"""S5 and S6 of a growing log: the new index entries, and the batches for their check (decision).

The check of an offset index entry needs the batches after the previous entry. The check of a time
index entry needs the running maximum. The previous entry contains that maximum at its batch, so the
batches from there suffice. If the previous entry is wrong, the whole segment is read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct

from kafkawire.records import BatchHeader
from logcheck.finding import Report
from logcheck.index_files import IndexBytes, check_indexes, report_missing_indexes
from logcheck.offset_index_check import ENTRY as INDEX_ENTRY
from logcheck.replica_files import SegmentFiles
from logcheck.segment_columns import SegmentColumns
from logcheck.time_index_check import ENTRY as TIME_ENTRY

FindHeader = Callable[[int, int], BatchHeader | None]
"""A search from a position for the batch that contains an offset; returns its header.

The result is None if no sound batch begins at the position, or no later batch contains the offset.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexShare:
    """The entries of one segment's indexes, and the first of them to check."""

    index: bytes
    times: bytes
    """Contents of both indexes without padding, up to the last entry to check."""
    first_index: int
    first_time: int
    """Slots of the first entries that were not checked before."""
    is_sealed: bool
    """Whether the segment was sealed, so that no entry can follow."""

    @property
    def has_new_entries(self) -> bool:
        """Whether there is an entry to check."""
        has_new_index = len(self.index) > self.first_index * INDEX_ENTRY.size
        has_new_times = len(self.times) > self.first_time * TIME_ENTRY.size
        return has_new_index or has_new_times or self.is_sealed

    def start(self, base_offset: int, wanted_offset: int, find_header: FindHeader) -> int:
        """Return the position from which to read the segment: that of a sound batch, or 0.

        It is at or before the batch with `wanted_offset`, and early enough to check all new
        entries.
        """
        entries = [
            (base_offset + relative, position)
            for relative, position in INDEX_ENTRY.iter_unpack(_whole(self.index, INDEX_ENTRY))
        ]
        reach = wanted_offset
        if len(entries) > self.first_index:
            if not self.first_index:
                return 0
            reach = min(reach, entries[self.first_index - 1][0])
        times = list(TIME_ENTRY.iter_unpack(_whole(self.times, TIME_ENTRY)))
        if len(times) > self.first_time or self.is_sealed:
            if not 0 < self.first_time <= len(times):
                return 0
            newest_ms, relative = times[self.first_time - 1]
            offset = base_offset + relative
            header = find_header(_seek(entries, offset, find_header), offset)
            if header is None or header.max_timestamp_ms != newest_ms:
                return 0
            reach = min(reach, offset)
        return _seek(entries, reach, find_header)

    def check(
        self, files: SegmentFiles, segment: SegmentColumns, report: Report, *, is_strict: bool
    ) -> None:
        """Report faulty new entries; `segment` contains the batches read from `start`."""
        if self.is_sealed:
            report_missing_indexes(files, report)
        check_indexes(
            files,
            IndexBytes(self.index, self.times),
            segment,
            report,
            is_active=not self.is_sealed,
            is_strict=is_strict,
            first_slots=(self.first_index, self.first_time),
        )


def _whole(data: bytes, layout: Struct) -> bytes:
    return data[: len(data) - len(data) % layout.size]


def _seek(entries: Sequence[tuple[int, int]], offset: int, find_header: FindHeader) -> int:
    """Return the position of the last entry up to `offset`; 0 if the entry is wrong or missing."""
    for reached, position in reversed(entries):
        if reached <= offset:
            is_right = position >= 0 and find_header(position, reached) is not None
            return position if is_right else 0
    return 0

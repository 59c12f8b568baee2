"""Composition: the indexes of a replica's segments, each read before its segment.

If a broker writes meanwhile, the segment has only more records than the index knows, never fewer.
"""

from collections.abc import Callable
from typing import NamedTuple

from logcheck.finding import Check, Report, unreadable
from logcheck.index_entries import report_missing_index
from logcheck.offset_index_check import check_offset_index, read_offset_index
from logcheck.replica_files import SegmentFiles
from logcheck.segment_columns import SegmentColumns
from logcheck.time_index_check import check_time_index, read_time_index


class IndexBytes(NamedTuple):
    """The contents of a segment's indexes; None for a missing or unreadable file."""

    offsets: bytes | None
    times: bytes | None


class IndexFiles:
    """The check of the indexes of one replica, segment by segment."""

    def __init__(
        self, report: Report, read_bytes: Callable[[str], bytes], *, is_strict: bool = False
    ) -> None:
        self.shapes: dict[str, str] = {}
        """The shape of each offset index, by file."""
        self._report = report
        self._read_bytes = read_bytes
        self._is_strict = is_strict

    def read(self, files: SegmentFiles) -> IndexBytes:
        """Return the contents of both indexes; report an unreadable one."""
        return IndexBytes(self._read(files.index), self._read(files.timeindex))

    def _read(self, file: str | None) -> bytes | None:
        try:
            return None if file is None else self._read_bytes(file)
        except OSError as error:
            self._report(unreadable(file or "", error))
            return None

    def check(
        self, files: SegmentFiles, data: IndexBytes, columns: SegmentColumns, *, is_active: bool
    ) -> None:
        """Compare the indexes of a segment with its batches."""
        report = self._report
        if files.index is None:
            report_missing_index(files, Check.OFFSET_INDEX, report)
        elif data.offsets is not None:
            entries = read_offset_index(data.offsets, files.index, report)
            self.shapes[files.index] = check_offset_index(
                entries, files.index, columns, report, is_strict=self._is_strict
            )
        if files.timeindex is None:
            report_missing_index(files, Check.TIME_INDEX, report)
        elif data.times is not None:
            entries = read_time_index(data.times, files.timeindex, report)
            check_time_index(entries, files.timeindex, columns, report, is_active=is_active)

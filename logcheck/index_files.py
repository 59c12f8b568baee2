"""The indexes of a replica's segments, each read before its segment (composition).

If a broker writes meanwhile, the segment has only more records than the index knows, never fewer.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from logcheck.file_name import beside
from logcheck.finding import Check, Damage, Finder, Finding, Report, Severity
from logcheck.offset_index_check import ENTRY as OFFSET_ENTRY
from logcheck.offset_index_check import check_offset_index, read_offset_index
from logcheck.replica_files import ReadBytes, SegmentFiles, read_reported
from logcheck.segment_columns import SegmentColumns
from logcheck.time_index_check import ENTRY as TIME_ENTRY
from logcheck.time_index_check import check_time_index, read_time_index

UNFINISHED: Final = (Damage.INDEX_MISSING, Damage.INDEX_CUT, Damage.TIME_LAST_ENTRY)


class IndexBytes(NamedTuple):
    """The contents of a segment's indexes; None for a missing or unreadable file."""

    offsets: bytes | None
    times: bytes | None


class IndexFiles:
    """The check of the indexes of one replica, segment by segment."""

    def __init__(self, report: Report, read_bytes: ReadBytes, *, is_strict: bool = False) -> None:
        self.shapes: dict[str, str] = {}
        """The shape of each offset index, by file."""
        self._report = report
        self._read_bytes = read_bytes
        self._is_strict = is_strict

    def read(self, files: SegmentFiles) -> IndexBytes:
        """Return the contents of both indexes; report an unreadable one."""
        offsets = self._read(files.index, OFFSET_ENTRY.size)
        return IndexBytes(offsets, self._read(files.timeindex, TIME_ENTRY.size))

    def _read(self, file: str | None, entry_bytes: int) -> bytes | None:
        data = None if file is None else read_reported(self._read_bytes, file, self._report)
        if file is not None and data is not None and len(data) % entry_bytes:
            # A broker cuts the padding of a sealed segment's index, also in a hard link. A read
            # meanwhile may end anywhere.
            return read_reported(self._read_bytes, file, self._report)
        return data

    def check(
        self,
        files: SegmentFiles,
        data: IndexBytes,
        columns: SegmentColumns,
        *,
        is_active: bool,
        is_recovered: bool,
    ) -> None:
        """Compare the indexes of a segment with its batches.

        `is_recovered` if a broker that was killed may have been building them.
        """
        report = _with_notes(self._report) if is_active or is_recovered else self._report
        report_missing_indexes(files, report)
        shape = check_indexes(
            files, data, columns, report, is_active=is_active, is_strict=self._is_strict
        )
        if files.index is not None and shape:
            self.shapes[files.index] = shape


def check_indexes(
    files: SegmentFiles,
    data: IndexBytes,
    columns: SegmentColumns,
    report: Report,
    *,
    is_active: bool,
    is_strict: bool,
    first_slots: tuple[int, int] = (0, 0),
) -> str:
    """Report the faulty entries from `first_slots`; return the offset index's shape, if any."""
    shape, (first_offset, first_time) = "", first_slots
    if is_active:
        report = _with_notes(report)
    if (file := files.index) is not None and data.offsets is not None:
        offsets = read_offset_index(data.offsets, file, report)
        shape = check_offset_index(
            offsets, file, columns, report, is_strict=is_strict, first_slot=first_offset
        )
    if (file := files.timeindex) is not None and data.times is not None:
        times = read_time_index(data.times, file, report)
        check_time_index(times, file, columns, report, is_active=is_active, first_slot=first_time)
    return shape


def _with_notes(report: Report) -> Report:
    """Return a `report` for unfinished indexes, which the broker rebuilds when it starts."""

    def report_unfinished(finding: Finding) -> None:
        is_unfinished = finding.damage in UNFINISHED
        report(replace(finding, severity=Severity.NOTE) if is_unfinished else finding)

    return report_unfinished


def report_missing_indexes(files: SegmentFiles, report: Report) -> None:
    """Report a segment without its offset index or time index."""
    expected = "an index beside the segment"
    found = "none; a broker rebuilds the index when it starts"
    for file, suffix, check in (
        (files.index, ".index", Check.OFFSET_INDEX),
        (files.timeindex, ".timeindex", Check.TIME_INDEX),
    ):
        if file is None:
            place = beside(files.log, suffix), None, None
            Finder(check, report).find(Damage.INDEX_MISSING, *place, expected, found)

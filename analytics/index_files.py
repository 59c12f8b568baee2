"""Edge: the indexes of a replica's segments, read before the segments."""

from collections.abc import Sequence
from itertools import zip_longest

from analytics.file_store import read_bytes
from analytics.log_scan import unreadable
from analytics.place import with_suffix
from analytics.task import ReplicaFiles, Rules
from logcheck.finding import Check, Report
from logcheck.index_entries import missing_index
from logcheck.offset_index_check import check_offset_index
from logcheck.segment_columns import SegmentColumns
from logcheck.time_index_check import check_time_index


class IndexFiles:
    """The contents of the index files when the audit began."""

    def __init__(self, replica: ReplicaFiles, rules: Rules, report: Report) -> None:
        self._replica = replica
        self._rules = rules
        self._report = report
        self._offsets = [self._read(segment.index) for segment in replica.segments]
        self._times = [self._read(segment.timeindex) for segment in replica.segments]

    def _read(self, file: str | None) -> bytes | None:
        try:
            return None if file is None else read_bytes(file)
        except OSError as error:
            self._report(unreadable(file or "", error))
            return None

    def check(self, segments: Sequence[SegmentColumns]) -> list[str]:
        """Compare the indexes with the segments as read; return the shapes of the indexes."""
        shapes = set()
        rows = zip_longest(self._replica.segments, segments, self._offsets, self._times)
        for files, columns, offsets, times in rows:
            is_active = files is self._replica.segments[-1]
            if files.index is None:
                self._report(missing_index(with_suffix(files.log, ".index"), Check.OFFSET_INDEX))
            elif offsets is not None:
                strict = self._rules.is_strict
                shapes.add(
                    check_offset_index(
                        offsets, files.index, columns, self._report, is_strict=strict
                    )
                )
            if files.timeindex is None:
                self._report(missing_index(with_suffix(files.log, ".timeindex"), Check.TIME_INDEX))
            elif times is not None:
                check_time_index(times, files.timeindex, columns, self._report, is_active=is_active)
        return sorted(shapes)

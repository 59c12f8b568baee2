"""The part of a log that a cleaner may have changed, by its files. Decision: no I/O.

A cleaner replaces segments before it writes its checkpoint. The broker may be running, or may have
been killed in between, so the files may be ahead of the checkpoint, up to the active segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafkawire.columns_loops import SoundBatch
from logcheck.finding import Damage, Finding, Severity
from logcheck.segment_columns import SegmentColumns


class CleanerTraces:
    """An observer that keeps the files with traces of a cleaner."""

    def __init__(self) -> None:
        self.files: set[str] = set()

    def on_batch(self, batch: SoundBatch) -> None:
        """See `log_view.Observer`. Only a cleaner leaves fewer records than offsets."""
        if batch.header.record_count <= batch.header.last_offset_delta:
            self.files.add(batch.file)


@dataclass(frozen=True, slots=True)
class CleanedPart:
    """The checkpoint of a log's cleaner, None without one, and the traces in its segments."""

    cleaner_point: int | None
    segments: Sequence[SegmentColumns]
    traces: CleanerTraces

    @property
    def _active_base(self) -> int:
        return self.segments[-1].base_offset if self.segments else 0

    def judge_gap(self, gap: Finding) -> Finding | None:
        """Return the finding of a gap with its severity, or None if a cleaning explains the gap.

        Without a checkpoint, a log with traces of a cleaner counts as cleaned completely, because
        its cleanup policy may have changed since. A gap between the checkpoint and the active
        segment is only a note.
        """
        end = gap.offset or 0
        if self.cleaner_point is None:
            return None if self.traces.files else gap
        if end <= self.cleaner_point:
            return None
        return replace(gap, severity=Severity.NOTE) if end <= self._active_base else gap

    def end(self, gaps: Sequence[Finding]) -> int:
        """Return the end of the part that a cleaner may have changed; `gaps` are all gaps."""
        if not self.segments:
            return 0
        if self.cleaner_point is None:
            return self.segments[-1].next_offset if self.traces.files else 0
        ends = [each.next_offset for each in self.segments[:-1] if each.file in self.traces.files]
        ends += [gap.offset or 0 for gap in gaps]
        is_ahead = any(self.cleaner_point < end <= self._active_base for end in ends)
        return self._active_base if is_ahead else self.cleaner_point


def is_gap(finding: Finding) -> bool:
    """Whether the finding is a gap, which a cleaning may explain."""
    return finding.damage is Damage.OFFSET_GAP

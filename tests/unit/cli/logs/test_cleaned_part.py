"""Gaps that a cleaning explains, and the part of a log that a cleaner may have changed."""

from dataclasses import dataclass, field

from kafkawire.columns_loops import SoundBatch
from logcheck.batch_check import NO_SECTION, UNREAD
from logcheck.finding import Damage, Finding, Severity
from logcheck.offset_check import OffsetCheck
from logcheck.segment_columns import SegmentColumns
from ottla.cli.logs.cleaned_part import CleanedPart, CleanerTraces
from tests.unit.logcheck.partition_bytes import Reported, build_batch, header_of


@dataclass
class Log:
    """Segments of batches with these base offsets, three records each."""

    segments: list[SegmentColumns] = field(default_factory=list)
    traces: CleanerTraces = field(default_factory=CleanerTraces)
    gaps: list[Finding] = field(default_factory=list)

    def cleaned_to(self, cleaner_point: int | None) -> CleanedPart:
        return CleanedPart(cleaner_point, self.segments, self.traces)


def log_of(*segments: tuple[int, ...], cleaned: int | None = None) -> Log:
    """Return a log; the segment at `cleaned` has a batch with fewer records than offsets."""
    log, reported = Log(), Reported()
    offsets = OffsetCheck(reported, 0)
    for number, bases in enumerate(segments):
        columns = SegmentColumns(bases[0], f"{bases[0]}.log")
        log.segments.append(columns)
        offsets.begin_segment(bases[0], columns.file)
        for position, base_offset in enumerate(bases):
            header = header_of(build_batch(base_offset))
            columns.add(position, header)
            offsets.check(position, header)
            if number == cleaned:
                header = header._replace(record_count=1)
            data = memoryview(b"")
            log.traces.on_batch(
                SoundBatch(columns.file, position, header, data, NO_SECTION, UNREAD)
            )
    assert set(reported.damages) <= {Damage.OFFSET_GAP}
    log.gaps = reported.findings
    return log


def judged(log: Log, cleaner_point: int | None) -> tuple[list[int | None], list[int | None]]:
    """Return the ends of the gaps that are errors, and of the gaps that are notes."""
    part = log.cleaned_to(cleaner_point)
    found = [finding for gap in log.gaps if (finding := part.judge_gap(gap)) is not None]
    notes = [finding for finding in found if finding.severity is Severity.NOTE]
    return [each.offset for each in found if each not in notes], [each.offset for each in notes]


def test_gaps_within_and_between_segments_are_errors() -> None:
    assert judged(log_of((0, 3), (6,)), None) == ([], [])
    assert judged(log_of((0, 4), (9,)), None) == ([4, 9], [])


def test_log_may_begin_at_any_offset() -> None:
    assert log_of((100, 103)).gaps == []


def test_cleaned_part_of_a_log_may_have_gaps() -> None:
    holes = log_of((0, 4), (8, 12))
    assert judged(holes, 4) == ([12], [8])
    assert judged(holes, 12) == ([], [])


def test_gap_beyond_the_cleaner_checkpoint_is_an_error_in_the_active_segment_only() -> None:
    swapped = log_of((0, 4), (9, 15), (20,))
    assert judged(swapped, 4) == ([], [9, 15, 20])
    assert judged(swapped, 12) == ([], [15, 20])
    assert judged(log_of((0,), (3, 9)), 3) == ([9], [])


def test_traces_of_a_cleaner_explain_gaps_without_a_checkpoint() -> None:
    assert judged(log_of((0, 4), cleaned=0), None) == ([], [])


def cleaned_end(log: Log, cleaner_point: int | None) -> int:
    return log.cleaned_to(cleaner_point).end(log.gaps)


def test_log_counts_as_cleaned_up_to_its_last_sealed_segment_with_traces() -> None:
    plain = log_of((0, 3), (6,))
    assert (cleaned_end(plain, None), cleaned_end(plain, 3)) == (0, 3)
    swapped = log_of((0, 4), (9, 12))
    assert cleaned_end(swapped, 3) == 9
    assert cleaned_end(swapped, 9) == 9
    rewritten = log_of((0, 3), (6,), cleaned=0)
    assert cleaned_end(rewritten, 3) == 6
    assert cleaned_end(rewritten, None) == 9


def test_log_without_segments_has_no_cleaned_part() -> None:
    assert cleaned_end(Log(), 3) == 0

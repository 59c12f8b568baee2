"""Checks across the segments of a partition: `ottla.cli.logs.partition_check`."""

from ottla.cli.logs.finding import Damage
from ottla.cli.logs.partition_check import SegmentExtent, check_epochs, check_gaps, cleaned_end
from tests.unit.cli.logs.partition_bytes import Reported, build_batch, header_of


def segment(*batches: tuple[int, int]) -> SegmentExtent:
    """Return a segment of batches with these base offsets and epochs, three records each."""
    extent = SegmentExtent(f"{batches[0][0]}.log", batches[0][0], batches[0][0])
    for position, (base_offset, epoch) in enumerate(batches):
        extent.add(position, header_of(build_batch(base_offset, leader_epoch=epoch)))
    return extent


def gaps(*segments: SegmentExtent, cleaner_point: int | None = None) -> list[int | None]:
    return gaps_and_notes(*segments, cleaner_point=cleaner_point)[0]


def gaps_and_notes(
    *segments: SegmentExtent, cleaner_point: int | None
) -> tuple[list[int | None], list[int | None]]:
    reported, noted = Reported(), Reported()
    check_gaps(segments, cleaner_point, reported, noted)
    assert {*reported.damages, *noted.damages} <= {Damage.MISSING_OFFSETS}
    findings, notes = reported.findings, noted.findings
    return [finding.offset for finding in findings], [note.offset for note in notes]


def test_gaps_within_and_between_segments_are_reported() -> None:
    assert gaps(segment((0, 0), (3, 0)), segment((6, 0))) == []
    assert gaps(segment((0, 0), (4, 0)), segment((9, 0))) == [3, 7]


def test_log_may_begin_at_any_offset() -> None:
    assert gaps(segment((100, 0), (103, 0))) == []


def test_cleaned_part_of_a_log_may_have_gaps() -> None:
    holes = (segment((0, 0), (4, 0)), segment((8, 0), (12, 0)))
    assert gaps(*holes, cleaner_point=4) == [11]
    assert gaps(*holes, cleaner_point=12) == []


def test_gap_beyond_the_cleaner_checkpoint_is_an_error_in_the_active_segment_only() -> None:
    swapped = (segment((0, 0), (4, 0)), segment((9, 0), (15, 0)), segment((20, 0)))
    assert gaps_and_notes(*swapped, cleaner_point=4) == ([], [7, 12, 18])
    assert gaps_and_notes(*swapped, cleaner_point=12) == ([], [12, 18])
    damaged = (segment((0, 0)), segment((3, 0), (9, 0)))
    assert gaps_and_notes(*damaged, cleaner_point=3) == ([6], [])


def test_log_counts_as_cleaned_up_to_its_last_sealed_segment_with_traces() -> None:
    plain = (segment((0, 0), (3, 0)), segment((6, 0)))
    assert (cleaned_end(plain, None), cleaned_end(plain, 3)) == (0, 3)
    swapped = (segment((0, 0), (4, 0)), segment((9, 0), (12, 0)))
    assert cleaned_end(swapped, 3) == 9
    assert cleaned_end(swapped, 9) == 9
    rewritten = segment((0, 0), (3, 0))
    rewritten.is_compacted = True
    assert cleaned_end((rewritten, segment((6, 0))), 3) == 6
    assert cleaned_end((rewritten, segment((6, 0))), None) == 9


def test_traces_of_a_cleaner_explain_gaps_without_a_checkpoint() -> None:
    cleaned = segment((0, 0), (4, 0))
    cleaned.is_compacted = True
    assert gaps(cleaned) == []


def test_gaps_of_a_damaged_segment_are_not_reported_again() -> None:
    damaged = segment((0, 0), (4, 0))
    damaged.is_damaged = True
    assert gaps(damaged) == []


def test_each_contradicted_epoch_entry_is_reported_once() -> None:
    segments = [segment((0, 0), (3, 1)), segment((6, 1), (9, 1), (12, 3))]
    for checkpoint, lines in (
        ([(0, 0), (1, 3), (3, 12)], []),
        ([(1, 5), (3, 12)], []),
        ([(0, 0), (1, 3), (2, 12)], [5]),
        ([(0, 0), (1, 4), (3, 12)], [3]),
        ([(0, 0), (3, 6)], [3, 4]),
        ([(0, 0), (1, 3), (3, 12), (4, 15)], []),
    ):
        reported = Reported()
        check_epochs(segments, checkpoint, "leader-epoch-checkpoint", reported)
        assert [finding.position for finding in reported.findings] == lines, checkpoint

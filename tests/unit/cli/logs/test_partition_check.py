"""Checks that span the segments of a partition: `ottla.cli.logs.partition_check`."""

from ottla.cli.logs.finding import Damage
from ottla.cli.logs.partition_check import SegmentExtent, check_epochs, check_gaps
from tests.unit.cli.logs.partition_bytes import Reported, build_batch, header_of


def segment(*batches: tuple[int, int]) -> SegmentExtent:
    """A segment of batches with these first offsets and leader epochs, three records each."""
    extent = SegmentExtent(f"{batches[0][0]}.log", batches[0][0], batches[0][0])
    for position, (base_offset, epoch) in enumerate(batches):
        extent.add(position, header_of(build_batch(base_offset, leader_epoch=epoch)))
    return extent


def gaps(*segments: SegmentExtent, cleaner_point: int | None = None) -> list[int | None]:
    reported = Reported()
    check_gaps(segments, cleaner_point, reported)
    assert set(reported.damages) <= {Damage.MISSING_OFFSETS}
    return [finding.offset for finding in reported.findings]


def test_offsets_are_missing_within_and_between_segments() -> None:
    assert gaps(segment((0, 0), (3, 0)), segment((6, 0))) == []
    assert gaps(segment((0, 0), (4, 0)), segment((9, 0))) == [3, 7]


def test_a_log_may_begin_anywhere() -> None:
    assert gaps(segment((100, 0), (103, 0))) == []


def test_what_was_cleaned_may_have_holes() -> None:
    holes = (segment((0, 0), (4, 0)), segment((9, 0)))
    assert gaps(*holes, cleaner_point=4) == [7]
    assert gaps(*holes, cleaner_point=9) == []


def test_traces_of_a_cleaner_explain_holes_without_a_checkpoint() -> None:
    cleaned = segment((0, 0), (4, 0))
    cleaned.is_compacted = True
    assert gaps(cleaned) == []


def test_what_could_not_be_read_is_told_once() -> None:
    damaged = segment((0, 0), (4, 0))
    damaged.is_damaged = True
    assert gaps(damaged) == []


def test_each_entry_that_batches_contradict_is_named_once() -> None:
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

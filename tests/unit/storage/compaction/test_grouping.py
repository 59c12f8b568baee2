"""The choice of segments to merge."""

from kafkawire.ids import Offset
from storage.compaction.grouping import MAX_GROUP_SEGMENTS, MeasuredSegment, group_segments
from storage.compaction.job import SourceSegment

FAR = 2**31 - 1


def measured(
    base: int, end: int, size: int = 10, index: int = 8, time: int = 12
) -> MeasuredSegment:
    return MeasuredSegment(SourceSegment(Offset(base), Offset(end), size), index, time)


def bases(
    *segments: MeasuredSegment, segment_bytes: int = 25, index_bytes: int = 100
) -> list[list[int]]:
    groups = group_segments(segments, segment_bytes=segment_bytes, segment_index_bytes=index_bytes)
    return [[each.segment.base_offset for each in group] for group in groups]


THREE = [measured(0, 10), measured(10, 20), measured(20, 30)]


def test_group_has_as_many_segments_as_one_can_hold() -> None:
    assert bases(*THREE) == [[0, 10], [20]]
    assert bases(*THREE, segment_bytes=30) == [[0, 10, 20]]
    assert bases() == []


def test_a_segment_that_is_too_large_stays_alone() -> None:
    assert bases(measured(0, 10), measured(10, 20, size=50), measured(20, 30)) == [[0], [10], [20]]


def test_the_indexes_must_have_room_too() -> None:
    assert bases(*THREE, segment_bytes=30, index_bytes=23) == [[0], [10], [20]]
    assert bases(*(each._replace(index_bytes=50) for each in THREE)) == [[0, 10], [20]]
    assert bases(*(each._replace(index_bytes=51) for each in THREE)) == [[0], [10], [20]]


def test_the_last_offset_must_not_be_too_far_from_the_first() -> None:
    assert bases(measured(0, 10), measured(10, FAR + 1)) == [[0, 10]]
    assert bases(measured(0, 10), measured(10, FAR + 2)) == [[0], [10]]


def test_empty_segment_has_no_offset_range() -> None:
    assert bases(measured(0, 10), measured(10, FAR + 2, size=0)) == [[0, 10]]


def test_group_has_a_maximum_number_of_segments() -> None:
    many = [measured(base, base + 1, size=0, index=0, time=0) for base in range(40)]
    assert [len(group) for group in bases(*many)] == [MAX_GROUP_SEGMENTS, 40 - MAX_GROUP_SEGMENTS]

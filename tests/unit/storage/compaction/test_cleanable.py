"""The cleanable range of a log, and the choice of the next log."""

from typing import Any

import pytest

from kafkawire.ids import Offset, TopicPartition
from storage.compaction.cleanable import Candidate, LogFacts, SegmentFacts, filthiest, weigh

NOW_MS = 1_000_000
NEVER = 2**63 - 1


def segment(base: int, size: int = 100, first: int = 0, largest: int = 0) -> SegmentFacts:
    return SegmentFacts(Offset(base), size, first, largest)


def log(*segments: SegmentFacts, **changes: Any) -> LogFacts:
    """Return the facts about a log of segments with ten offsets each; the last one is active."""
    facts: dict[str, Any] = {
        "partition": TopicPartition("t", 0),
        "segments": segments or [segment(base) for base in (0, 10, 20, 30)],
        "log_end_offset": 40,
        "first_undecided_offset": 40,
        "min_compaction_lag_ms": 0,
        "max_compaction_lag_ms": NEVER,
        "min_cleanable_dirty_ratio": 0.5,
    }
    return LogFacts(**facts | changes)


def bounds(facts: LogFacts, checkpoint: int | None = None) -> tuple[int, int]:
    found = weigh(facts, None if checkpoint is None else Offset(checkpoint), NOW_MS)
    return found.first_dirty_offset, found.first_uncleanable_offset


LATER = [segment(base) for base in (10, 20, 30)]


@pytest.mark.parametrize(
    ("changes", "checkpoint", "expected"),
    [
        pytest.param({}, None, (0, 30), id="never cleaned: all but the active segment"),
        pytest.param({}, 20, (20, 30), id="from the checkpoint on"),
        pytest.param({}, 30, (30, 30), id="clean up to the active segment"),
        pytest.param({}, 35, (35, 30), id="clean into the active segment"),
        pytest.param({}, 41, (0, 30), id="a checkpoint above the end does not count"),
        pytest.param({"segments": LATER}, 5, (10, 30), id="nor one below the first segment"),
        pytest.param({"segments": LATER}, None, (10, 30), id="from the first segment on"),
        pytest.param({"first_undecided_offset": 20}, None, (0, 20), id="up to the high watermark"),
        pytest.param({"first_undecided_offset": 25}, None, (0, 20), id="whole segments only"),
        pytest.param({"first_undecided_offset": 5}, None, (0, 0), id="nothing is decided yet"),
        pytest.param({"first_undecided_offset": 5}, 20, (20, 20), id="clean beyond the watermark"),
    ],
)
def test_the_dirty_part(
    changes: dict[str, Any], checkpoint: int | None, expected: tuple[int, int]
) -> None:
    assert bounds(log(**changes), checkpoint) == expected


def test_a_log_of_one_segment_has_nothing_to_clean() -> None:
    found = weigh(log(segment(0), log_end_offset=9), None, NOW_MS)
    assert (found.cleanable_bytes, found.is_due) == (0, False)


def test_segment_with_a_young_record_protects_itself_and_later_ones() -> None:
    segments = [segment(0), segment(10, largest=NOW_MS - 999), segment(20), segment(30)]
    assert bounds(log(*segments, min_compaction_lag_ms=1_000)) == (0, 10)
    assert bounds(log(*segments, min_compaction_lag_ms=999)) == (0, 30)


def test_a_log_is_due_when_it_is_dirty_enough() -> None:
    half = weigh(log(), Offset(20), NOW_MS)
    assert (half.clean_bytes, half.cleanable_bytes) == (200, 100)
    assert not half.is_due
    most = weigh(log(), Offset(10), NOW_MS)
    assert most.dirty_ratio == pytest.approx(2 / 3)
    assert most.is_due


def test_log_is_due_when_a_record_exceeds_the_maximum_lag() -> None:
    segments = [segment(0, first=5), segment(10, first=5), segment(20, first=9), segment(30)]
    found = weigh(log(*segments, max_compaction_lag_ms=NOW_MS - 10), Offset(20), NOW_MS)
    assert (found.delay_ms, found.is_due) == (1, True)
    assert weigh(log(*segments, max_compaction_lag_ms=NOW_MS - 9), Offset(20), NOW_MS).delay_ms == 0


def test_record_without_a_timestamp_has_no_lag() -> None:
    segments = [segment(0, first=-1), segment(10)]
    assert weigh(log(*segments, max_compaction_lag_ms=1), None, NOW_MS).delay_ms == 0


def candidate(
    ratio_percent: int, threshold: float = 0.5, delay_ms: int = 0, failed_ms: int = 0
) -> Candidate:
    return Candidate(
        partition=TopicPartition("t", ratio_percent),
        first_dirty_offset=Offset(0),
        first_uncleanable_offset=Offset(10),
        clean_bytes=100 - ratio_percent,
        cleanable_bytes=ratio_percent,
        delay_ms=delay_ms,
        min_cleanable_dirty_ratio=threshold,
        failed_ms=failed_ms,
    )


def test_due_log_with_the_largest_dirty_ratio_comes_first() -> None:
    few, many = candidate(60), candidate(90)
    assert filthiest([few, many, candidate(95, threshold=0.99)]) is many
    assert filthiest([few, candidate(10, delay_ms=1)]) is few
    assert filthiest([candidate(50)]) is None
    assert filthiest([]) is None


def test_a_log_that_has_failed_comes_after_all_others_and_the_last_to_fail_is_last() -> None:
    first, second = candidate(99, failed_ms=1), candidate(99, failed_ms=2)
    clean = candidate(60)
    assert filthiest([second, first, clean]) is clean
    assert filthiest([second, first, candidate(50)]) is first


def test_an_empty_log_is_not_dirty() -> None:
    empty = [segment(0, size=0), segment(10, size=0)]
    assert weigh(log(*empty), None, NOW_MS).dirty_ratio == 0

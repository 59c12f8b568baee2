"""The choice of segments by retention: `storage.log.retention`."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from kafkawire.ids import Offset
from storage.config.log_config import LogConfig
from storage.log.retention import LogBounds, Reason, find_breaches

NOW_MS = 1_000_000
ALL = 2**31
DELETE_NOTHING = LogConfig(retention_ms=None, retention_bytes=None)


class Fake(NamedTuple):
    """A segment of ten offsets."""

    base_offset: Offset
    size_bytes: int
    newest_ms: int


def segments(*sizes: int, times: Sequence[int] = ()) -> list[Fake]:
    """Return segments with these sizes and ages of the newest record (default: brand-new)."""
    ages = [*times, *[0] * len(sizes)]
    return [
        Fake(Offset(10 * number), size, NOW_MS - ages[number]) for number, size in enumerate(sizes)
    ]


def chosen(
    found: list[Fake],
    config: LogConfig,
    *,
    start: int = 0,
    high_watermark: int | None = None,
    end: int | None = None,
    max_segments: int = ALL,
) -> dict[Reason, int]:
    """Return the number of segments to delete, by reason."""
    log_end_offset = 10 * len(found) if end is None else end
    bounds = LogBounds(
        log_start_offset=Offset(start),
        high_watermark=Offset(log_end_offset if high_watermark is None else high_watermark),
        log_end_offset=Offset(log_end_offset),
    )
    breaches = find_breaches(
        found,
        bounds,
        config,
        now_ms=NOW_MS,
        newest_ms=lambda segment: segment.newest_ms,
        max_segments=max_segments,
    )
    return {breach.reason: breach.segment_count for breach in breaches if breach.segment_count}


@pytest.mark.parametrize(
    ("limit", "count"),
    [
        pytest.param(401, 0, id="the log is smaller"),
        pytest.param(400, 0, id="the log is as large: nothing is superfluous"),
        pytest.param(301, 0, id="without the oldest it would be too small"),
        pytest.param(300, 1, id="without the oldest it is as large as wanted"),
        pytest.param(150, 2, id="as many as fit into the excess"),
        pytest.param(0, 4, id="all of them, also the active one"),
    ],
)
def test_size_rule_keeps_at_least_retention_bytes(limit: int, count: int) -> None:
    config = LogConfig(retention_bytes=limit, retention_ms=None)
    expected = {Reason.SIZE: count} if count else {}
    assert chosen(segments(100, 100, 100, 100), config) == expected


@pytest.mark.parametrize(
    ("ages", "count"),
    [
        pytest.param([1_000, 1_000, 1_000], 0, id="as old as allowed"),
        pytest.param([1_001, 1_000, 1_001], 1, id="a younger one protects those behind it"),
        pytest.param([1_001, 5_000, 1_001], 3, id="the active one goes as well"),
        pytest.param([-(10**9), 5_000, 5_000], 0, id="a timestamp in the future stays"),
    ],
)
def test_time_counts_from_the_newest_record(ages: list[int], count: int) -> None:
    config = LogConfig(retention_ms=1_000)
    expected = {Reason.TIME: count} if count else {}
    assert chosen(segments(1, 1, 1, times=ages), config) == expected


def test_an_empty_last_segment_always_stays() -> None:
    config = LogConfig(retention_ms=1_000, retention_bytes=0)
    found = segments(1, 1, 0, times=[9_999] * 3)
    assert chosen(found, config, end=20) == {Reason.SIZE: 2}
    assert chosen(found[2:], config, start=20, end=20) == {}


@pytest.mark.parametrize(("high_watermark", "count"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3)])
def test_retention_keeps_uncommitted_segments(high_watermark: int, count: int) -> None:
    found = segments(1, 1, 1, times=[9_999] * 3)
    for config in (
        LogConfig(retention_ms=1_000),
        LogConfig(retention_bytes=0, retention_ms=None),
    ):
        assert sum(chosen(found, config, high_watermark=high_watermark).values()) == count


@pytest.mark.parametrize(("start", "count"), [(0, 0), (9, 0), (10, 1), (25, 2), (30, 2)])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_segments_below_the_log_start_are_deleted_under_any_policy(
    start: int, count: int, policy: str
) -> None:
    config = LogConfig(cleanup_policy=frozenset({policy}), retention_ms=None)
    expected = {Reason.LOG_START_OFFSET: count} if count else {}
    assert chosen(segments(1, 1, 1), config, start=start) == expected


def test_compacted_log_ignores_age_and_size() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}), retention_ms=1, retention_bytes=0)
    assert chosen(segments(1, 1, times=[99, 99]), config) == {}
    both = LogConfig(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1)
    assert chosen(segments(1, 1, times=[99, 0]), both) == {Reason.TIME: 1}


def test_retention_rules_apply_in_order() -> None:
    config = LogConfig(retention_ms=50, retention_bytes=250)
    found = segments(100, 100, 100, 100, 100, times=[0, 0, 99, 0, 0])
    assert chosen(found, config, start=10) == {
        Reason.LOG_START_OFFSET: 1,
        Reason.SIZE: 1,
        Reason.TIME: 1,
    }


def test_retention_run_has_a_maximum_of_segments() -> None:
    config = LogConfig(retention_bytes=0)
    assert chosen(segments(1, 1, 1, 1), config, max_segments=3) == {Reason.SIZE: 3}
    config = LogConfig(retention_ms=10)
    found = segments(1, 1, 1, times=[99, 99, 99])
    assert chosen(found, config, start=10, max_segments=2) == {
        Reason.LOG_START_OFFSET: 1,
        Reason.TIME: 1,
    }


def test_without_limits_everything_stays() -> None:
    assert chosen(segments(1, 1, times=[10**12] * 2), DELETE_NOTHING) == {}

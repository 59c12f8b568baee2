"""Offsets by the old ListOffsets: the start, the end, and segments before a time."""

import pytest

from broker.handlers.old_offset_lookup import old_offsets
from kafkawire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

SEGMENTS = [(0, 100), (10, 200), (20, 300)]
NOW_MS = 1000


@pytest.mark.parametrize(
    ("timestamp", "max_count", "offsets"),
    [
        (LATEST_TIMESTAMP, 1, [25]),
        (LATEST_TIMESTAMP, 10, [25, 20, 10, 5]),
        (EARLIEST_TIMESTAMP, 1, [5]),
        (EARLIEST_TIMESTAMP, 10, [5]),
        (250, 1, [10]),
        (300, 10, [20, 10, 5]),
        (99, 10, []),
        (NOW_MS - 1, 10, [20, 10, 5]),
        (NOW_MS, 10, [25, 20, 10, 5]),
        (LATEST_TIMESTAMP, 0, []),
        (LATEST_TIMESTAMP, -1, []),
    ],
)
def test_offsets_before_a_time(timestamp: int, max_count: int, offsets: list[int]) -> None:
    found = old_offsets(
        SEGMENTS, timestamp, max_count, now_ms=NOW_MS, start_offset=5, end_offset=25
    )
    assert found == offsets


def test_nothing_lies_beyond_the_high_watermark() -> None:
    segments = [(0, 1), (10, 2)]
    found = old_offsets(segments, LATEST_TIMESTAMP, 3, now_ms=NOW_MS, start_offset=0, end_offset=7)
    assert found == [7, 0]


@pytest.mark.parametrize(
    ("timestamp", "offsets"),
    [(LATEST_TIMESTAMP, [0]), (EARLIEST_TIMESTAMP, [0]), (NOW_MS, [0]), (0, [])],
)
def test_an_empty_log_starts_where_it_ends(timestamp: int, offsets: list[int]) -> None:
    found = old_offsets([(0, -1)], timestamp, 5, now_ms=NOW_MS, start_offset=0, end_offset=0)
    assert found == offsets

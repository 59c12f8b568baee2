"""Offsets by the old ListOffsets: the start, the end, and segments before a time."""

import pytest

from broker.handlers.old_offset_lookup import old_offsets
from kafkawire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

SEGMENTS = [(0, 100), (10, 200), (20, 300)]


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
        (LATEST_TIMESTAMP, 0, []),
        (LATEST_TIMESTAMP, -1, []),
    ],
)
def test_offsets_before_a_time(timestamp: int, max_count: int, offsets: list[int]) -> None:
    assert old_offsets(SEGMENTS, timestamp, max_count, start_offset=5, end_offset=25) == offsets


def test_nothing_lies_beyond_the_high_watermark() -> None:
    assert old_offsets([(0, 1), (10, 2)], LATEST_TIMESTAMP, 3, start_offset=0, end_offset=7) == [
        7,
        0,
    ]


def test_an_empty_log_starts_where_it_ends() -> None:
    for timestamp in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP):
        assert old_offsets([(0, -1)], timestamp, 5, start_offset=0, end_offset=0) == [0]

"""Values over time, their rates, their drawing, and the pauses between samples."""

import pytest

from ottla.console.observation.pace import IDLE_PAUSE_S, INTEREST_S, MAX_PAUSE_S, Durations, Pace
from ottla.console.observation.series import Point, Series
from ottla.console.view.chart import chart, nice_top


def series(*points: tuple[int, float]) -> Series:
    made = Series(limit=6)
    for time_ms, value in points:
        made.add(time_ms, value)
    return made


def test_series_keeps_the_latest_points() -> None:
    made = series(*((number, number) for number in range(1, 9)))
    assert made.points == tuple(Point(number, number) for number in range(3, 9))
    assert made.last == 8
    assert Series().last is None


def test_clock_that_was_set_back_drops_later_points() -> None:
    assert series((10, 1), (20, 2), (15, 3)).points == (Point(10, 1), Point(15, 3))


def test_rate_is_the_mean_of_the_latest_points() -> None:
    assert series((0, 0)).rate_per_s() is None
    assert series((1_000, 10), (2_000, 30)).rate_per_s() == 20
    steady = series(*((second * 1_000, 100 * (second > 1)) for second in range(1, 7)))
    assert steady.rate_per_s() == 0


def test_counter_begins_again_after_it_fell() -> None:
    made = Series()
    for time_ms, total in ((1, 10), (2, 20), (3, 5)):
        made.count(time_ms, total)
    assert made.points == (Point(3, 5),)


def test_chart_spans_its_box() -> None:
    drawn = chart([Point(0, 0), Point(10, 4), Point(20, 8)], 100, 40)
    assert drawn is not None
    assert drawn.line == "M0.0 40.0L50.0 20.0L100.0 0.0"
    assert drawn.area == drawn.line + "L100 40L0 40Z"
    assert (drawn.top, drawn.start_ms, drawn.end_ms) == (8, 0, 20)
    assert drawn.ticks == ((40, 0), (30, 2), (20, 4), (10, 6), (0, 8))


def test_chart_needs_two_points() -> None:
    assert chart([Point(0, 1)], 100, 40) is None


@pytest.mark.parametrize(("largest", "top"), [(0, 4), (4, 4), (5, 8), (39, 40), (81, 120)])
def test_axis_ends_with_a_round_number(largest: float, top: float) -> None:
    assert nice_top(largest) == top


def test_expensive_samples_are_rare() -> None:
    pace = Pace(2.0)
    assert pace.pause_s(0.01, 0) == 2
    assert pace.pause_s(1.0, 0) == 9
    assert pace.pause_s(100.0, 0) == MAX_PAUSE_S


def test_a_sample_that_waited_for_a_broker_is_not_expensive() -> None:
    durations = Durations()
    assert [durations.add(each) for each in (10.0, 0.1, 0.1, 10.0, 10.0)] == [0, 0, 0.1, 0.1, 0.1]
    # A large cluster needs as long each time.
    assert [durations.add(each) for each in (9.0, 0.2)] == [9.0, 0.2]


def test_samples_are_rare_without_a_browser() -> None:
    assert Pace(2.0).pause_s(0.01, INTEREST_S) == IDLE_PAUSE_S

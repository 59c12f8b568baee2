"""Durations fall into buckets of powers of two microseconds."""

from __future__ import annotations

import pytest

from broker.network.metrics import RequestMetrics


@pytest.mark.parametrize(
    ("duration_s", "bucket"),
    [(0.0, 0), (0.000001, 1), (0.000003, 2), (0.001, 10), (1e9, 50)],
)
def test_a_duration_is_counted_in_its_bucket(duration_s: float, bucket: int) -> None:
    metrics = RequestMetrics()
    metrics.on_answered(duration_s)
    assert [n for n, count in enumerate(metrics.duration_buckets) if count] == [bucket]
    assert (metrics.request_count, metrics.duration_sum_s) == (1, duration_s)


def test_durations_are_counted_below_each_bound() -> None:
    metrics = RequestMetrics()
    for duration_s in (0.000001, 0.000063, 0.000064, 0.001, 100.0):
        metrics.on_answered(duration_s)
    counts = dict(metrics.durations())
    assert (counts[0.000064], counts[0.000128], counts[0.001024], counts[0.002048]) == (2, 3, 4, 4)
    assert max(counts.items()) == (67.108864, 4), "one took longer than all bounds"


def test_the_bounds_do_not_depend_on_the_counts() -> None:
    metrics = RequestMetrics()
    before = [bound_s for bound_s, _ in metrics.durations()]
    metrics.on_answered(0.5)
    assert [bound_s for bound_s, _ in metrics.durations()] == before == sorted(before)

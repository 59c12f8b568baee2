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


def test_a_percentile_is_the_upper_end_of_its_bucket() -> None:
    metrics = RequestMetrics()
    for duration_us in [3] * 99 + [1000]:
        metrics.on_answered(duration_us / 1e6)
    assert metrics.duration_at_most_s(0.5) == 4e-6
    assert metrics.duration_at_most_s(1.0) == 1024e-6


def test_without_requests_nothing_took_any_time() -> None:
    assert RequestMetrics().duration_at_most_s(0.99) == 1e-6

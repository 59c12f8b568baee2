"""Percentiles are values that were measured."""

from ottla.cli.latency import LatencySummary


def test_percentiles_are_nearest_ranks() -> None:
    summary = LatencySummary.of([float(n) for n in range(1_000, 0, -1)])
    assert summary.percentiles_ms == (500.0, 950.0, 990.0, 999.0)
    assert (summary.mean_ms, summary.max_ms) == (500.5, 1_000.0)
    assert summary.to_json() == {
        "mean_ms": 500.5,
        "p50_ms": 500.0,
        "p95_ms": 950.0,
        "p99_ms": 990.0,
        "p99.9_ms": 999.0,
        "max_ms": 1_000.0,
    }


def test_one_latency_is_every_percentile() -> None:
    line = LatencySummary.of([2.5]).to_line()
    assert line == ("latency in ms: mean 2.50, p50 2.50, p95 2.50, p99 2.50, p99.9 2.50, max 2.50")

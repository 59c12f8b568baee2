"""Gauges of the log cleaner."""

from broker.logs.cleaner_metrics import CleanerMetrics


def test_the_time_since_the_last_run_has_a_monotonic_clock() -> None:
    clock_s = 100.0
    metrics = CleanerMetrics(lambda: clock_s)
    read = metrics.gauges()["time_since_last_run_ms"]
    clock_s = 101.5
    assert read() == 1_500
    metrics.on_run()
    assert read() == 0

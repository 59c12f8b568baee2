"""Metrics of the log dirs (composition)."""

from __future__ import annotations

from broker.metrics import Metrics
from storage.directory.logs import Logs


def add_log_gauges(metrics: Metrics, logs: Logs) -> None:
    """Add gauges of disk problems, which should be 0, and of known producer ids."""
    metrics.add_gauge("producer_ids", lambda: sum(len(log.producers) for log in logs))
    metrics.add_gauge("offline_log_dirs", lambda: len(logs.offline_paths))
    metrics.add_gauge("full_log_dirs", lambda: len(logs.full_paths))
    metrics.add_gauge("damaged_segments", lambda: logs.damage_count)

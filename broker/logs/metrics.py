"""What the log dirs tell about themselves (composition)."""

from __future__ import annotations

from broker.metrics import Metrics
from storage.directory import Logs


def add_log_gauges(metrics: Metrics, logs: Logs) -> None:
    """Show what is wrong with disks, which should be 0, and how many producers are remembered."""
    metrics.add_gauge("producer_ids", lambda: sum(len(log.producers) for log in logs))
    metrics.add_gauge("offline_log_dirs", lambda: len(logs.offline_paths))
    metrics.add_gauge("full_log_dirs", lambda: len(logs.full_paths))
    metrics.add_gauge("damaged_segments", lambda: logs.damage_count)

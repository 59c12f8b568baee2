"""Metrics of the log cleaner (decision), with the names of Kafka's metrics in snake case.

Of several cleaners the largest value of each one's last round counts, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

from storage.compaction.job import CleanerStats


class CleanerMetrics:
    """Plain numbers, updated by the cleaner."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        """Start; `clock_s` is a monotonic clock."""
        self._clock_s = clock_s
        self._last: dict[int, CleanerStats] = {}
        self._last_run_s = clock_s()
        self.max_dirty_percent = 0
        self.max_compaction_delay_secs = 0
        self.round_count = 0
        self.failure_count = 0
        self.dead_thread_count = 0

    def on_run(self) -> None:
        """Note that a cleaner looks for a log to clean."""
        self._last_run_s = self._clock_s()

    def on_round(self, number: int, stats: CleanerStats) -> None:
        """Note the statistics of cleaner `number` in its last round."""
        self._last[number] = stats
        self.round_count += 1

    def gauges(self) -> dict[str, Callable[[], int]]:
        """Return the gauges by name."""
        return {
            "max_dirty_percent": lambda: self.max_dirty_percent,
            "max_compaction_delay_secs": lambda: self.max_compaction_delay_secs,
            "time_since_last_run_ms": self._since_last_run_ms,
            "cleaner_recopy_percent": self._recopy_percent,
            "max_buffer_utilization_percent": lambda: self._most(_utilization_percent),
            "max_clean_time_secs": lambda: self._most(lambda stats: int(stats.seconds)),
            "cleaner_rounds": lambda: self.round_count,
            "cleaner_failures": lambda: self.failure_count,
            "dead_cleaner_threads": lambda: self.dead_thread_count,
        }

    def _since_last_run_ms(self) -> int:
        return int((self._clock_s() - self._last_run_s) * 1000)

    def _recopy_percent(self) -> int:
        read = sum(stats.bytes_read for stats in self._last.values())
        written = sum(stats.bytes_written for stats in self._last.values())
        return 100 * written // read if read else 0

    def _most(self, value: Callable[[CleanerStats], int]) -> int:
        return max((value(stats) for stats in self._last.values()), default=0)


def _utilization_percent(stats: CleanerStats) -> int:
    return 100 * stats.map_size // stats.map_slot_count if stats.map_slot_count else 0

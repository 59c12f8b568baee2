"""The rate limit of a cleaner, in bytes per second (decision).

Time counts from the first byte of a window. Unused capacity of earlier windows is lost, so that a
pause is not followed by a burst. Source: org.apache.kafka.server.util.Throttler.
"""

from typing import Final

WINDOW_SECONDS: Final = 0.3


class Throttle:
    """A rate limit that holds on average over each window."""

    def __init__(self, max_bytes_per_second: float, now_s: float) -> None:
        self._max_bytes_per_second = max_bytes_per_second
        self._window_start_s = now_s
        self._window_bytes = 0

    def on_bytes(self, size_bytes: int, now_s: float) -> float:
        """Count transferred bytes; return the number of seconds to wait."""
        self._window_bytes += size_bytes
        elapsed_s = now_s - self._window_start_s
        if elapsed_s < WINDOW_SECONDS:
            return 0.0
        wait_s = max(0.0, self._window_bytes / self._max_bytes_per_second - elapsed_s)
        self._window_start_s = now_s + wait_s
        self._window_bytes = 0
        return wait_s

"""A recent rate per second, and the delay that brings it back to a limit (decision).

Amounts are counted in windows. A padded rate counts the windows before its start as empty, so that
a first burst is no excess; any other rate is measured from its start.
Source: Rate, SimpleRate, SampledStat and QuotaUtils of Kafka 3.9; KIP-13.
"""

from collections import deque
from typing import Final

WINDOW_MS: Final = 1000
WINDOW_COUNT: Final = 11
"""Ten full windows and the current one."""
BURST_S: Final = (WINDOW_COUNT - 1) * WINDOW_MS / 1000
"""Seconds' worth of a limit that may arrive at once."""
MAX_PAUSE_MS: Final = 2**31 - 1
"""The longest throttle time that fits into a response: 24 days."""


class Rate:
    """One rate; `now_ms` must not decrease from call to call."""

    __slots__ = ("_is_padded", "_windows", "throttle_ms")

    def __init__(self, *, is_padded: bool = True) -> None:
        self._is_padded = is_padded
        self._windows: deque[list[float]] = deque()
        self.throttle_ms = 0
        """The delay that the owner has derived from it last, 0 for none."""

    def add(self, amount: float, now_ms: int) -> None:
        """Count `amount` in the current window."""
        if not self._windows or now_ms - self._windows[-1][0] >= WINDOW_MS:
            self._windows.append([now_ms, 0.0])
            self._forget(now_ms)
        self._windows[-1][1] += amount

    def per_second(self, now_ms: int) -> float:
        """Return the rate of the last ten to eleven seconds."""
        self._forget(now_ms)
        total = sum(amount for _, amount in self._windows)
        return total * 1000 / self._span_ms(now_ms)

    def pause_ms(self, limit: float, now_ms: int) -> int:
        """Return the pause in milliseconds after which the rate is back at `limit` per second.

        It is at most `MAX_PAUSE_MS`, which a small limit and one large request can exceed.
        """
        excess = self.per_second(now_ms) - limit
        if excess <= 0:
            return 0
        span_ms = self._span_ms(now_ms)
        pause_ms = excess / limit * span_ms if limit > 0 else span_ms
        return round(min(pause_ms, MAX_PAUSE_MS))

    def is_idle(self, now_ms: int) -> bool:
        """Whether all windows have expired."""
        self._forget(now_ms)
        return not self._windows

    def _span_ms(self, now_ms: int) -> float:
        elapsed_ms = now_ms - self._windows[0][0] if self._windows else 0
        missing = WINDOW_COUNT - 1 - elapsed_ms // WINDOW_MS if self._is_padded else 0
        return max(elapsed_ms + max(0, missing) * WINDOW_MS, WINDOW_MS)

    def _forget(self, now_ms: int) -> None:
        while self._windows and now_ms - self._windows[0][0] >= WINDOW_COUNT * WINDOW_MS:
            self._windows.popleft()

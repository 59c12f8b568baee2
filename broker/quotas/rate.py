"""How much came per second lately, and how long to wait where that is too much (decision).

Counted in windows. A padded rate that has just begun counts as if nothing had been before, so that
one burst is no excess; another one counts from its beginning. Source: Rate, SimpleRate,
SampledStat and QuotaUtils of Kafka 3.9; KIP-13.
"""

from collections import deque
from typing import Final

WINDOW_MS: Final = 1000
WINDOW_COUNT: Final = 11
"""Ten whole windows, and the present one."""
BURST_S: Final = (WINDOW_COUNT - 1) * WINDOW_MS / 1000
"""What a limit allows in so many seconds may come at once."""


class Rate:
    """One rate; times only grow."""

    __slots__ = ("_is_padded", "_windows")

    def __init__(self, *, is_padded: bool = True) -> None:
        self._is_padded = is_padded
        self._windows: deque[list[float]] = deque()

    def add(self, amount: float, now_ms: int) -> None:
        """Count `amount` in the present window."""
        if not self._windows or now_ms - self._windows[-1][0] >= WINDOW_MS:
            self._windows.append([now_ms, 0.0])
            self._forget(now_ms)
        self._windows[-1][1] += amount

    def per_second(self, now_ms: int) -> float:
        """Return the rate of the last ten to eleven seconds."""
        self._forget(now_ms)
        total = sum(amount for _, amount in self._windows)
        return total * 1000 / self._span_ms(now_ms)

    def excess_ms(self, limit: float, now_ms: int) -> int:
        """Return how long nothing may come until the rate is back at `limit` per second."""
        excess = self.per_second(now_ms) - limit
        if excess <= 0:
            return 0
        span_ms = self._span_ms(now_ms)
        return round(excess / limit * span_ms) if limit > 0 else round(span_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing is counted any more."""
        self._forget(now_ms)
        return not self._windows

    def _span_ms(self, now_ms: int) -> float:
        elapsed_ms = now_ms - self._windows[0][0] if self._windows else 0
        missing = WINDOW_COUNT - 1 - elapsed_ms // WINDOW_MS if self._is_padded else 0
        return max(elapsed_ms + max(0, missing) * WINDOW_MS, WINDOW_MS)

    def _forget(self, now_ms: int) -> None:
        while self._windows and now_ms - self._windows[0][0] >= WINDOW_COUNT * WINDOW_MS:
            self._windows.popleft()

"""The most recent of many durations, and their quantiles (decision)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import nan
from typing import Final

KEPT: Final = 256
"""Number of durations that quantiles are taken from."""
QUANTILES: Final[Sequence[tuple[str, float]]] = (
    ("0.50", 0.50),
    ("0.75", 0.75),
    ("0.95", 0.95),
    ("0.98", 0.98),
    ("0.99", 0.99),
    ("0.999", 0.999),
)
"""The quantiles in Kafka's dashboards, as text and number."""


class Samples:
    """The last `KEPT` durations; their unit is that of their owner."""

    __slots__ = ("_values", "count", "largest")

    def __init__(self) -> None:
        self.count = 0
        """Number of all durations so far."""
        self.largest = 0.0
        """The longest duration so far."""
        self._values: deque[float] = deque(maxlen=KEPT)

    def add(self, value: float) -> None:
        """Add a duration, in place of the oldest one."""
        self.count += 1
        if value > self.largest:
            self.largest = value
        self._values.append(value)

    def quantiles(self) -> list[tuple[str, float]]:
        """Return the text and the value of each quantile, NaN if there is no duration yet."""
        ordered = sorted(self._values)
        if not ordered:
            return [(text, nan) for text, _ in QUANTILES]
        last = len(ordered) - 1
        return [(text, ordered[min(last, int(share * len(ordered)))]) for text, share in QUANTILES]

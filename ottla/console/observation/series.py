"""The latest values of a number over time (decision)."""

from collections import deque
from dataclasses import dataclass
from typing import Final

MAX_POINTS: Final = 240
RATE_POINTS: Final = 5
"""Number of the latest points between which a rate is the mean."""
_SECOND_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Point:
    """A value at a time in ms since the epoch."""

    time_ms: int
    value: float


class Series:
    """At most `limit` points, in the order of time."""

    __slots__ = ("_points",)

    def __init__(self, limit: int = MAX_POINTS) -> None:
        self._points: deque[Point] = deque(maxlen=limit)

    def add(self, time_ms: int, value: float) -> None:
        """Append a point. Points that are not older than it are dropped: the clock was set back."""
        while self._points and self._points[-1].time_ms >= time_ms:
            self._points.pop()
        self._points.append(Point(time_ms, value))

    def count(self, time_ms: int, total: float) -> None:
        """Append the value of a counter. A lower value than the last begins a new series."""
        if self._points and total < self._points[-1].value:
            self._points.clear()
        self.add(time_ms, total)

    @property
    def points(self) -> tuple[Point, ...]:
        """All points, the oldest first."""
        return tuple(self._points)

    @property
    def last(self) -> float | None:
        """The latest value; None without points."""
        return self._points[-1].value if self._points else None

    def rate_per_s(self) -> float | None:
        """Return the mean change per second over the latest points; None with fewer than two."""
        if len(self._points) < 2:
            return None
        first, last = self._points[max(0, len(self._points) - RATE_POINTS)], self._points[-1]
        return (last.value - first.value) * _SECOND_MS / (last.time_ms - first.time_ms)

"""Lines of a value over time, as paths of SVG (decision)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.console.observation.series import Point

TICKS: Final = 4
_STEPS: Final = (1, 2, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A line in a box of `width` x `height`, with its area and the labels of its axes."""

    width: int
    height: int
    line: str
    area: str
    ticks: tuple[tuple[float, float], ...]
    """Position and value of each horizontal line."""
    start_ms: int
    end_ms: int
    top: float
    """Value of the upper edge; the lower edge is 0."""


def chart(points: Sequence[Point], width: int, height: int) -> Chart | None:
    """Return the line through the points, from 0 upwards; None for fewer than two points."""
    if len(points) <= 1:
        return None
    start_ms, end_ms = points[0].time_ms, points[-1].time_ms
    top = nice_top(max(point.value for point in points))
    places = [
        (
            (point.time_ms - start_ms) / (end_ms - start_ms) * width,
            height - max(point.value, 0) / top * height,
        )
        for point in points
    ]
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return Chart(
        width=width,
        height=height,
        line=line,
        area=f"{line}L{width} {height}L0 {height}Z",
        ticks=tuple(
            (height - height * number / TICKS, top * number / TICKS) for number in range(TICKS + 1)
        ),
        start_ms=start_ms,
        end_ms=end_ms,
        top=top,
    )


def nice_top(largest: float) -> float:
    """Return the lowest of 1, 2, 3, 4, 5, 6, 8, 10, 20, ... times 4 that is not below `largest`."""
    unit = 1
    while True:
        for step in _STEPS:
            if step * unit * TICKS >= largest:
                return step * unit * TICKS
        unit *= _STEPS[-1]

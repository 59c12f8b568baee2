"""Percentiles of latencies (decision)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from ottla.cli.text import JsonValue

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Mean, percentiles and maximum of latencies, in ms."""

    mean_ms: float
    percentiles_ms: tuple[float, ...]
    """In the order of `PERCENTILES`."""
    max_ms: float

    @classmethod
    def of(cls, latencies_ms: Sequence[float]) -> Self:
        """Return the summary of at least one latency."""
        ordered = sorted(latencies_ms)
        count = len(ordered)

        def at(percent: float) -> float:
            # The nearest rank: no value that was not measured.
            rank = -int(-percent * count // 100)
            return ordered[max(rank, 1) - 1]

        return cls(sum(ordered) / count, tuple(map(at, PERCENTILES)), ordered[-1])

    def to_line(self) -> str:
        """Return one line for people."""
        parts = [f"mean {self.mean_ms:.2f}"]
        parts += [
            f"p{percent:g} {value:.2f}"
            for percent, value in zip(PERCENTILES, self.percentiles_ms, strict=True)
        ]
        return f"latency in ms: {', '.join(parts)}, max {self.max_ms:.2f}"

    def to_json(self) -> dict[str, JsonValue]:
        """Return the values for programs."""
        values: dict[str, JsonValue] = {"mean_ms": round(self.mean_ms, 4)}
        for percent, value in zip(PERCENTILES, self.percentiles_ms, strict=True):
            values[f"p{percent:g}_ms"] = round(value, 4)
        values["max_ms"] = round(self.max_ms, 4)
        return values

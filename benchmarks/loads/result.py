"""Figures of a run: medians, ratios, the table and the JSON file (decision)."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from kafkawire.native import IS_COMPILED
from speedups.finder import are_built


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured quantity beside its reference from the same run.

    `value` and `reference` are medians in `unit`; `goal` bounds `ratio` from the side that
    `better` names. A figure without a reference carries its goal on the value itself.
    """

    name: str
    unit: str
    value: float
    reference_name: str = ""
    reference: float | None = None
    better: Literal["lower", "higher"]
    goal: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Our value divided by the reference."""
        return self.value / self.reference if self.reference else None

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.goal is None:
            return None
        measured = self.value if self.ratio is None else self.ratio
        return measured <= self.goal if self.better == "lower" else measured >= self.goal


@dataclass(frozen=True, slots=True)
class Paired:
    """Medians of alternating runs, so that drift of the machine affects both equally."""

    ours: float
    reference: float


def alternate(ours: Callable[[], float], reference: Callable[[], float], *, rounds: int) -> Paired:
    """Run both in turn, and return the median of each."""
    pairs = [(reference(), ours()) for _ in range(rounds)]
    return Paired(
        statistics.median(pair[1] for pair in pairs), statistics.median(pair[0] for pair in pairs)
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a `share` (0..1) of `values` lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def to_json(figures: Sequence[Figure], commit: str, measured_at: str, stolen_share: float) -> str:
    """Return one load's run as JSON: machine, commit and every figure with its ratio."""
    return json.dumps(
        {
            "commit": commit,
            "measured_at": measured_at,
            "machine": {
                "cpu_count": os.cpu_count() or 1,
                "architecture": platform.machine(),
                "python": interpreter(
                    platform.python_version(), _configured_with(), sys.base_prefix
                ),
                "compiled_modules": IS_COMPILED,
                "compiled_hot_modules": are_built(),
                "stolen_share": round(stolen_share, 3),
            },
            "figures": [
                asdict(figure) | {"ratio": figure.ratio, "is_met": figure.is_met}
                for figure in figures
            ],
        },
        indent=2,
    )


def interpreter(version: str, configured_with: str, prefix: str) -> str:
    """Return the Python version, and whether it was built with a profile, if that is known.

    The build configuration of distributions does not show this.
    """
    if prefix == "/usr":
        return f"{version} of the distribution"
    is_optimised = "--enable-optimizations" in configured_with
    return f"{version}, {'with' if is_optimised else 'without'} --enable-optimizations"


def _configured_with() -> str:
    return str(sysconfig.get_config_var("CONFIG_ARGS") or "")


def figures_of(run: Mapping[str, Any]) -> list[Figure]:
    """Return the figures of a run that `to_json` has written."""
    names = [each.name for each in fields(Figure)]
    return [Figure(**{name: held[name] for name in names}) for held in run["figures"]]


def to_markdown(figures: Sequence[Figure]) -> str:
    """Return the run as a Markdown table."""
    lines = [
        "| Figure | Ours | Reference (same run) | Ratio | Goal | Met |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += ["| " + " | ".join(row(figure)) + " |" for figure in figures]
    return "\n".join(lines) + "\n"


def row(figure: Figure) -> list[str]:
    """Return one figure as the cells of a table."""
    reference = (
        f"{figure.reference:,.4g} {figure.unit} ({figure.reference_name})"
        if figure.reference is not None
        else ""
    )
    sign = "<=" if figure.better == "lower" else ">="
    unit = "x" if figure.reference is not None else f" {figure.unit}"
    return [
        figure.name + (f" ({figure.note})" if figure.note else ""),
        f"{figure.value:,.4g} {figure.unit}",
        reference,
        f"{figure.ratio:.2f}x" if figure.ratio is not None else "",
        f"{sign} {figure.goal:g}{unit}" if figure.goal is not None else "",
        {True: "yes", False: "no", None: ""}[figure.is_met],
    ]

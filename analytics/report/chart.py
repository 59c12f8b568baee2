"""Bar charts and timelines as figures of plotly (decision).

plotly reads tags and entities in every text, so text of a log is escaped for it: `chart_text`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

import plotly.graph_objects as go

MAX_LABEL_CHARACTERS: Final = 44
"""Limit of a label beside its bar; the text at the pointer has all of it."""
MAX_TEXT_CHARACTERS: Final = 400
MIN_SPAN_MS: Final = 1
DARK: Final = "#2f6fab"
LIGHT: Final = "#a9c6e3"
_CUT: Final = "..."
_ROW_HEIGHT: Final = 24
_MARGIN: Final = 96
_INVISIBLE: Final = "rgba(0,0,0,0)"
_GRID: Final = "rgba(128,128,128,0.3)"


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of a bar chart; `part` is the darker share of `value`."""

    label: str
    value: float
    text: str
    part: float = 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """One row of a timeline."""

    label: str
    start_ms: int
    end_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure of plotly as JSON objects, and its title as plain text."""

    title: str
    figure: dict[str, Any]


def bar_chart(title: str, bars: Sequence[Bar], parts: tuple[str, str] | None = None) -> Chart:
    """Return a chart of horizontal bars; `parts` names the darker share and the rest."""
    if parts is None:
        traces = [_trace([bar.value for bar in bars], bars, DARK)]
        traces[0].update(text=[chart_text(bar.text) for bar in bars], textposition="auto")
    else:
        shares = ([bar.part for bar in bars], [bar.value - bar.part for bar in bars])
        traces = [
            _trace(values, bars, color, name)
            for values, color, name in zip(shares, (DARK, LIGHT), parts, strict=True)
        ]
    return Chart(title, _figure(traces, bars))


def timeline(title: str, spans: Sequence[Span]) -> Chart:
    """Return a chart of bars between start and end times."""
    lengths = [max(span.end_ms - span.start_ms, MIN_SPAN_MS) for span in spans]
    trace = _trace(lengths, spans, DARK)
    trace.update(base=[_time(span.start_ms) for span in spans])
    figure = _figure([trace], spans)
    figure["layout"]["xaxis"]["type"] = "date"
    return Chart(title, figure)


def chart_text(text: str) -> str:
    """Return `text` so that plotly shows it as it is, on one line and of limited length."""
    shown = text[:MAX_TEXT_CHARACTERS] + _CUT if len(text) > MAX_TEXT_CHARACTERS else text
    printable = (each if each.isprintable() else ascii(each)[1:-1] for each in shown)
    return escape("".join(printable), quote=False)


def _label(text: str) -> str:
    """Return the end of a label, as the paths and partitions of an audit share their start."""
    if len(text) <= MAX_LABEL_CHARACTERS:
        return chart_text(text)
    return chart_text(_CUT + text[len(_CUT) - MAX_LABEL_CHARACTERS :])


def _trace(lengths: Sequence[float], rows: Sequence[Bar | Span], color: str, name: str = "") -> Any:
    hints = [f"{chart_text(row.label)}<br>{chart_text(row.text)}" for row in rows]
    return go.Bar(
        orientation="h",
        x=list(lengths),
        y=list(range(len(rows))),
        hovertext=hints,
        hoverinfo="text",
        marker={"color": color},
        name=name,
    )


def _figure(traces: Sequence[Any], rows: Sequence[Bar | Span]) -> dict[str, Any]:
    figure = go.Figure(list(traces))
    figure.update_layout(
        template="none",
        barmode="stack",
        height=max(1, len(rows)) * _ROW_HEIGHT + _MARGIN,
        # Above the bars are the legend and the buttons.
        margin={"t": 36, "b": 30, "l": 10, "r": 10},
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"},
        modebar={"bgcolor": _INVISIBLE, "remove": ["select2d", "lasso2d"]},
        paper_bgcolor=_INVISIBLE,
        plot_bgcolor=_INVISIBLE,
        showlegend=len(traces) > 1,
    )
    figure.update_xaxes(gridcolor=_GRID, automargin=True)
    # Numbers with texts beside them: equal labels stay apart, and none is read as a date.
    figure.update_yaxes(
        autorange="reversed",
        automargin=True,
        tickmode="array",
        tickvals=list(range(len(rows))),
        ticktext=[_label(row.label) for row in rows],
        fixedrange=True,
        zeroline=False,
        showgrid=False,
    )
    drawn: dict[str, Any] = figure.to_plotly_json()
    return drawn


def _time(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]

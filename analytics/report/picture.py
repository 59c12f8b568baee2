"""Decision: small pictures as SVG text: bars and a timeline. No script, no font, no other file."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_WIDTH: Final = 860
_LABEL_WIDTH: Final = 260
_VALUE_WIDTH: Final = 130
_ROW_HEIGHT: Final = 22
_BAR_HEIGHT: Final = 14


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
    start: float
    end: float
    text: str


def draw_bars(title: str, bars: Sequence[Bar]) -> str:
    """Horizontal bars, one below the other, to one scale."""
    largest = max((bar.value for bar in bars), default=0) or 1
    room = _WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    rows = []
    for number, bar in enumerate(bars):
        y = number * _ROW_HEIGHT
        width, part = room * bar.value / largest, room * min(bar.part, bar.value) / largest
        rows.append(
            _label(bar.label, y)
            + _box(_LABEL_WIDTH, y, width, "bar")
            + _box(_LABEL_WIDTH, y, part, "part")
            + _text(_LABEL_WIDTH + width + 6, y, bar.text)
        )
    return _figure(title, rows, len(bars))


def draw_timeline(title: str, spans: Sequence[Span]) -> str:
    """Bars between a start and an end, to one scale."""
    first = min((span.start for span in spans), default=0)
    extent = (max((span.end for span in spans), default=1) - first) or 1
    room = _WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    rows = []
    for number, span in enumerate(spans):
        y = number * _ROW_HEIGHT
        x = _LABEL_WIDTH + room * (span.start - first) / extent
        width = max(2.0, room * (span.end - span.start) / extent)
        rows.append(
            _label(span.label, y) + _box(x, y, width, "bar") + _text(x + width + 6, y, span.text)
        )
    return _figure(title, rows, len(spans))


def _figure(title: str, rows: Sequence[str], count: int) -> str:
    height = max(1, count) * _ROW_HEIGHT + 4
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">'
        f"<title>{escape(title)}</title>{''.join(rows)}</svg></figure>"
    )


def _label(text: str, y: float) -> str:
    shown = text if len(text) <= 38 else "..." + text[-35:]
    return (
        f'<text x="{_LABEL_WIDTH - 8}" y="{y + 13}" text-anchor="end">'
        f"<title>{escape(text)}</title>{escape(shown)}</text>"
    )


def _box(x: float, y: float, width: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{_BAR_HEIGHT}"/>'
    )


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y + 13}">{escape(text)}</text>'

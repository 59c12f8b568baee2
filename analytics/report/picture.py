"""Small charts as SVG text: bars and a timeline (decision).

No script, no font, no other file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import Final
from unicodedata import east_asian_width

WIDTH: Final = 1000
CHARACTER_WIDTH: Final = 7.3
"""Width of a character in the page's monospaced 12 px font: a little over six tenths."""
MAX_TEXT_WIDTH: Final = 350.0
"""Maximum width of a label on the left and of a text on the right of the bars."""
_CUT: Final = "..."
_GAP: Final = 6
MIN_SPAN_WIDTH: Final = 2.0
_ROW_HEIGHT: Final = 22
_BAR_HEIGHT: Final = 14


@dataclass(frozen=True, slots=True)
class _Columns:
    """Start and maximum length of the bars, so that the chart cuts off no text."""

    begin: float
    room: float


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
    """Return a chart of horizontal bars with a common scale."""
    largest = max((bar.value for bar in bars), default=0) or 1
    columns = _columns(bars)
    begin, room = columns.begin, columns.room
    rows = []
    for number, bar in enumerate(bars):
        y = number * _ROW_HEIGHT
        width, part = room * bar.value / largest, room * min(bar.part, bar.value) / largest
        rows.append(
            _label(bar.label, begin, y)
            + _box(begin, y, width, "bar")
            + _box(begin, y, part, "part")
            + _text(begin + width + _GAP, y, bar.text)
        )
    return _figure(title, rows, len(bars))


def draw_timeline(title: str, spans: Sequence[Span]) -> str:
    """Return a chart of bars between start and end times, with a common scale."""
    first = min((span.start for span in spans), default=0)
    extent = (max((span.end for span in spans), default=1) - first) or 1
    columns = _columns(spans)
    # Leave room for the minimum width of a span at the end of the scale.
    begin, room = columns.begin, columns.room - MIN_SPAN_WIDTH
    rows = []
    for number, span in enumerate(spans):
        y = number * _ROW_HEIGHT
        x = begin + room * (span.start - first) / extent
        width = max(MIN_SPAN_WIDTH, room * (span.end - span.start) / extent)
        rows.append(
            _label(span.label, begin, y)
            + _box(x, y, width, "bar")
            + _text(x + width + _GAP, y, span.text)
        )
    return _figure(title, rows, len(spans))


def text_width(text: str) -> float:
    """Return the width of `text` in the page's font; wide characters count twice."""
    return CHARACTER_WIDTH * sum(2 if east_asian_width(each) in "FW" else 1 for each in text)


def _columns(rows: Sequence[Bar | Span]) -> _Columns:
    labels = max((text_width(_label_text(row.label)) for row in rows), default=0)
    texts = max((text_width(_fitting(row.text)) for row in rows), default=0)
    begin = labels + _GAP
    return _Columns(begin, WIDTH - begin - texts - _GAP)


def _figure(title: str, rows: Sequence[str], count: int) -> str:
    height = max(1, count) * _ROW_HEIGHT + 4
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">'
        f"<title>{escape(title)}</title>{''.join(rows)}</svg></figure>"
    )


def _label(text: str, begin: float, y: float) -> str:
    return (
        f'<text x="{begin - _GAP:.1f}" y="{y + 13}" text-anchor="end">'
        f"<title>{escape(text)}</title>{escape(_label_text(text))}</text>"
    )


def _label_text(text: str) -> str:
    """Return the end of a label, as the paths and partitions of an audit share their start."""
    return _fitting(text[::-1])[::-1]


def _fitting(text: str) -> str:
    """Return `text`, or as much of its beginning as fits."""
    if text_width(text) <= MAX_TEXT_WIDTH:
        return text
    room = MAX_TEXT_WIDTH - text_width(_CUT)
    widths = accumulate(map(text_width, text))
    return text[: sum(width <= room for width in widths)] + _CUT


def _box(x: float, y: float, width: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{_BAR_HEIGHT}"/>'
    )


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y + 13}">{escape(_fitting(text))}</text>'

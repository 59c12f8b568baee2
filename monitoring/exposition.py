"""Prometheus' text format: families of metrics, labels and values (decision).

A page is a sequence of pieces of text, each made in bounded time, so that the event loop can serve
others between two pieces. All samples of a family follow its head.
Source: Prometheus' text-based exposition format, version 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final
from zlib import crc32

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"
SUMMARY: Final = "summary"
MAX_LABEL_LENGTH: Final = 250
"""In characters. A topic's name has at most 249, but the name of a group has no such limit."""
PIECE_LINES: Final = 250
"""Samples in one piece of text, which takes a fraction of a millisecond."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Value = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Metrics of one name, which differ in the values of their labels."""

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def head(self) -> str:
        """The lines that introduce its samples."""
        return f"# HELP {self.name} {self.meaning}\n# TYPE {self.name} {self.kind}\n"

    def pieces(self, samples: Iterable[tuple[Sequence[str], Value]]) -> Iterator[str]:
        """Yield the text of `samples`, each the values of its labels and its own value."""
        name, names = self.name, self.labels
        lines = (
            f"{name}{braced(labels_text(names, values))} {value_text(value)}\n"
            for values, value in samples
        )
        yield from self.pieces_of(lines)

    def pieces_of(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the text of complete lines, after the head; nothing without lines."""
        head = self.head
        batch: list[str] = []
        for line in lines:
            batch.append(line)
            if len(batch) >= PIECE_LINES:
                yield head + "".join(batch)
                head, batch = "", []
        if batch:
            yield head + "".join(batch)


def labels_text(names: Sequence[str], values: Sequence[str]) -> str:
    """Return labels as they stand between the braces."""
    return ",".join(
        [f'{name}="{label_value(each)}"' for name, each in zip(names, values, strict=True)]
    )


def label_value(text: str) -> str:
    """Return a text that clients may have chosen as the value of a label.

    A long text is cut, and ends in a checksum that distinguishes it from others.
    """
    if len(text) > MAX_LABEL_LENGTH:
        mark = f"...{crc32(text.encode(errors='replace')):08x}"
        text = text[: MAX_LABEL_LENGTH - len(mark)] + mark
    return text.translate(_ESCAPES)


def braced(labels: str) -> str:
    """Return labels in braces, "" without any."""
    return f"{{{labels}}}" if labels else ""


def value_text(value: Value) -> str:
    """Return a number as Prometheus reads it."""
    if isinstance(value, int):
        return str(int(value))
    if isnan(value):
        return "NaN"
    return f"{value:.9g}"

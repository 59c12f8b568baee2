"""Numbers, times and names as the pages show them (decision)."""

import datetime
import unicodedata
from typing import Final

UNKNOWN: Final = "\N{EN DASH}"
THIN_SPACE: Final = "\u2009"
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_KILO: Final = 1_000
_TEN: Final = 10
_SECOND_MS: Final = 1_000
_MINUTE_S: Final = 60
_HOUR_S: Final = 3_600
_DAY_S: Final = 86_400
# Characters that a browser would not show, or that change the order of the others.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})


def count_text(count: float | None) -> str:
    """Return a count with thin spaces between groups of three digits."""
    return UNKNOWN if count is None else f"{count:,.0f}".replace(",", THIN_SPACE)


def size_text(size_bytes: float | None) -> str:
    """Return a size in powers of 1000 with three significant digits: `812 B`, `12.3 kB`."""
    if size_bytes is None or size_bytes < 0:
        return UNKNOWN
    size, unit = float(size_bytes), 0
    while size >= _KILO and unit + 1 < len(_UNITS):
        size /= _KILO
        unit += 1
    digits = 0 if unit == 0 or size >= _KILO / _TEN else 1
    return f"{size:.{digits}f}{THIN_SPACE}{_UNITS[unit]}"


def rate_text(per_s: float | None) -> str:
    """Return a number per second: one decimal below 10."""
    if per_s is None:
        return UNKNOWN
    return f"{per_s:.1f}" if 0 < per_s < _TEN else count_text(per_s)


def byte_rate_text(per_s: float | None) -> str:
    """Return bytes per second; nothing for a log that shrinks."""
    if per_s is None or per_s < 0:
        return UNKNOWN
    return f"{size_text(per_s)}/s"


def duration_text(seconds: float) -> str:
    """Return a duration in its largest unit: `12 s`, `5 min`, `3 h`, `2 d`."""
    for unit_s, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= unit_s:
            return f"{seconds / unit_s:.0f}{THIN_SPACE}{unit}"
    return f"{seconds:.0f}{THIN_SPACE}s"


def time_text(timestamp_ms: int | None) -> str:
    """Return a time in ISO 8601, UTC; its number of ms if it is outside the calendar."""
    if timestamp_ms is None or timestamp_ms < 0:
        return UNKNOWN
    try:
        moment = datetime.datetime.fromtimestamp(timestamp_ms / _SECOND_MS, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")


def visible(text: str) -> str:
    """Return the text with hidden characters as escapes such as `\\x1b` or `\\u202e`."""
    if text.isprintable():
        return text
    return "".join(
        repr(each)[1:-1] if unicodedata.category(each) in _HIDDEN else each for each in text
    )


def visible_lines(text: str) -> str:
    """Return the text as `visible`, but with its line breaks and tabs."""
    return "\n".join(
        "\t".join(visible(part) for part in line.split("\t")) for line in text.split("\n")
    )

"""The charts of an audit's summaries (decision)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import isinf
from typing import Any, Final

from analytics.report.picture import Bar, Span, draw_bars, draw_timeline

MAX_ROWS: Final = 40
HOUR_MS: Final = 3_600_000
_AGE_BOUNDS_H: Final = (-24, 0, 24, 24 * 7, 24 * 30)
_KIB: Final = 1024


def draw_figures(summaries: Sequence[dict[str, Any]]) -> str:
    """Return all charts for which the summaries contain figures."""
    drawn = [
        _dirty(summaries),
        _reclaimable(summaries),
        _records_per_key(summaries),
        _tombstone_ages(summaries),
        _segments(summaries),
        _hot_keys(summaries),
    ]
    return "".join(drawn) or "<p>This audit has no figures to draw.</p>"


def _name(summary: dict[str, Any]) -> str:
    return f"{summary['replica']} {summary['topic']}-{summary['partition']}"


def _dirty(summaries: Sequence[dict[str, Any]]) -> str:
    bars = [
        Bar(
            _name(each),
            100,
            f"{100 * each['dirty_bytes'] / each['bytes']:.0f} % of {size_text(each['bytes'])}",
            100 * each["dirty_bytes"] / each["bytes"],
        )
        for each in summaries
        if each.get("dirty_bytes") is not None and each.get("bytes")
    ]
    return draw_bars("Dirty ratio", bars[:MAX_ROWS]) if bars else ""


def _reclaimable(summaries: Sequence[dict[str, Any]]) -> str:
    bars = [
        Bar(_name(each), each["reclaimable_bytes"], size_text(each["reclaimable_bytes"]))
        for each in summaries
        if "reclaimable_bytes" in each
    ]
    bars.sort(key=lambda bar: -bar.value)
    title = "Bytes that compaction would reclaim (records before compression)"
    return draw_bars(title, bars[:MAX_ROWS]) if bars else ""


def _records_per_key(summaries: Sequence[dict[str, Any]]) -> str:
    rows = [each["records_per_key"] for each in summaries if "records_per_key" in each]
    if not rows:
        return ""
    totals = [sum(column) for column in zip(*rows, strict=True)]
    bars = [
        Bar(_record_count(n), total, f"{total:,} {'key' if total == 1 else 'keys'}")
        for n, total in enumerate(totals)
        if total
    ]
    return draw_bars("Records per key", bars)


def _record_count(n: int) -> str:
    """Name the n-th class of a histogram whose classes end at the powers of two."""
    if n == 0:
        return "1 record"
    return "2 records" if n == 1 else f"{2 ** (n - 1) + 1} to {2**n} records"


def _tombstone_ages(summaries: Sequence[dict[str, Any]]) -> str:
    ages = [
        (each["now_ms"] - horizon_ms) / HOUR_MS
        for each in summaries
        for horizon_ms in each.get("horizons_ms", ())
    ]
    if not ages:
        return ""
    edges = (float("-inf"), *_AGE_BOUNDS_H, float("inf"))
    bars = []
    for low, high in pairwise(edges):
        count = sum(low <= age < high for age in ages)
        bars.append(Bar(_hours(low, high), count, f"{count:,} batches"))
    return draw_bars("Tombstones: time since their delete horizon", bars)


def _hours(low: float, high: float) -> str:
    if isinf(low):
        return f"under {high:g} hours"
    return f"{low:g} hours and more" if isinf(high) else f"{low:g} to {high:g} hours"


def _segments(summaries: Sequence[dict[str, Any]]) -> str:
    spans = [
        Span(
            f"{_name(each)} {segment['base_offset']}",
            segment["oldest_ms"],
            segment["newest_ms"],
            f"{size_text(segment['bytes'])}, up to {_day(segment['newest_ms'])}",
        )
        for each in summaries
        for segment in each.get("timeline", ())
        if segment["newest_ms"] >= 0
    ]
    return draw_timeline("Segments over time", spans[:MAX_ROWS]) if spans else ""


def _hot_keys(summaries: Sequence[dict[str, Any]]) -> str:
    bars = [
        Bar(f"{each['topic']}-{each['partition']} {hot['key']}", hot["count"], f"{hot['count']:,}")
        for each in summaries
        for hot in each.get("hot_keys", ())
    ]
    bars.sort(key=lambda bar: -bar.value)
    return draw_bars("Hot keys, by records", bars[:MAX_ROWS]) if bars else ""


def size_text(size_bytes: float) -> str:
    """Return a size in a readable unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < _KIB:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= _KIB
    return f"{size_bytes:.1f} TiB"


def _day(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        # Outside the calendar's range.
        return f"{timestamp_ms} ms"

"""The charts of an audit's summaries (decision)."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import isinf
from typing import Any, Final

from analytics.report.chart import Bar, Chart, Span, bar_chart, timeline

MAX_ROWS: Final = 100
"""Limit of the rows of a chart."""
MAX_DRAWN_MS: Final = 253_402_300_799_999
"""The end of the year 9999, where the axes of charts end."""
HOUR_MS: Final = 3_600_000
_AGE_BOUNDS_H: Final = (-24, 0, 24, 24 * 7, 24 * 30)
_KIB: Final = 1024


def draw_charts(
    findings: Sequence[dict[str, Any]], summaries: Sequence[dict[str, Any]]
) -> list[Chart]:
    """Return all charts for which findings and summaries have figures."""
    drawn = (
        _kinds(findings),
        _dirty(summaries),
        _reclaimable(summaries),
        _records_per_key(summaries),
        _tombstone_ages(summaries),
        _segments(summaries),
        _hot_keys(summaries),
    )
    return [chart for chart in drawn if chart is not None]


def _kinds(findings: Sequence[dict[str, Any]]) -> Chart | None:
    counts: Counter[tuple[str, str]] = Counter()
    for row in findings:
        counts[f"{row['topic']}-{row['partition']}", row["what"]] += 1 + row["more"]
    bars = [
        Bar(f"{place} {kind}", count, f"{count:,}") for (place, kind), count in counts.most_common()
    ]
    return bar_chart("Findings by partition and kind", bars[:MAX_ROWS]) if bars else None


def _name(summary: dict[str, Any]) -> str:
    return f"{summary['replica']} {summary['topic']}-{summary['partition']}"


def _dirty(summaries: Sequence[dict[str, Any]]) -> Chart | None:
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
    parts = ("dirty, in %", "clean")
    return bar_chart("Dirty ratio", bars[:MAX_ROWS], parts) if bars else None


def _reclaimable(summaries: Sequence[dict[str, Any]]) -> Chart | None:
    bars = [
        Bar(_name(each), each["reclaimable_bytes"], size_text(each["reclaimable_bytes"]))
        for each in summaries
        if "reclaimable_bytes" in each
    ]
    bars.sort(key=lambda bar: -bar.value)
    title = "Bytes that compaction would reclaim (records before compression)"
    return bar_chart(title, bars[:MAX_ROWS]) if bars else None


def _records_per_key(summaries: Sequence[dict[str, Any]]) -> Chart | None:
    rows = [each["records_per_key"] for each in summaries if "records_per_key" in each]
    if not rows:
        return None
    totals = [sum(column) for column in zip(*rows, strict=True)]
    bars = [
        Bar(_record_count(n), total, f"{total:,} {'key' if total == 1 else 'keys'}")
        for n, total in enumerate(totals)
        if total
    ]
    return bar_chart("Records per key", bars)


def _record_count(n: int) -> str:
    """Name the n-th class of a histogram whose classes end at the powers of two."""
    if n == 0:
        return "1 record"
    return "2 records" if n == 1 else f"{2 ** (n - 1) + 1} to {2**n} records"


def _tombstone_ages(summaries: Sequence[dict[str, Any]]) -> Chart | None:
    ages = [
        (each["now_ms"] - horizon_ms) / HOUR_MS
        for each in summaries
        for horizon_ms in each.get("horizons_ms", ())
    ]
    if not ages:
        return None
    edges = (float("-inf"), *_AGE_BOUNDS_H, float("inf"))
    bars = []
    for low, high in pairwise(edges):
        count = sum(low <= age < high for age in ages)
        bars.append(Bar(_hours(low, high), count, f"{count:,} batches"))
    return bar_chart("Tombstones: time since their delete horizon", bars)


def _hours(low: float, high: float) -> str:
    if isinf(low):
        return f"under {high:g} hours"
    return f"{low:g} hours and more" if isinf(high) else f"{low:g} to {high:g} hours"


def _segments(summaries: Sequence[dict[str, Any]]) -> Chart | None:
    spans = [
        Span(
            f"{_name(each)} {segment['base_offset']}",
            min(max(segment["oldest_ms"], 0), segment["newest_ms"]),
            segment["newest_ms"],
            f"{size_text(segment['bytes'])}, up to {_day(segment['newest_ms'])}",
        )
        for each in summaries
        for segment in each.get("timeline", ())
        if 0 <= segment["newest_ms"] <= MAX_DRAWN_MS
    ]
    return timeline("Segments over time", spans[:MAX_ROWS]) if spans else None


def _hot_keys(summaries: Sequence[dict[str, Any]]) -> Chart | None:
    bars = [
        Bar(f"{each['topic']}-{each['partition']} {hot['key']}", hot["count"], f"{hot['count']:,}")
        for each in summaries
        for hot in each.get("hot_keys", ())
    ]
    bars.sort(key=lambda bar: -bar.value)
    return bar_chart("Hot keys, by records", bars[:MAX_ROWS]) if bars else None


def size_text(size_bytes: float) -> str:
    """Return a size in a readable unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < _KIB:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= _KIB
    return f"{size_bytes:.1f} TiB"


def _day(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")

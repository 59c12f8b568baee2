"""Segments on a line of time, and verdicts of audits."""

import json
import os
from pathlib import Path

import pytest

from ottla.console.files.segment import MIN_BAR_SHARE, MIN_HEIGHT_SHARE, Segment, timeline
from ottla.console.files.verdict import parse_verdict
from ottla.console.files.verdict_files import read_verdicts
from ottla.console.view.rendering import link


def segment(base: int, following: int | None, size: int, first_ms: int | None) -> Segment:
    return Segment(
        base_offset=base,
        next_base_offset=following,
        size_bytes=size,
        first_ms=first_ms,
        written_ms=1_100,
    )


def test_bars_begin_with_the_first_record_and_end_with_the_next_segment() -> None:
    drawn = timeline([segment(0, 10, 50, 100), segment(10, None, 100, 600)])
    assert drawn is not None
    assert (drawn.start_ms, drawn.end_ms) == (100, 1_100)
    assert [(bar.left, bar.width, bar.height) for bar in drawn.bars] == [
        (0, 0.5, 0.5),
        (0.5, 0.5, 1),
    ]
    assert [bar.segment.is_active for bar in drawn.bars] == [False, True]


def test_short_and_small_segments_can_be_seen() -> None:
    drawn = timeline([segment(0, 1, 0, 100), segment(1, None, 10_000, 100)])
    assert drawn is not None
    assert drawn.bars[0].width == MIN_BAR_SHARE
    assert drawn.bars[0].height == MIN_HEIGHT_SHARE


def test_segment_without_a_time_takes_the_start() -> None:
    drawn = timeline([segment(0, 1, 5, None), segment(1, None, 5, 1_000)])
    assert drawn is not None
    assert drawn.bars[0].left == 0
    last = timeline([segment(0, None, 0, 5_000)])
    assert last is not None
    assert last.bars[0].height == MIN_HEIGHT_SHARE


def test_empty_log_has_no_line() -> None:
    assert timeline([segment(0, None, 0, None)]) is None


def test_verdict_is_read() -> None:
    fields = {
        "audit": "compaction",
        "clean": False,
        "errors": 2,
        "bytes": 1_000,
        "warnings": True,
        "notes": float("inf"),
        "duration_s": 1.5,
        "by_kind": {"record.lost": 2},
        "summaries": [{"topic": "t", "records": 3}, "no row", {"extra": None}],
    }
    report = parse_verdict("nightly", json.dumps(fields), 7)
    assert (report.audit, report.is_clean, report.duration_s) == ("compaction", False, 1.5)
    assert (report.counts["errors"], report.counts["warnings"], report.counts["notes"]) == (2, 0, 0)
    assert report.by_kind == {"record.lost": 2}
    assert report.columns == ("topic", "records", "extra")
    assert report.summaries[1] == {"extra": "null"}


def test_verdict_without_lists_is_read() -> None:
    report = parse_verdict("n", '{"audit": "cost", "clean": true, "by_kind": 3}', 7)
    assert (report.is_clean, report.summaries, report.by_kind) == (True, (), {})


@pytest.mark.parametrize("text", ["", "[" * 100_000, "{"])
def test_other_text_is_no_verdict(text: str) -> None:
    with pytest.raises(ValueError, match="that is not JSON"):
        parse_verdict("nightly", text, 7)


@pytest.mark.parametrize("text", ["[]", "{}", '{"audit": 3}'])
def test_verdict_needs_the_name_of_an_audit(text: str) -> None:
    with pytest.raises(ValueError, match="without the name of an audit"):
        parse_verdict("nightly", text, 7)


def test_a_report_in_a_folder_whose_name_is_not_utf_8_has_an_address(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"night-\xff")
    folder.mkdir()
    (folder / "verdict.json").write_text('{"audit": "integrity"}')
    [report], problems = read_verdicts(tmp_path)
    assert link("/report", name=report.name) == "/report?name=night-%5Cxff"
    assert problems == []

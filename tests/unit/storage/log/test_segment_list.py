"""Threads that flush a log read the list of its segments, while the log's owner changes it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.ids import Offset
from storage.config.log_config import LogConfig
from storage.log import segment_list
from storage.log.segment_list import SegmentList
from storage.segment.segment import Segment


def segment(directory: Path, base_offset: int) -> Segment:
    return Segment(directory, Offset(base_offset), 1, LogConfig(), 0)


def remove_first(segments: SegmentList) -> None:
    segments.drop_oldest(2)


def replace_first(segments: SegmentList) -> None:
    old = list(segments)[:3]
    segments.splice(old, segment(old[0].files.directory, 0))


@pytest.mark.parametrize("change", [remove_first, replace_first])
def test_a_search_finds_all_later_segments_while_the_owner_changes_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[SegmentList], None]
) -> None:
    """A segment that a flush overlooks would lie below a recovery point, and not be on disk."""
    segments = SegmentList(segment(tmp_path, base) for base in range(0, 60, 10))
    pending = [change]

    def key(each: Segment) -> Offset:
        # In between, as another thread.
        if each.base_offset == 50 and pending:
            pending.pop()(segments)
        return each.base_offset

    monkeypatch.setattr(segment_list, "_base_offset", key)
    found = segments.from_offset(35)
    assert not pending
    assert [each.base_offset for each in found] == [30, 40, 50]

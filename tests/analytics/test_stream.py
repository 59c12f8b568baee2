"""A growing log, followed from offset to offset, as the streaming source does it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from analytics.stream_batches import LogEnds, read_batches
from tests.analytics.log_model import Log, make_log, write_segment
from tests.analytics.planter import Segment, segments

START = (-1, -1)


def grown(at: Path, batches: int) -> Log:
    """A log of which only so many batches are there yet."""
    log = make_log()
    left = batches
    directory = at / "orders-0"
    directory.mkdir(parents=True, exist_ok=True)
    for base, all_batches in log.segments:
        write_segment(directory, base, all_batches[:left], is_active=True)
        left -= len(all_batches)
        if left <= 0:
            break
    return log


def rows(at: Path, start: tuple[int, int], end: int) -> list[tuple[object, ...]]:
    return list(read_batches(str(at), "orders-0", start, end))


def test_each_batch_comes_once_across_rolls_and_torn_writes(tmp_path: Path) -> None:
    start, seen = START, []
    for batches in (3, 17, 25, 40, 80):
        grown(tmp_path, batches)
        last = segments(tmp_path / "orders-0")[-1]
        last.append(last.batches[0][:40])
        [end] = LogEnds().find(str(tmp_path)).values()
        seen += rows(tmp_path, start, end[0])
        start = (end[0], end[1])
    assert [row[4] for row in seen] == list(range(0, 400, 5))
    assert {row[10] for row in seen} == {None}


def test_nothing_new_is_no_row(tmp_path: Path) -> None:
    grown(tmp_path, 10)
    [end] = LogEnds().find(str(tmp_path)).values()
    assert rows(tmp_path, (end[0], end[1]), end[0]) == []


def test_segments_that_retention_took_are_no_finding(tmp_path: Path) -> None:
    make_log().write(tmp_path)
    for path in (tmp_path / "orders-0").glob("00000000000000000000.*"):
        path.unlink()
    assert {row[10] for row in rows(tmp_path, START, 400)} == {None}


PLANTS: dict[str, tuple[Callable[[Segment], None], tuple[str, int]]] = {
    "crc": (lambda one: one.flip(7, 90), ("bad_crc", 135)),
    "gap": (lambda one: one.reorder([*range(7), *range(8, 20)]), ("offset_gap", 140)),
    "epoch": (lambda one: one.patch(6, 12, b"\0\0\0\1"), ("epoch_back", 135)),
    "records": (lambda one: one.patch(7, 61, b"\xff\xff", with_crc=True), ("bad_records", 135)),
}


@pytest.mark.parametrize("name", PLANTS)
def test_damage_is_a_row(tmp_path: Path, name: str) -> None:
    plant, expected = PLANTS[name]
    make_log().write(tmp_path)
    plant(Segment(tmp_path / "orders-0" / "00000000000000000100.log"))
    told = [(row[10], row[4]) for row in rows(tmp_path, START, 400) if row[10]]
    assert told[0] == expected


def test_a_truncated_log_is_read_anew(tmp_path: Path) -> None:
    ends = LogEnds()
    grown(tmp_path, 15)
    assert ends.find(str(tmp_path)) == {"orders-0": [75, 0]}
    segment = segments(tmp_path / "orders-0")[0]
    segment.reorder(range(9))
    assert ends.find(str(tmp_path)) == {"orders-0": [45, 0]}
    grown(tmp_path, 30)
    assert ends.find(str(tmp_path)) == {"orders-0": [150, 0]}


def test_an_offset_that_comes_again_is_a_row(tmp_path: Path) -> None:
    segment = Segment(make_log().write(tmp_path) / "00000000000000000100.log")
    segment.patch(7, 0, (133).to_bytes(8, "big"))
    told = [(row[10], row[4]) for row in rows(tmp_path, START, 400) if row[10]]
    assert told[0] == ("offset_overlap", 133)

"""Offsets of a segment on its own, without the history of a log."""

from logcheck.finding import Damage
from logcheck.history import History
from logcheck.offset_check import OffsetCheck
from tests.unit.logcheck.partition_bytes import FILE, Reported, header_of
from tests.unit.logcheck.producer_bytes import data, emptied, sound


def test_segment_on_its_own_may_lack_any_record() -> None:
    reported = Reported()
    check = OffsetCheck(reported, None)
    check.begin_segment(0, FILE)
    for batch in (data(0), emptied(data(5)), data(9)):
        opened = sound(batch)
        assert check.check(0, opened.header)
        check.on_unusual(opened)
    check.finish()
    assert reported.findings == []
    assert check.missing_count == 4 + 3


def test_only_the_gap_behind_a_wrong_last_offset_is_excused() -> None:
    reported = Reported()
    check = OffsetCheck(reported, History(cleanup_policy="delete"))
    check.begin_segment(0, FILE)
    check.excuse_gap()
    check.continue_to(1)
    assert check.check(0, header_of(data(2)))
    assert reported.damages == [Damage.OFFSET_GAP]

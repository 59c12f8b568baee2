"""Offsets of a segment on its own, without the history of a log."""

from logcheck.offset_check import OffsetCheck
from tests.unit.logcheck.partition_bytes import FILE, Reported
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

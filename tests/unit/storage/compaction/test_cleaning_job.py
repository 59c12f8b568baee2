"""The messages between broker and cleaner survive the pipe between them."""

import pytest

from kafkawire.ids import Offset
from storage.compaction.cleaner import WINDOW_SECONDS, Throttle
from storage.compaction.job import (
    CleanerStats,
    CleaningDone,
    CleaningFailed,
    CleaningJob,
    GroupCleaned,
    Report,
    SourceSegment,
    read_report,
    write_report,
)
from storage.producers.producer_state import LastRecord

JOB = CleaningJob(
    directory="/tmp/a b-0",
    segments=(SourceSegment(Offset(0), Offset(5), 100),),
    tail=(SourceSegment(Offset(5), Offset(9), 7),),
    last_records={7: LastRecord(Offset(3), 1), 8: LastRecord(None, 0)},
    first_dirty_offset=0,
    first_uncleanable_offset=5,
    now_ms=1,
    delete_retention_ms=2,
    segment_bytes=3,
    segment_index_bytes=4,
    index_interval_bytes=5,
    dedupe_buffer_bytes=6,
    load_factor=0.9,
    io_buffer_bytes=7,
    max_bytes_per_second=1e300,
    least_free_bytes=1_000,
)


def test_cleaning_job_round_trips() -> None:
    line = JOB.to_line()
    assert line.count("\n") == 1
    assert CleaningJob.from_line(line) == JOB
    assert str(JOB.path) == "/tmp/a b-0"


@pytest.mark.parametrize(
    "report",
    [
        GroupCleaned(replaced=(0, 5), size_bytes=3),
        CleaningDone(end_offset=5, stats=CleanerStats(bytes_read=9, seconds=0.5)),
        CleaningFailed(error="no\nroom", is_damage=False),
    ],
    ids=lambda report: type(report).__name__,
)
def test_cleaner_report_round_trips(report: Report) -> None:
    line = write_report(report)
    assert line.count("\n") == 1
    assert read_report(line) == report


@pytest.mark.parametrize("line", ["", "Traceback", '{"type": "Other"}'])
def test_line_that_is_not_a_report_is_refused(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of json or ours
        read_report(line)


def test_a_throttle_keeps_its_rate_over_each_window() -> None:
    throttle = Throttle(max_bytes_per_second=100, now_s=10.0)
    assert throttle.on_bytes(60, now_s=10.1) == 0.0
    wait_s = throttle.on_bytes(60, now_s=10.0 + WINDOW_SECONDS)
    assert wait_s == pytest.approx(1.2 - WINDOW_SECONDS)
    # The wait was part of the previous window.
    assert throttle.on_bytes(10, now_s=10.0 + WINDOW_SECONDS + wait_s + 0.2) == 0.0


def test_a_throttle_without_a_limit_never_waits() -> None:
    throttle = Throttle(max_bytes_per_second=1.7e308, now_s=0.0)
    assert [throttle.on_bytes(10**9, now_s=number) for number in range(4)] == [0.0] * 4

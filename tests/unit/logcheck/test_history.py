"""The zones of a log's offsets, and the certainty of findings about missing records."""

from dataclasses import replace

import pytest

from kafkawire.columns_loops import SectionSurvey, SoundBatch
from logcheck.batch_check import NO_SECTION
from logcheck.finding import Check, Damage, Finding, Severity
from logcheck.history import History, MissingRecords, Zone, history_of
from logcheck.replica_files import ReplicaFiles, SegmentFiles
from tests.unit.logcheck.partition_bytes import Reported, build_batch, header_of

CLEANED_TO_50 = History(log_start=10, cleaner_point=50)


@pytest.mark.parametrize(
    ("offset", "zone", "severity"),
    [
        (9, Zone.GONE, None),
        (10, Zone.CLEANED, None),
        (49, Zone.CLEANED, None),
        (50, Zone.PERHAPS_CLEANED, Severity.NOTE),
    ],
)
def test_certainty_depends_on_the_zone(offset: int, zone: Zone, severity: Severity | None) -> None:
    assert CLEANED_TO_50.zone(offset) is zone
    assert CLEANED_TO_50.missing(offset) is severity


@pytest.mark.parametrize(
    ("history", "offset", "severity"),
    [
        (CLEANED_TO_50, 9, None),
        (CLEANED_TO_50, 10, Severity.ERROR),
        (CLEANED_TO_50, 20, Severity.WARNING),
        (CLEANED_TO_50, 50, None),
        (replace(CLEANED_TO_50, is_point_at_segment=False), 20, Severity.NOTE),
        (replace(CLEANED_TO_50, cleanup_policy="compact"), 20, Severity.ERROR),
        (replace(CLEANED_TO_50, was_stopped=True), 20, Severity.ERROR),
        (History(), 0, None),
    ],
)
def test_only_gaps_prove_that_a_cleaner_has_read_up_to_its_point(
    history: History, offset: int, severity: Severity | None
) -> None:
    assert history.is_cleaned(offset, last_gap=20) is severity


@pytest.mark.parametrize(
    ("history", "log_start"),
    [
        (History(), 30),
        (History(cleanup_policy="delete", log_start=10), 30),
        (History(log_start=40), 40),
        (History(first_base_offset=30), 0),
        (History(cleanup_policy="compact"), 0),
        (History(was_stopped=True), 0),
    ],
)
def test_first_leader_epoch_shows_a_log_start_that_was_not_stored(
    history: History, log_start: int
) -> None:
    assert history.begun_at(30).log_start == log_start
    assert history.begun_at(None) is history


def test_log_without_a_cleaner_point_may_be_a_copy_of_a_cleaned_one() -> None:
    assert History().zone(0) is Zone.PERHAPS_CLEANED
    assert History(cleanup_policy="compact,delete").zone(0) is Zone.PERHAPS_CLEANED


def test_only_a_rule_makes_a_missing_record_an_error() -> None:
    history = History(cleanup_policy="delete", log_start=10)
    assert history.zone(10) is Zone.UNCLEANED
    assert history.missing(10) is Severity.ERROR
    assert history.missing(9) is None


def test_cleaner_point_contradicts_the_rule_that_nothing_was_compacted() -> None:
    history = History(cleanup_policy="delete", cleaner_point=50)
    assert history.missing(49) is None
    assert history.missing(50) is Severity.WARNING


def test_missing_record_above_a_record_without_a_key_is_a_warning() -> None:
    assert CLEANED_TO_50.missing(60, is_compaction_unlikely=True) is Severity.WARNING
    assert CLEANED_TO_50.missing(40, is_compaction_unlikely=True) is None


def test_history_is_built_from_checkpoints_and_the_rule() -> None:
    files = ReplicaFiles(
        topic="t",
        partition=0,
        replica="r",
        directory="d",
        segments=tuple(
            SegmentFiles(base_offset=base, log="log", size_bytes=0) for base in (0, 10, 20, 30)
        ),
        log_start=3,
        cleaner_point=7,
        recovery_point=20,
        high_watermark=25,
    )
    assert history_of(files, "compact") == History(
        log_start=3,
        has_log_start=True,
        cleaner_point=7,
        cleanup_policy="compact",
        recovery_point=20,
        recovered_from=10,
        first_base_offset=0,
        first_segment_end=10,
        active_base_offset=30,
        is_point_at_segment=False,
        committed_end=25,
    )


@pytest.mark.parametrize(
    ("recovery_point", "base_offset"), [(None, 5), (4, 5), (5, 5), (6, 5), (10, 5), (11, 10)]
)
def test_recovery_begins_in_the_segment_before_the_recovery_point(
    recovery_point: int | None, base_offset: int
) -> None:
    segments = tuple(SegmentFiles(base_offset=each, log="", size_bytes=0) for each in (5, 10))
    files = ReplicaFiles(
        topic="t",
        partition=0,
        replica="r",
        directory="d",
        segments=segments,
        recovery_point=recovery_point,
    )
    assert files.recovered_from == base_offset
    assert history_of(files).is_recovered(base_offset)
    assert not history_of(files).is_recovered(base_offset - 1)


def test_snapshot_at_the_first_segment_is_exact_only_without_a_cleaner() -> None:
    assert History(first_base_offset=20, log_start=10).replayed_from == 20
    assert History(first_base_offset=20, log_start=30).replayed_from == 30
    uncleaned = History(first_base_offset=20, log_start=10, cleanup_policy="delete")
    assert uncleaned.replayed_from == 10


def test_only_uncommitted_records_may_be_gone_from_the_end() -> None:
    history = History(committed_end=30)
    assert history.beyond(30) is Severity.NOTE
    assert history.beyond(29) is Severity.WARNING


def test_nothing_is_unfinished_after_a_clean_stop() -> None:
    stopped = History(was_stopped=True, committed_end=30)
    assert not stopped.is_recovered(0)
    assert stopped.is_flushed(10)
    assert not History().is_flushed(10)
    assert stopped.beyond(30) is Severity.ERROR
    assert stopped.beyond(29) is Severity.WARNING


def gap(offset: int) -> Finding:
    return Finding(
        check=Check.OFFSETS,
        damage=Damage.OFFSET_GAP,
        file="f",
        offset=offset,
        expected="offset 0",
        found=f"offset {offset}",
    )


def batch(offset: int, *, without_key: int = 0, count: int = 3) -> SoundBatch:
    header = header_of(build_batch(offset))._replace(record_count=count)
    survey = SectionSurvey(0, -1, without_key, 0)
    return SoundBatch("f", 0, header, memoryview(b""), NO_SECTION, survey)


def judged(missing: MissingRecords, reported: Reported) -> list[tuple[Severity, str]]:
    missing.conclude()
    return [(each.severity, each.found) for each in reported.findings]


def test_gaps_that_a_cleaner_may_explain_are_one_note() -> None:
    reported = Reported()
    missing = MissingRecords(History(), reported)
    for offset in (5, 9, 20):
        missing.add(gap(offset), offset - 1)
    assert reported.findings == []
    assert judged(missing, reported) == [(Severity.NOTE, "offset 5, and 2 more places")]


def test_gaps_above_a_record_without_a_key_are_one_warning() -> None:
    reported = Reported()
    missing = MissingRecords(History(), reported)
    missing.add(gap(5), 4)
    missing.on_batch(batch(6, without_key=1))
    missing.add(gap(20), 19)
    assert judged(missing, reported) == [
        (Severity.NOTE, "offset 5"),
        (Severity.WARNING, "offset 20"),
    ]


def test_traces_of_a_cleaner_outweigh_a_record_without_a_key() -> None:
    for trace in (batch(3, count=0), None):
        reported = Reported()
        missing = MissingRecords(History(cleaner_point=5), reported)
        missing.on_batch(batch(0, without_key=1))
        if trace is None:
            missing.add(gap(3), 2)
        else:
            missing.on_batch(trace)
        missing.add(gap(20), 19)
        assert judged(missing, reported) == [(Severity.NOTE, "offset 20")]


def test_gaps_in_a_log_that_was_never_cleaned_are_errors_one_by_one() -> None:
    reported = Reported()
    missing = MissingRecords(History(cleanup_policy="delete"), reported)
    missing.add(gap(5), 4)
    missing.add(gap(20), 19)
    assert judged(missing, reported) == [
        (Severity.ERROR, "offset 5"),
        (Severity.ERROR, "offset 20"),
    ]

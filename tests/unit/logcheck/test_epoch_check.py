"""Batches and the leader epoch checkpoint contradict each other only as healthy logs do."""

from dataclasses import replace

import pytest

from logcheck.epoch_check import EpochCheck, EpochCheckpoint, first_epoch_start
from logcheck.finding import Damage, Severity
from logcheck.history import History
from tests.unit.logcheck.partition_bytes import (
    FILE,
    RECORDS_PER_BATCH,
    Reported,
    build_batch,
    header_of,
)

EPOCHS = (0, 0, 1, 1, 2, 2)
"""The leader epochs of six batches of three records, from offset 0 on."""
END = len(EPOCHS) * RECORDS_PER_BATCH
ENTRIES = [(0, 0), (1, 6), (2, 12)]
FLUSHED = History(recovery_point=END, committed_end=END)
Found = list[tuple[Damage, int | None, Severity]]


def found_with(entries: list[tuple[int, int]], history: History = FLUSHED, end: int = END) -> Found:
    """Return the findings on the six batches with the (epoch, start) `entries`."""
    reported = Reported()
    check = EpochCheck(reported)
    for number, epoch in enumerate(EPOCHS):
        batch = build_batch(number * RECORDS_PER_BATCH, leader_epoch=epoch)
        check.add(FILE, number, header_of(batch))
    lines = [(line, *entry) for line, entry in enumerate(entries, 3)]
    check.conclude(lines, "checkpoint", end, history, begun=set(entries))
    return [(each.damage, each.offset, each.severity) for each in reported.findings]


def test_batches_in_their_epochs_pass() -> None:
    assert found_with(ENTRIES) == []


def test_epoch_without_an_entry_is_an_error_below_the_recovery_point() -> None:
    assert found_with(ENTRIES[:-1]) == [(Damage.EPOCH_START, 12, Severity.ERROR)]


@pytest.mark.parametrize(
    ("history", "severity"),
    [
        pytest.param(FLUSHED, Severity.NOTE, id="perhaps truncated to its new start"),
        pytest.param(
            replace(FLUSHED, first_segment_end=6, active_base_offset=END),
            Severity.NOTE,
            id="perhaps truncated to its new last segment",
        ),
        pytest.param(
            replace(FLUSHED, first_segment_end=6, active_base_offset=6),
            Severity.WARNING,
            id="several segments",
        ),
        pytest.param(replace(FLUSHED, was_stopped=True), Severity.ERROR, id="clean stop"),
        pytest.param(replace(FLUSHED, cleanup_policy="compact"), Severity.ERROR, id="compacted"),
    ],
)
def test_log_without_epochs_may_begin_at_its_end(history: History, severity: Severity) -> None:
    assert found_with([], history) == [(Damage.EPOCH_START, 0, severity)]


def test_checkpoint_may_be_older_than_batches_beyond_the_recovery_point() -> None:
    assert found_with(ENTRIES[:-1], History(recovery_point=12)) == [
        (Damage.EPOCH_START, 12, Severity.NOTE)
    ]
    assert found_with([], History(recovery_point=0)) == []


def test_wrong_epoch_before_the_last_entry_is_an_error_anywhere() -> None:
    entries = [(0, 0), (2, 12)]
    assert found_with(entries, History()) == [(Damage.EPOCH_START, 6, Severity.ERROR)]


def test_delete_records_explains_a_first_entry_in_the_first_segment() -> None:
    later = ENTRIES[1:]
    for end in (6, None):
        assert found_with(later, replace(FLUSHED, first_segment_end=end)) == []
    for history, severity in (
        (replace(FLUSHED, first_segment_end=5), Severity.NOTE),
        (replace(FLUSHED, cleanup_policy="compact"), Severity.WARNING),
    ):
        assert found_with(later, history) == [(Damage.EPOCH_START, 0, severity)]


def test_entries_from_before_the_log_are_cut_before_a_clean_stop() -> None:
    for was_stopped, found in (
        (True, [(Damage.EPOCH_START, 0, Severity.WARNING)]),
        (False, []),
    ):
        history = History(was_stopped=was_stopped, recovery_point=END, first_base_offset=1)
        assert found_with(ENTRIES, history) == found
        assert found_with(ENTRIES, replace(history, first_base_offset=0)) == []


def test_checkpoint_of_a_clean_stop_has_the_last_epoch() -> None:
    stopped = History(was_stopped=True)
    assert found_with(ENTRIES[1:], stopped) == []
    assert found_with(ENTRIES[:-1], stopped) == [(Damage.EPOCH_START, 12, Severity.ERROR)]


def test_batches_below_the_log_start_need_no_entry() -> None:
    assert found_with(ENTRIES[1:], History(recovery_point=END, log_start=6)) == []
    within_a_batch = [(1, 7), (2, 12)]
    assert found_with(within_a_batch, History(recovery_point=END, log_start=7)) == []


def test_epoch_beyond_the_end_has_the_certainty_of_the_end() -> None:
    entries = [*ENTRIES, (3, END + 1)]
    assert found_with(entries) == [(Damage.EPOCH_BEYOND, END + 1, Severity.NOTE)]
    history = History(recovery_point=END, committed_end=END + 1)
    assert found_with(entries, history) == [(Damage.EPOCH_BEYOND, END + 1, Severity.WARNING)]


def test_checkpoint_that_was_read_while_a_broker_extended_it_is_read_again() -> None:
    """A broker overwrites the file in place; the reader may have taken its size before that."""
    torn, whole = b"0\n2\n0 0\n", b"0\n2\n0 0\n1 6\n"
    contents = [torn, whole]
    assert first_epoch_start("checkpoint", lambda _: contents.pop(0)) == 0
    assert contents == []

    contents = [torn, whole, torn, whole]
    reported = Reported()
    checkpoint = EpochCheckpoint("checkpoint", lambda _: contents.pop(0), reported)
    check = EpochCheck(reported)
    checkpoint.conclude(check, END, FLUSHED, is_end_known=True)
    assert contents == []
    assert reported.findings == []


def test_damaged_checkpoint_is_reported_once() -> None:
    reported = Reported()
    checkpoint = EpochCheckpoint("checkpoint", lambda _: b"0\n2\n0 0\n", reported)
    checkpoint.conclude(EpochCheck(reported), END, FLUSHED, is_end_known=True)
    assert [each.damage for each in reported.findings] == [Damage.BAD_CHECKPOINT_LINE]


def test_kafka_may_stop_before_it_has_cut_the_entries_at_a_new_log_start() -> None:
    history = History(was_stopped=True, recovery_point=END, first_base_offset=1)
    assert [severity for _, _, severity in found_with(ENTRIES, history)] == [Severity.WARNING]
    cut = replace(history, was_cut=True)
    assert [severity for _, _, severity in found_with(ENTRIES, cut)] == [Severity.NOTE]

"""The end of a log that its replica must still truncate, by the leader epochs of two logs."""

from dataclasses import replace

import pytest

from kafkawire.sentinels import MAX_OFFSET
from logcheck.diverged_end import Runs, diverged_from, forgotten_until
from logcheck.epoch_check import Run
from logcheck.replica_files import ReplicaFiles

Spans = list[tuple[int, int, int]]
"""Leader epoch, first and last offset of each run."""


def runs(spans: Spans) -> Runs:
    return [Run(*span, file="f", position=0) for span in spans]


def files(high_watermark: int | None, cleaner_point: int | None = None) -> ReplicaFiles:
    return ReplicaFiles(
        topic="t",
        partition=0,
        replica="r",
        directory="d",
        high_watermark=high_watermark,
        cleaner_point=cleaner_point,
    )


def diverged(one: Spans, other: Spans, high_watermark: int | None = None) -> int:
    """Return the divergence, which is the same in both orders; `one` has the older epoch."""
    places = runs(one), files(high_watermark), runs(other), files(30)
    assert diverged_from(*places) == diverged_from(*places[2:], *places[:2])
    return diverged_from(*places)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([(0, 0, 9)], [(0, 0, 9)]),
        ([(0, 0, 9)], [(0, 0, 9), (1, 10, 19)]),
        ([(0, 0, 9), (2, 10, 19)], [(0, 0, 9), (1, 10, 14), (2, 15, 19)]),
        ([], [(0, 0, 9)]),
    ],
    ids=["same", "shorter", "same last epoch", "empty"],
)
def test_logs_without_a_diverged_end(one: Spans, other: Spans) -> None:
    assert diverged(one, other) == MAX_OFFSET


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([(0, 0, 19)], [(0, 0, 9), (1, 10, 14)], 10),
        ([(0, 0, 19)], [(0, 0, 9), (1, 12, 14)], 10),
        ([(0, 0, 7), (1, 8, 20)], [(0, 0, 9), (2, 10, 19)], 8),
        ([(0, 0, 7), (1, 8, 9), (2, 10, 13)], [(0, 0, 7), (3, 12, 19)], 8),
        ([(0, 0, 9)], [(1, 0, 9)], 0),
    ],
    ids=["tail", "tail of a cleaned log", "tails of two leaders", "two tails", "whole log"],
)
def test_log_of_the_older_epoch_diverges_after_the_last_common_epoch(
    one: Spans, other: Spans, expected: int
) -> None:
    assert diverged(one, other) == expected


def test_committed_offsets_do_not_diverge() -> None:
    one: Spans = [(0, 0, 19)]
    other: Spans = [(0, 0, 9), (1, 12, 14)]
    assert diverged(one, other, high_watermark=11) == 11
    assert diverged(one, other, high_watermark=13) == MAX_OFFSET
    cleaned = runs(one), files(0, cleaner_point=13)
    assert diverged_from(*cleaned, runs(other), files(30)) == MAX_OFFSET


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([(0, 0, 9), (2, 10, 19)], [(0, 0, 4), (1, 5, 9), (2, 10, 19)], 10),
        ([(0, 0, 9), (2, 10, 19), (4, 22, 30)], [(0, 0, 4), (1, 5, 9), (3, 20, 30)], 10),
        ([(0, 0, 9), (2, 10, 19)], [(1, 5, 9), (2, 10, 19)], 10),
        ([(0, 0, 9), (2, 10, 19)], [(0, 0, 9), (2, 10, 19)], 0),
        ([(0, 0, 9)], [(0, 0, 4), (1, 5, 19)], 0),
        ([(0, 0, 9), (1, 10, 19)], [(0, 0, 4), (2, 5, 19)], 0),
    ],
    ids=["same", "other later epochs", "cut", "no conflict", "tail", "older epoch goes on"],
)
def test_batches_of_an_older_epoch_below_newer_ones_are_kept_for_good(
    one: Spans, other: Spans, expected: int
) -> None:
    first, second = (runs(one), files(30)), (runs(other), files(30))
    assert forgotten_until(*first, *second) == expected
    assert forgotten_until(*second, *first) == expected


def test_clean_stop_stores_the_log_start_that_hides_diverged_batches() -> None:
    one, other = runs([(0, 0, 9), (2, 10, 19)]), runs([(0, 0, 4), (1, 5, 9), (2, 10, 19)])
    stopped = replace(files(30), was_stopped=True)
    assert forgotten_until(one, stopped, other, files(30)) == 0
    assert forgotten_until(one, files(30), other, stopped) == 10

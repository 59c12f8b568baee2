"""The leadership history, by Kafka's rules (KIP-101, KIP-279)."""

import pytest

from kafkawire.ids import LeaderEpoch, Offset
from storage.log.leader_epochs import EpochEntry, LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(LeaderEpoch(epoch), Offset(start)) for epoch, start in entries)


def entries(history: LeaderEpochs) -> list[tuple[int, int]]:
    return [(int(entry.epoch), int(entry.start_offset)) for entry in history.entries]


HISTORY = [(0, 0), (2, 10), (5, 20)]


@pytest.mark.parametrize(
    ("epoch", "start", "expected"),
    [
        pytest.param(6, 30, [*HISTORY, (6, 30)], id="a new leadership"),
        pytest.param(5, 25, HISTORY, id="the same one continues"),
        pytest.param(5, 20, HISTORY, id="known already"),
        pytest.param(5, 15, [(0, 0), (2, 10), (5, 15)], id="the same one began earlier"),
        pytest.param(6, 20, [(0, 0), (2, 10), (6, 20)], id="the last one wrote nothing"),
        pytest.param(6, 5, [(0, 0), (6, 5)], id="later ones have no remaining records"),
        pytest.param(1, 30, [(0, 0), (1, 30)], id="an older leadership after all"),
        pytest.param(0, 0, [(0, 0)], id="the first one again"),
    ],
)
def test_assigning_keeps_both_columns_growing(
    epoch: int, start: int, expected: list[tuple[int, int]]
) -> None:
    history = epochs(*HISTORY)
    assert history.assign(LeaderEpoch(epoch), Offset(start)) == (expected != HISTORY)
    assert entries(history) == expected
    assert history.latest == expected[-1][0]


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_negative_numbers_are_bugs(entry: tuple[int, int]) -> None:
    with pytest.raises(AssertionError):
        epochs(entry)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(-1, (-1, -1), id="none at all"),
        pytest.param(0, (0, 10), id="the first"),
        pytest.param(1, (0, 10), id="between: the one before"),
        pytest.param(2, (2, 20), id="in the middle"),
        pytest.param(4, (2, 20), id="between again"),
        pytest.param(5, (5, 33), id="the latest: the log end"),
        pytest.param(6, (-1, -1), id="above all"),
    ],
)
def test_an_epoch_ends_where_the_next_one_begins(asked: int, expected: tuple[int, int]) -> None:
    assert epochs(*HISTORY).end_offset_for(asked, Offset(33)) == expected


def test_an_epoch_below_all_known_ones_ends_where_the_history_begins() -> None:
    assert epochs((3, 7), (5, 20)).end_offset_for(1, Offset(33)) == (1, 7)


def test_empty_history_has_no_epochs() -> None:
    assert LeaderEpochs().end_offset_for(0, Offset(5)) == (-1, -1)
    assert LeaderEpochs().end_offset_for(-1, Offset(5)) == (-1, -1)
    assert LeaderEpochs().latest == -1


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (9, 0), (10, 2), (99, 5), (-1, -1)])
def test_the_epoch_of_an_offset_is_known(offset: int, epoch: int) -> None:
    assert epochs(*HISTORY).epoch_for(Offset(offset)) == epoch


@pytest.mark.parametrize(
    ("end", "expected"),
    [(99, HISTORY), (21, HISTORY), (20, HISTORY[:2]), (10, HISTORY[:1]), (0, [])],
)
def test_truncation_from_the_end_drops_epochs_that_begin_there(
    end: int, expected: list[tuple[int, int]]
) -> None:
    history = epochs(*HISTORY)
    assert history.truncate_from_end(Offset(end)) == (expected != HISTORY)
    assert entries(history) == expected
    assert history.latest == (expected[-1][0] if expected else -1)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, HISTORY),
        (5, [(0, 5), (2, 10), (5, 20)]),
        (10, [(2, 10), (5, 20)]),
        (19, [(2, 19), (5, 20)]),
        (50, [(5, 50)]),
    ],
)
def test_truncation_from_the_start_keeps_the_epoch_that_wrote_it(
    start: int, expected: list[tuple[int, int]]
) -> None:
    history = epochs(*HISTORY)
    assert history.truncate_from_start(Offset(start)) == (expected != HISTORY)
    assert entries(history) == expected


def test_truncation_before_the_history_changes_nothing() -> None:
    history = epochs((3, 7))
    assert not history.truncate_from_start(Offset(6))
    assert entries(history) == [(3, 7)]


def test_clearing_forgets_everything() -> None:
    history = epochs(*HISTORY)
    assert history.clear()
    assert not history.clear()
    assert (history.entries, history.latest) == ((), -1)

"""Rounds of trouble: the same for the same seed, and none of the kinds left out."""

from tests.harness.nemesis import MAX_PAUSE_MS, MIN_PAUSE_MS, QUICK, Trouble, rounds


def test_a_seed_gives_the_same_rounds_again() -> None:
    assert rounds(7, 20) == rounds(7, 20)
    assert rounds(7, 20) != rounds(8, 20)


def test_every_trouble_comes_before_one_comes_again() -> None:
    drawn = rounds(1, 2 * len(Trouble))
    assert {each.trouble for each in drawn[: len(Trouble)]} == set(Trouble)
    assert len(drawn) == 2 * len(Trouble)


def test_only_the_troubles_that_are_asked_for_come() -> None:
    drawn = rounds(3, 9, QUICK)
    assert {each.trouble for each in drawn} == set(QUICK)
    assert all(MIN_PAUSE_MS <= each.duration_ms <= MAX_PAUSE_MS for each in drawn)

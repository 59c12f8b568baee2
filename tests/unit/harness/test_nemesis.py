"""Rounds of faults, reproducible by seed and complete in kinds: `tests.harness.nemesis`."""

from tests.harness.nemesis import MAX_PAUSE_MS, MIN_PAUSE_MS, QUICK, Fault, rounds


def test_same_seed_gives_the_same_rounds() -> None:
    assert rounds(7, 20) == rounds(7, 20)
    assert rounds(7, 20) != rounds(8, 20)


def test_every_fault_occurs_before_any_repeats() -> None:
    drawn = rounds(1, 2 * len(Fault))
    assert {each.fault for each in drawn[: len(Fault)]} == set(Fault)
    assert len(drawn) == 2 * len(Fault)


def test_only_requested_faults_occur() -> None:
    drawn = rounds(3, 9, QUICK)
    assert {each.fault for each in drawn} == set(QUICK)
    assert all(MIN_PAUSE_MS <= each.duration_ms <= MAX_PAUSE_MS for each in drawn)

"""When the dead are started again, and when the living count as hung."""

from ottla.cli.up.restart import (
    FIRST_DELAY_S,
    GOOD_LIFE_S,
    HUNG_AFTER_S,
    MAX_DELAY_S,
    Absence,
    RestartDelay,
)


def test_short_lives_make_longer_pauses_up_to_a_limit() -> None:
    delay = RestartDelay()
    delays = []
    for life in range(8):
        delay.on_start(float(life))
        delays.append(delay.on_death(life + 0.1))
    assert delays[:3] == [FIRST_DELAY_S, 2 * FIRST_DELAY_S, 4 * FIRST_DELAY_S]
    assert delays[-1] == MAX_DELAY_S


def test_a_good_life_makes_up_for_the_past() -> None:
    delay = RestartDelay()
    delay.on_start(0.0)
    delay.on_death(1.0)
    delay.on_start(2.0)
    assert delay.on_death(2.0 + GOOD_LIFE_S) == FIRST_DELAY_S


def test_who_is_not_seen_for_long_hangs() -> None:
    absence = Absence()
    absence.on_seen("broker-1", 0.0)
    absence.on_seen("broker-2", 5.0)
    assert absence.hung(HUNG_AFTER_S - 0.1) == []
    assert absence.hung(HUNG_AFTER_S) == ["broker-1"]


def test_who_was_never_seen_may_still_be_starting() -> None:
    absence = Absence()
    absence.on_seen("broker-1", 0.0)
    absence.on_death("broker-1", is_listed=False)
    assert absence.hung(10 * HUNG_AFTER_S) == []


def test_the_registration_of_a_dead_child_says_nothing_of_its_next_start() -> None:
    absence = Absence()
    absence.on_death("broker-1", is_listed=True)
    absence.on_seen("broker-1", 0.0)
    assert absence.hung(HUNG_AFTER_S) == []
    absence.on_unlisted("broker-1")
    absence.on_seen("broker-1", 1.0)
    assert absence.hung(1.0 + HUNG_AFTER_S) == ["broker-1"]


def test_without_a_coordinator_only_the_coordinator_is_absent() -> None:
    absence = Absence()
    absence.on_seen("coordinator", 0.0)
    absence.on_seen("broker-1", 0.0)
    absence.forgive_all_but("coordinator", HUNG_AFTER_S)
    assert absence.hung(HUNG_AFTER_S) == ["coordinator"]

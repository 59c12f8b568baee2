"""Restart delays and detection of hung children: `ottla.cli.up.restart`."""

from ottla.cli.up.restart import (
    FIRST_DELAY_S,
    HUNG_AFTER_S,
    MAX_DELAY_S,
    MAX_GAP_S,
    STABLE_AFTER_S,
    Absence,
    RestartDelay,
)


def test_delay_doubles_after_short_runs_up_to_the_maximum() -> None:
    delay = RestartDelay()
    delays = []
    for start_s in range(8):
        delay.on_start(float(start_s))
        delays.append(delay.on_death(start_s + 0.1))
    assert delays[:3] == [FIRST_DELAY_S, 2 * FIRST_DELAY_S, 4 * FIRST_DELAY_S]
    assert delays[-1] == MAX_DELAY_S


def test_stable_run_resets_the_delay() -> None:
    delay = RestartDelay()
    delay.on_start(0.0)
    delay.on_death(1.0)
    delay.on_start(2.0)
    assert delay.on_death(2.0 + STABLE_AFTER_S) == FIRST_DELAY_S


def test_child_not_seen_for_long_counts_as_hung() -> None:
    absence = Absence()
    absence.on_seen("broker-1", 0.0)
    absence.on_seen("broker-2", 5.0)
    assert absence.hung(HUNG_AFTER_S - 0.1) == []
    assert absence.hung(HUNG_AFTER_S) == ["broker-1"]


def test_child_not_seen_since_its_start_does_not_count_as_hung() -> None:
    absence = Absence()
    absence.on_seen("broker-1", 0.0)
    absence.on_death("broker-1", is_listed=False)
    assert absence.hung(10 * HUNG_AFTER_S) == []


def test_registration_of_a_dead_child_does_not_count_for_its_next_incarnation() -> None:
    absence = Absence()
    absence.on_death("broker-1", is_listed=True)
    absence.on_seen("broker-1", 0.0)
    assert absence.hung(HUNG_AFTER_S) == []
    absence.on_unlisted("broker-1")
    absence.on_seen("broker-1", 1.0)
    assert absence.hung(1.0 + HUNG_AFTER_S) == ["broker-1"]


def test_only_the_coordinator_counts_as_hung_while_it_is_unreachable() -> None:
    absence = Absence()
    absence.on_seen("coordinator", 0.0)
    absence.on_seen("broker-1", 0.0)
    absence.excuse_all_but("coordinator", HUNG_AFTER_S)
    assert absence.hung(HUNG_AFTER_S) == ["coordinator"]


def test_no_child_counts_as_hung_after_a_stop_of_the_supervisor() -> None:
    absence = Absence()
    absence.on_check(0.0)
    absence.on_seen("coordinator", 0.0)
    # It stops for long: its own session ends, and it does not reach the coordinator at once.
    resumed_s = 10 * HUNG_AFTER_S
    absence.on_check(resumed_s)
    absence.excuse_all_but("coordinator", resumed_s)
    assert absence.hung(resumed_s) == []
    now_s = resumed_s
    while now_s < resumed_s + HUNG_AFTER_S:
        now_s += MAX_GAP_S / 2
        absence.on_check(now_s)
    assert absence.hung(now_s) == ["coordinator"]

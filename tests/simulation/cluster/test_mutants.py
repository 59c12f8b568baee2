"""The simulation detects every planted bug."""

from collections.abc import Callable

import pytest

from tests.simulation.cluster import scenarios
from tests.simulation.cluster.mutants import MUTANTS
from tests.simulation.cluster.test_seeds import run_cluster
from tests.simulation.cluster.world import World

SEEDS_PER_MUTANT = 30
BY_SCENARIO: dict[str, Callable[[], None]] = {
    "any_leader_epoch": scenarios.old_news_changes_nothing,
    "any_version": scenarios.no_update_is_lost,
    "diverging_fetch_counts": scenarios.a_diverging_fetch_teaches_nothing,
    "joining_does_not_count": scenarios.a_joiner_counts_before_it_is_recorded,
    "early_join": scenarios.late_joiner_waits_for_the_epoch_start,
    "lost_requests": scenarios.requests_are_repeated,
    "removed_members_do_not_count": scenarios.members_outside_the_assignment_count,
    "refusal_resets": scenarios.unclear_refusal_keeps_the_joiner,
}
"""Scenarios for bugs that are too unlikely to appear in a short run."""


def is_found_by_a_seed() -> bool:
    for seed in range(SEEDS_PER_MUTANT):
        try:
            run_cluster(World(seed, min_insync_replicas=1 + seed % 2), is_harsh=seed % 2 == 0)
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - BY_SCENARIO.keys()))
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert is_found_by_a_seed()


@pytest.mark.parametrize("name", sorted(BY_SCENARIO))
def test_a_planted_bug_is_found_by_its_scenario(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BY_SCENARIO[name]()
    MUTANTS[name](monkeypatch)
    with pytest.raises(AssertionError):
        BY_SCENARIO[name]()

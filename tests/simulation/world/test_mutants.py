"""The simulated worlds detect every planted bug."""

import pytest
from structlog.testing import capture_logs

from tests.simulation.world.mutants import MUTANTS
from tests.simulation.world.world import FAULTS_S, quiet_collection, run_world

SEEDS_PER_MUTANT = 20
QUICK = ("acknowledged_at_once", "shared_partitions", "uncommitted_reads")
"""Planted bugs that appear in the first seconds of a world."""


def is_found_by_a_seed() -> bool:
    return any(is_found_by(seed) for seed in range(SEEDS_PER_MUTANT))


def is_found_by(seed: int) -> bool:
    with quiet_collection(), capture_logs():
        try:
            run_world(seed, FAULTS_S)
        except Exception:
            # A planted bug may show as an error of any client.
            return True
    return False


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert is_found_by_a_seed()


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - set(QUICK)))
def test_a_planted_bug_is_found_in_many_worlds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert is_found_by_a_seed()

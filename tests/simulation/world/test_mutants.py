"""Every planted bug is detected: by a simulated world, or by a test of the decision it breaks."""

from random import Random
from typing import Final

import pytest
from structlog.testing import capture_logs

from tests.simulation.world.mutants import MUTANTS
from tests.simulation.world.scenarios import SCENARIOS
from tests.simulation.world.world import FAULTS_S, quiet_collection, run_world

SEEDS_PER_MUTANT = 200
EARLY: Final = (
    "acknowledged_at_once",
    "anyone_joins",
    "followers_without_producers",
    "shared_partitions",
    "uncommitted_reads",
    "watermark_without_followers",
)
"""Planted bugs that appear in the first seconds of a world."""
LATE: Final = sorted(MUTANTS.keys() - set(EARLY) - set(SCENARIOS))


def is_found_by_a_seed() -> bool:
    return any(is_found_by(seed) for seed in range(SEEDS_PER_MUTANT))


def is_found_by(seed: int) -> bool:
    with quiet_collection(), capture_logs():
        try:
            run_world(seed, FAULTS_S, has_operators=seed % 2 == 0)
        except Exception:
            # A planted bug may show as an error of any client.
            return True
    return False


@pytest.mark.fresh_seeds(2)
def test_a_planted_bug_is_found(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[Random(seed).choice(EARLY)].plant(monkeypatch)
    assert is_found_by_a_seed()


@pytest.mark.soak
@pytest.mark.parametrize("name", [*EARLY, *LATE])
def test_a_planted_bug_is_found_in_many_worlds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name].plant(monkeypatch)
    assert is_found_by_a_seed()


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_planted_bug_is_found_by_its_scenario(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    SCENARIOS[name]()
    MUTANTS[name].plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017, PT011 - the bug may show as any error
        SCENARIOS[name]()

"""Real brokers, a real coordinator and real clients in one loop with virtual time and faults.

`python -m tests.simulation.world SEED` prints the log of one world.
"""

import sys

import pytest
from structlog.testing import capture_logs

from tests.simulation.world.world import FAULTS_S, run_world

SOAK_SEEDS = 100


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with capture_logs():
        yield


@pytest.mark.fresh_seeds(2)
def test_a_cluster_keeps_its_promises(seed: int) -> None:
    outcome = run_world(seed, FAULTS_S)
    sys.stdout.write(f"{outcome}\n")
    assert outcome.acknowledged_count > 0
    assert outcome.fault_counts.total() > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_SEEDS))
def test_a_cluster_keeps_its_promises_in_many_worlds(seed: int) -> None:
    sys.stdout.write(f"{run_world(seed, FAULTS_S)}\n")


def test_a_seed_repeats_its_world() -> None:
    assert run_world(1, 3.0) == run_world(1, 3.0)

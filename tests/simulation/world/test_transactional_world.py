"""Transactions of simulated clusters are atomic, and none of them hangs."""

import sys

import pytest
from structlog.testing import capture_logs

from tests.simulation.world.transactional_world import run_transactions
from tests.simulation.world.world import FAULTS_S

QUICK_S = 6.0
"""Virtual time with faults in a world of the quick check."""
SOAK_SEEDS = 100
STOPPED_SEED = 1977386837
"""A broker is isolated at once, then the coordinator stalls, then a broker is killed."""


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with capture_logs():
        yield


@pytest.mark.fresh_seeds(1)
def test_transactions_are_atomic(seed: int) -> None:
    outcome = run_transactions(seed, QUICK_S, has_operators=True)
    sys.stdout.write(f"{outcome}\n")
    assert outcome.acknowledged_count > 0


def test_transactions_are_served_after_faults_that_have_stopped_all_of_them() -> None:
    outcome = run_transactions(STOPPED_SEED, QUICK_S, has_operators=True)
    assert outcome.acknowledged_count > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_SEEDS))
def test_transactions_are_atomic_in_many_worlds(seed: int) -> None:
    sys.stdout.write(f"{run_transactions(seed, FAULTS_S, has_operators=True)}\n")

"""Transactions of simulated clusters are atomic, and none of them hangs."""

import sys

import pytest
from structlog.testing import capture_logs

from tests.simulation.world.script import Fault, Script
from tests.simulation.world.transactional_world import run_transactional_script, run_transactions
from tests.simulation.world.world import FAULTS_S

QUICK_S = 6.0
"""Virtual time with faults in a world of the quick check."""
SOAK_SEEDS = 100
STOPPED_SEED = 1977386837
"""A broker is isolated at once, then the coordinator stalls, then a broker is killed."""

MARKER_BEHIND = Script(
    seed=2203003678,
    faults_s=14.385,
    has_operators=True,
    has_transactions=True,
    faults=(
        Fault(1.515, "fill_log_dir", 2490079650),
        Fault(2.018, "pause_broker", 4016773631),
        Fault(2.669, "let_coordinator_stutter", 788765801),
        Fault(4.327, "black_out", 1746235127),
        Fault(4.738, "part_one_way", 2625130424),
        Fault(9.758, "kill_broker", 3133621362),
        Fault(12.234, "kill_broker", 3542450778),
        Fault(13.385, "pause_coordinator", 1562707345),
    ),
)
"""A group coordinator loads a commit whose marker is not replicated, and its broker is killed."""


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


def test_an_offset_counts_as_committed_once_the_marker_is_replicated() -> None:
    outcome = run_transactional_script(MARKER_BEHIND)
    assert outcome.acknowledged_count > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_SEEDS))
def test_transactions_are_atomic_in_many_worlds(seed: int) -> None:
    sys.stdout.write(f"{run_transactions(seed, FAULTS_S, has_operators=True)}\n")

"""Real brokers, a real coordinator and real clients in one loop with virtual time and faults.

`python -m tests.simulation.world SEED` prints the log of one world.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from speedups.finder import are_built
from tests.simulation.world.world import FAULTS_S, run_world

SOAK_SEEDS = 100
ROOT = Path(__file__).parents[3]


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


@pytest.mark.skipif(not are_built(), reason="no compiled modules match the sources")
def test_compiled_modules_repeat_the_world_of_the_sources() -> None:
    assert outcome_in("import tests.compiled") == outcome_in("")


def outcome_in(preparation: str) -> str:
    """Return the outcome of a world in a process of its own."""
    program = (
        f"{preparation}\n"
        "import logging, structlog\n"
        "from tests.simulation.world.world import run_world\n"
        "logging.disable()\n"
        "structlog.configure(logger_factory=structlog.ReturnLoggerFactory())\n"
        "print(run_world(2, 5.0))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return ended.stdout

"""Real brokers, a real coordinator and real clients in one loop with virtual time and faults.

`python -m tests.simulation.world SEED` prints the log of one world.
"""

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from speedups.finder import are_built
from tests.simulation.world.loop import WorldLoop
from tests.simulation.world.process import Process
from tests.simulation.world.world import FAULTS_S, run_world

SOAK_SEEDS = 100
REPEATED_S = 5.0
"""Virtual time with faults in the world that is repeated."""
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


@pytest.mark.fresh_seeds(2)
def test_a_cluster_keeps_its_promises_to_operators(seed: int) -> None:
    sys.stdout.write(f"{run_world(seed, FAULTS_S, has_operators=True)}\n")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_SEEDS))
def test_a_cluster_keeps_its_promises_to_operators_in_many_worlds(seed: int) -> None:
    sys.stdout.write(f"{run_world(seed, FAULTS_S, has_operators=True)}\n")


def test_a_seed_repeats_its_world_in_every_process() -> None:
    run_world(1, 0.5)
    here = run_world(2, REPEATED_S, has_operators=True)
    assert outcome_in("") == str(here)


@pytest.mark.skipif(not are_built(), reason="no compiled modules match the sources")
def test_compiled_modules_repeat_the_world_of_the_sources() -> None:
    here = run_world(2, REPEATED_S, has_operators=True)
    assert outcome_in("import tests.compiled") == str(here)


def test_collections_do_not_run_the_tasks_of_dead_processes() -> None:
    """A dead process runs no `finally` clause, and a collection would run it at any time."""
    ended = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(True)

    async def live() -> None:
        process = Process("b1")
        loop.create_task(work(), context=process.context)
        await asyncio.sleep(1)
        process.death.set()
        gc.collect()

    loop = WorldLoop(1)
    loop.run_until_complete(live())
    assert not ended
    loop.end_tasks()
    loop.close()
    assert ended


def outcome_in(preparation: str) -> str:
    """Return the outcome of a world in a process of its own."""
    program = (
        f"{preparation}\n"
        "import logging, structlog\n"
        "from tests.simulation.world.world import run_world\n"
        "logging.disable()\n"
        "structlog.configure(logger_factory=structlog.ReturnLoggerFactory())\n"
        f"print(run_world(2, {REPEATED_S}, has_operators=True), end='')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return ended.stdout

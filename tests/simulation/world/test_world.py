"""Real brokers, a real coordinator and real clients in one loop with virtual time and faults.

`python -m tests.simulation.world SEED` prints the log of one world.
"""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from speedups.finder import are_built
from tests.simulation.world.loop import WorldLoop
from tests.simulation.world.process import Process
from tests.simulation.world.runner import attempt
from tests.simulation.world.script import draw_script
from tests.simulation.world.world import FAULTS_S, run_world

SOAK_SEEDS = 100
REPEATED_S = 4.0
"""Virtual time with faults in a world that is repeated."""
SEEDS_REPEATED = 50
COMPILED = "import tests.compiled"
compiled = pytest.mark.skipif(not are_built(), reason="no compiled modules match the sources")
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with capture_logs():
        yield


@pytest.mark.fresh_seeds(1)
def test_a_cluster_keeps_its_promises(seed: int) -> None:
    outcome = run_world(seed, FAULTS_S)
    sys.stdout.write(f"{outcome}\n")
    assert outcome.acknowledged_count > 0
    assert outcome.operation_counts.total() > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_SEEDS))
def test_a_cluster_keeps_its_promises_in_many_worlds(seed: int) -> None:
    sys.stdout.write(f"{run_world(seed, FAULTS_S)}\n")


@pytest.mark.fresh_seeds(1)
def test_a_cluster_keeps_its_promises_to_operators(seed: int) -> None:
    sys.stdout.write(f"{run_world(seed, FAULTS_S, has_operators=True)}\n")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SOAK_SEEDS))
def test_a_cluster_keeps_its_promises_to_operators_in_many_worlds(seed: int) -> None:
    sys.stdout.write(f"{run_world(seed, FAULTS_S, has_operators=True)}\n")


@pytest.mark.fresh_seeds(1)
def test_seeds_repeat_their_worlds_in_every_process(seed: int) -> None:
    """With compiled modules, if there are any: they repeat the worlds of the sources, too."""
    seeds = range(seed, seed + 1)
    assert outcomes_in(COMPILED if are_built() else "", seeds) == outcomes(seeds)


@pytest.mark.soak
@pytest.mark.parametrize("preparation", ["", pytest.param(COMPILED, marks=compiled)])
@pytest.mark.parametrize("number", range(10))
def test_a_thousand_seeds_repeat_their_worlds(number: int, preparation: str) -> None:
    first = SEEDS_REPEATED * (2 * number + bool(preparation))
    seeds = range(first, first + SEEDS_REPEATED)
    assert outcomes_in(preparation, seeds) == outcomes(seeds)


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


def outcomes(seeds: Iterable[int]) -> list[str]:
    """Return a line for each seed; that of a failure has no message, but the trace."""
    results = [attempt(draw_script(seed, REPEATED_S, has_operators=True)) for seed in seeds]
    return [str(each)[str(each).rindex("trace ") :] for each in results]


def outcomes_in(preparation: str, seeds: range) -> list[str]:
    """Return the outcomes of seeds in a process of its own, with another seed of hashes."""
    program = (
        f"{preparation}\n"
        "import logging\n"
        "from tests.simulation.world.test_world import outcomes\n"
        "logging.disable()\n"
        f"print(*outcomes({seeds!r}), sep='\\n')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return ended.stdout.splitlines()

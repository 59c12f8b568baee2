"""Whole lives of clusters, from seeds: no acknowledged record is lost, and peace returns.

`OTTLA_SIM_SEEDS=500` runs more of them than `make check` does; a seed that fails fails every time.
"""

import os

import pytest

from tests.simulation.cluster.quiescence import settle
from tests.simulation.cluster.trouble import Trouble
from tests.simulation.cluster.world import World

SEED_COUNT = int(os.environ.get("OTTLA_SIM_SEEDS", "20"))
LIFE_MS = 5_000


def live(world: World) -> Trouble:
    world.run(300)
    world.create_topic()
    trouble = Trouble(world)
    world.run(LIFE_MS)
    settle(world)
    return trouble


@pytest.mark.parametrize("seed", range(SEED_COUNT), ids=lambda seed: f"seed{seed}")
def test_no_committed_record_is_lost(seed: int) -> None:
    world = World(seed, min_insync_replicas=1 + seed % 2)
    trouble = live(world)
    assert sum(map(len, world.checker.committed.values())) > 20, "too little was committed"
    assert world.checker.elections > 3, "too few elections"
    assert len(trouble.happened) > 5, "too little trouble"


@pytest.mark.parametrize("seed", range(SEED_COUNT // 2), ids=lambda seed: f"seed{seed}")
def test_replicas_agree_even_after_unclean_elections(seed: int) -> None:
    world = World(seed, min_insync_replicas=1, unclean_default=True)
    live(world)
    assert world.checker.elections > 3, "too few elections"

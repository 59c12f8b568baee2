"""Runs of whole clusters from seeds: no acknowledged record is lost, and the cluster converges.

Each test run draws fresh seeds. `OTTLA_SIM_SEEDS=500` runs more of them than `make check`. A
failing seed fails every time, until a change of the code alters the order of random choices.
"""

import os
from typing import Any

import pytest

from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from tests.simulation.cluster.network import Faults
from tests.simulation.cluster.quiescence import settle
from tests.simulation.cluster.replica import FetchResponse, Replica
from tests.simulation.cluster.trouble import Trouble
from tests.simulation.cluster.world import World

SEED_COUNT = int(os.environ.get("OTTLA_SIM_SEEDS", "20"))
RUN_MS = 5_000
SEEDS_THAT_FAILED = (201, 322, 379, 753360722, 1481010942)
"""Late copies of requests (201, 379), a deletion that waited for a reassignment (322), a second
topic of one name (753360722), and a reassignment of a partition that never had a leader."""
UNCLEAN_SEEDS_THAT_FAILED = (3776202617,)
"""The deletion of such a partition after its reassignment."""


def run_cluster(world: World, *, is_harsh: bool = False) -> Trouble:
    if is_harsh:
        world.network.faults = Faults(lose=0.05, repeat=0.15, slow=0.15)
    world.run(300)
    world.create_topic()
    # Ensures that every run has commits and elections.
    world.run_until(lambda: len(world.checker.committed) == 2)
    trouble = Trouble(world)
    trouble.kill_leader()
    world.run(RUN_MS)
    settle(world)
    return trouble


def check_committed_records(seed: int) -> None:
    world = World(seed, min_insync_replicas=1 + seed % 2)
    trouble = run_cluster(world, is_harsh=seed % 3 == 0)
    assert world.checker.committed, "nothing was committed, so nothing could be lost"
    assert len(trouble.happened) > 5, "too little trouble"


@pytest.mark.fresh_seeds(SEED_COUNT)
def test_no_committed_record_is_lost(seed: int) -> None:
    check_committed_records(seed)


@pytest.mark.parametrize("seed", SEEDS_THAT_FAILED)
def test_no_committed_record_is_lost_with_seeds_that_failed(seed: int) -> None:
    check_committed_records(seed)


def check_agreement(seed: int) -> None:
    world = World(seed, min_insync_replicas=1, unclean_default=True)
    trouble = run_cluster(world, is_harsh=seed % 3 == 0)
    assert len(trouble.happened) > 5, "too little trouble"


@pytest.mark.fresh_seeds(SEED_COUNT // 2)
def test_replicas_agree_even_after_unclean_elections(seed: int) -> None:
    check_agreement(seed)


@pytest.mark.parametrize("seed", UNCLEAN_SEEDS_THAT_FAILED)
def test_replicas_agree_after_unclean_elections_with_seeds_that_failed(seed: int) -> None:
    check_agreement(seed)


def test_runs_have_elections() -> None:
    worlds = [World(seed) for seed in range(4)]
    for world in worlds:
        run_cluster(world)
    assert sum(world.checker.elections for world in worlds) > 10


def test_a_follower_fetches_each_record_once_without_faults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(1)
    world.network.faults = Faults(lose=0, repeat=0, slow=0)
    fetched: list[tuple[TopicPartition, BrokerId, Offset]] = []
    fetch = Replica.on_fetch

    def on_fetch(
        leader: Replica, follower: BrokerId, epoch: LeaderEpoch, offset: Offset, *rest: Any
    ) -> FetchResponse:
        response = fetch(leader, follower, epoch, offset, *rest)
        if response.records:
            fetched.append((leader.partition, follower, offset))
        return response

    monkeypatch.setattr(Replica, "on_fetch", on_fetch)
    world.run(300)
    world.create_topic()
    world.run(RUN_MS)
    assert len(fetched) > 100
    assert len(set(fetched)) == len(fetched), "a response was discarded"

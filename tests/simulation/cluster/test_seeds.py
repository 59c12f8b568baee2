"""Whole lives of clusters, from seeds: no acknowledged record is lost, and peace returns.

Each run draws fresh seeds. `OTTLA_SIM_SEEDS=500` runs more of them than `make check` does. A seed
that fails fails every time, until a change of the code alters the order in which dice are thrown.
"""

import os
from typing import Any

import pytest

from kafkawire.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from tests.simulation.cluster.network import Faults
from tests.simulation.cluster.quiescence import settle
from tests.simulation.cluster.replica import FetchAnswer, Replica
from tests.simulation.cluster.trouble import Trouble
from tests.simulation.cluster.world import World

SEED_COUNT = int(os.environ.get("OTTLA_SIM_SEEDS", "20"))
LIFE_MS = 5_000
SEEDS_THAT_FAILED = (201, 322, 379, 1481010942)
"""Late copies of requests (201, 379), a deletion that waited for a move (322), and a move of a
partition that never had a leader."""
UNCLEAN_SEEDS_THAT_FAILED = (3776202617,)
"""The deletion of such a partition after its move."""


def live(world: World, *, is_harsh: bool = False) -> Trouble:
    if is_harsh:
        world.network.faults = Faults(lose=0.05, repeat=0.15, slow=0.15)
    world.run(300)
    world.create_topic()
    # So that no life is without commits and elections.
    world.run_until(lambda: len(world.checker.committed) == 2)
    trouble = Trouble(world)
    trouble.kill_leader()
    world.run(LIFE_MS)
    settle(world)
    return trouble


def check_committed_records(seed: int) -> None:
    world = World(seed, min_insync_replicas=1 + seed % 2)
    trouble = live(world, is_harsh=seed % 3 == 0)
    assert world.checker.committed, "nothing was committed, so nothing could be lost"
    assert len(trouble.happened) > 5, "too little trouble"


@pytest.mark.fresh_seeds(SEED_COUNT)
def test_no_committed_record_is_lost(seed: int) -> None:
    check_committed_records(seed)


@pytest.mark.parametrize("seed", SEEDS_THAT_FAILED)
def test_no_committed_record_is_lost_with_a_seed_that_failed(seed: int) -> None:
    check_committed_records(seed)


def check_agreement(seed: int) -> None:
    world = World(seed, min_insync_replicas=1, unclean_default=True)
    trouble = live(world, is_harsh=seed % 3 == 0)
    assert len(trouble.happened) > 5, "too little trouble"


@pytest.mark.fresh_seeds(SEED_COUNT // 2)
def test_replicas_agree_even_after_unclean_elections(seed: int) -> None:
    check_agreement(seed)


@pytest.mark.parametrize("seed", UNCLEAN_SEEDS_THAT_FAILED)
def test_replicas_agree_after_unclean_elections_with_a_seed_that_failed(seed: int) -> None:
    check_agreement(seed)


def test_lives_are_not_dull() -> None:
    worlds = [World(seed) for seed in range(4)]
    for world in worlds:
        live(world)
    assert sum(world.checker.elections for world in worlds) > 10


def test_a_follower_asks_once_for_each_record_where_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(1)
    world.network.faults = Faults(lose=0, repeat=0, slow=0)
    asked: list[tuple[TopicPartition, BrokerId, Offset]] = []
    fetch = Replica.on_fetch

    def on_fetch(
        leader: Replica, follower: BrokerId, epoch: LeaderEpoch, offset: Offset, *rest: Any
    ) -> FetchAnswer:
        answer = fetch(leader, follower, epoch, offset, *rest)
        if answer.records:
            asked.append((leader.partition, follower, offset))
        return answer

    monkeypatch.setattr(Replica, "on_fetch", on_fetch)
    world.run(300)
    world.create_topic()
    world.run(LIFE_MS)
    assert len(asked) > 100
    assert len(set(asked)) == len(asked), "an answer was thrown away"

"""Our brokers on Debian's ZooKeeper: one server, and an ensemble whose leader is killed.

The rounds come from tests/integration/cluster. Here they kill the leader of the ensemble instead of
our coordinator.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.cluster import ClusterProcesses
from tests.harness.nemesis import QUICK, rounds
from tests.harness.proof import prove
from tests.harness.rounds import play
from tests.integration.coordination.process import (
    ZooKeeper,
    ensemble,
    four_letter,
    has_zookeeper,
    kill_all,
    wait_until,
)

pytestmark = pytest.mark.skipif(not has_zookeeper(), reason="needs java and ZooKeeper")

SEED = 5
SHORT = 2 * len(QUICK)
LONG = int(os.environ.get("OTTLA_ROUNDS", "100"))
TICK_MS = 200
"""ZooKeeper's tick; the shortest allowed session timeout is two ticks."""
COUNTS = [SHORT, pytest.param(LONG, marks=pytest.mark.soak)]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[ZooKeeper]:
    server = ZooKeeper(tmp_path / "zookeeper", tick_ms=TICK_MS)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[ZooKeeper]]:
    started = ensemble(tmp_path / "ensemble", 3)
    yield started
    kill_all(started)


@pytest.mark.parametrize("count", COUNTS)
async def test_no_record_is_lost_on_a_single_zookeeper(
    tmp_path: Path, alone: ZooKeeper, count: int
) -> None:
    def kill() -> None:
        alone.kill()
        alone.start()

    with ClusterProcesses(tmp_path, connect=alone.address) as cluster:
        outcome = await prove(cluster, play(rounds(SEED, count, QUICK), kill))
    outcome.require_proof()


@pytest.mark.parametrize("count", COUNTS)
async def test_no_record_is_lost_when_the_leader_of_an_ensemble_dies(
    tmp_path: Path, members: list[ZooKeeper], count: int
) -> None:
    connect = ",".join(member.address for member in members)
    with ClusterProcesses(tmp_path, connect=connect) as cluster:
        outcome = await prove(cluster, play(rounds(SEED, count, QUICK), leader_killer(members)))
    outcome.require_proof()


def leader_killer(members: list[ZooKeeper]) -> Callable[[], None]:
    def is_leader(member: ZooKeeper) -> bool:
        return "Mode: leader" in four_letter(member.port, "srvr")

    def kill() -> None:
        wait_until(lambda: any(map(is_leader, members)))
        leader = next(filter(is_leader, members))
        leader.kill()
        leader.start()

    return kill

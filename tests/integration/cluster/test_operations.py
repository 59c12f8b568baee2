"""Operations on a running cluster, some of them while the controller dies.

Brokers are restarted, lose a disk, and get every kind of change. Each change runs once a day, and
many times with other timings with `make soak`; restarts and lost disks under load run only there,
because the simulated clusters of `tests/simulation/world` meet them every day.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

import ottla
from kafkawire.ids import TopicPartition
from ottla.client.errors import OttlaError
from tests.harness.cluster import ClusterProcesses
from tests.harness.observer import Observer, State
from tests.harness.proof import prove

MAX_DELAY_S = 0.08
"""Longer than any change takes to be accepted, shorter than it takes to be carried out."""
SOAK_SEEDS = range(1, 13)
MAX_ATTEMPTS = 10

Change = Callable[[ottla.Admin], Awaitable[None]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    """One cluster for all tests of this module.

    Each test leaves all brokers in sync, and no topics.
    """
    with ClusterProcesses(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest_asyncio.fixture
async def observer(cluster: ClusterProcesses) -> AsyncIterator[Observer]:
    async with Observer(cluster.connect) as watching:
        yield watching
        await delete_everything(cluster, watching)


@pytest.mark.soak
async def test_rolling_restart_fails_no_send(tmp_path: Path) -> None:
    async def restart_all(cluster: ClusterProcesses, observer: Observer) -> None:
        for number in cluster.numbers:
            assert await asyncio.to_thread(cluster.stop, number) == 0
            await asyncio.to_thread(cluster.start_brokers, number)
            await observer.wait_until_whole(len(cluster.numbers))

    with ClusterProcesses(tmp_path) as cluster:
        outcome = await prove(cluster, restart_all)
    outcome.require_proof()
    assert outcome.failed == []


@pytest.mark.soak
async def test_wiped_disk_is_filled_again(tmp_path: Path) -> None:
    async def lose_disk(cluster: ClusterProcesses, observer: Observer) -> None:
        victim = await observer.wait_for_controller()
        await asyncio.to_thread(cluster.kill, victim)
        await observer.wait_for(observer.brokers, lambda found: victim not in found)
        cluster.wipe(victim)
        await asyncio.to_thread(cluster.start_brokers, victim)
        await observer.wait_until_whole(len(cluster.numbers))

    with ClusterProcesses(tmp_path) as cluster:
        outcome = await prove(cluster, lose_disk)
    outcome.require_proof()


async def test_controller_paused_past_its_session_changes_nothing(
    cluster: ClusterProcesses, observer: Observer
) -> None:
    await create(cluster, partitions=12)
    await observer.wait_until_whole(len(cluster.numbers))
    zombie = await observer.wait_for_controller()
    epoch = await observer.controller_epoch()
    async with ottla.Admin(cluster.bootstrap) as admin:
        # The controller is paused with work to do.
        pending = asyncio.ensure_future(admin.create_partitions({"t": 60}))
        await asyncio.sleep(0)
        cluster.pause(zombie)
        successor = await observer.wait_for_controller(other_than=zombie)
        await observer.wait_for(
            observer.partitions,
            lambda them: all(each.leader not in (-1, zombie) for each in them.values()),
        )
        before = await observer.partitions()
        cluster.resume(zombie)
        await asyncio.gather(pending, return_exceptions=True)
    await observer.wait_until_whole(len(cluster.numbers))
    assert await observer.controller() == successor
    assert await observer.controller_epoch() == epoch + 1
    after = await observer.partitions()
    changed = {where for where, state in after.items() if state != before.get(where)}
    assert changed, "the zombie's replicas have rejoined, so something must have changed"
    assert {after[where].controller_epoch for where in changed} == {epoch + 1}
    assert all(after[where].leader == state.leader for where, state in before.items())


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in SOAK_SEEDS)]


@pytest.mark.parametrize("seed", SEEDS)
async def test_expansion_survives_the_controller(
    cluster: ClusterProcesses, observer: Observer, seed: int
) -> None:
    await create(cluster, partitions=3)
    await interrupted(cluster, observer, seed, lambda admin: admin.create_partitions({"t": 30}))
    await repeat(cluster, lambda admin: admin.create_partitions({"t": 30}), "INVALID_PARTITIONS")
    found = await observer.wait_for(
        observer.partitions, lambda them: len(them) == 30 and all_whole(them)
    )
    assert set(found) == {TopicPartition("t", number) for number in range(30)}


@pytest.mark.parametrize("seed", SEEDS)
async def test_deletion_survives_the_controller(
    cluster: ClusterProcesses, observer: Observer, seed: int
) -> None:
    await create(cluster, partitions=20)
    await interrupted(cluster, observer, seed, lambda admin: admin.delete_topics(["t"]))
    await repeat(cluster, lambda admin: admin.delete_topics(["t"]), "UNKNOWN_TOPIC_OR_PARTITION")
    await observer.wait_for(observer.partitions, lambda them: them == {})
    await observer.wait_for(directories_of(cluster, "t"), lambda found: found == [])


@pytest.mark.parametrize("seed", SEEDS)
async def test_reassignment_survives_the_controller(
    cluster: ClusterProcesses, observer: Observer, seed: int
) -> None:
    newcomer = await asyncio.to_thread(cluster.add_broker)
    await create(cluster, partitions=12)
    moves = {TopicPartition("t", number): [newcomer, 1 + number % 3] for number in range(12)}
    await interrupted(cluster, observer, seed, lambda admin: admin.alter_reassignments(moves))
    await repeat(cluster, lambda admin: admin.alter_reassignments(moves))
    wanted = {where: tuple(replicas) for where, replicas in moves.items()}
    await observer.wait_for(
        observer.partitions,
        lambda them: (
            {where: each.replicas for where, each in them.items()} == wanted and all_whole(them)
        ),
    )
    await observer.wait_for(moving(cluster), lambda found: found == {})


@pytest.mark.parametrize("seed", SEEDS)
async def test_preferred_election_survives_the_controller(
    cluster: ClusterProcesses, observer: Observer, seed: int
) -> None:
    await create(cluster, partitions=12)
    # A broker that has been restarted leads no partition.
    controller = await observer.wait_for_controller()
    victim = next(number for number in cluster.running if number != controller)
    await asyncio.to_thread(cluster.stop, victim)
    await asyncio.to_thread(cluster.start_brokers, victim)
    await observer.wait_until_whole(len(cluster.numbers))

    async def elect(admin: ottla.Admin) -> None:
        await admin.elect_leaders()

    await interrupted(cluster, observer, seed, elect)
    await observer.wait_until_whole(len(cluster.numbers))
    await repeat(cluster, elect)
    await observer.wait_for(
        observer.partitions,
        lambda them: all(each.leader == each.replicas[0] for each in them.values()),
    )


async def delete_everything(cluster: ClusterProcesses, observer: Observer) -> None:
    async with ottla.Admin(cluster.bootstrap) as admin:
        if names := await admin.list_topics():
            await admin.delete_topics(names)
    await observer.wait_for(observer.partitions, lambda them: them == {})


async def create(cluster: ClusterProcesses, partitions: int) -> None:
    async with ottla.Admin(cluster.bootstrap) as admin:
        await admin.create_topics([ottla.NewTopic("t", partitions, 3)])


async def interrupted(
    cluster: ClusterProcesses, observer: Observer, seed: int, change: Change
) -> None:
    """Request a change, kill the controller a moment later, and start it again."""
    await observer.wait_until_whole(len(cluster.numbers))
    victim = await observer.wait_for_controller()
    async with ottla.Admin(cluster.bootstrap) as admin:
        pending = asyncio.ensure_future(change(admin))
        # The seed determines the moment.
        await asyncio.sleep(random.Random(seed).uniform(0, MAX_DELAY_S))
        await asyncio.to_thread(cluster.kill, victim)
        await asyncio.gather(pending, return_exceptions=True)
    assert await observer.wait_for_controller(other_than=victim) != victim
    await asyncio.to_thread(cluster.start_brokers, victim)


async def repeat(cluster: ClusterProcesses, change: Change, *good_errors: str) -> None:
    """Retry a change until it is accepted; `good_errors` mean that the first request succeeded."""
    for attempt in range(MAX_ATTEMPTS):
        async with ottla.Admin(cluster.bootstrap) as admin:
            try:
                return await change(admin)
            except OttlaError as error:
                if any(code in str(error) for code in good_errors):
                    return None
                if attempt == MAX_ATTEMPTS - 1:
                    raise
        await asyncio.sleep(0.2)
    return None


def all_whole(partitions: "dict[TopicPartition, State] | object") -> bool:
    assert isinstance(partitions, dict)
    return all(state.is_whole for state in partitions.values())


def directories_of(cluster: ClusterProcesses, topic: str) -> Callable[[], Awaitable[list[str]]]:
    async def look() -> list[str]:
        return [
            str(path)
            for number in cluster.numbers
            for path in cluster.log_directory(number).glob(f"{topic}-*")
            # Deleted directories stay for file.delete.delay.ms, under another name.
            if not path.name.endswith("-delete")
        ]

    return look


def moving(cluster: ClusterProcesses) -> Callable[[], Awaitable[object]]:
    async def look() -> object:
        async with ottla.Admin(cluster.bootstrap) as admin:
            return await admin.list_reassignments()

    return look

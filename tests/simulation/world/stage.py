"""A small cluster with acknowledged records, for scripted stories without random faults."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from structlog.testing import capture_logs

import ottla
from broker.errors import StartupError
from tests.simulation.world.cluster import SESSION_TIMEOUT_MS, BrokerHost, Cluster, Host
from tests.simulation.world.loop import WorldLoop
from tests.simulation.world.script import BROKERS
from tests.simulation.world.workload import GROUP, TOPIC, read_topic
from tests.simulation.world.world import in_world

T = TypeVar("T")
LOG_DIRS: Final = 2
RECORDS: Final = 20
COMMIT_S: Final = 8.0
MAX_POLL_S: Final = 5.0
"""Time without a read after which a member leaves its group."""
POLL_S: Final = 0.1
STORY_S: Final = 120.0
"""Virtual time after which a story hangs."""
SESSION_S: Final = SESSION_TIMEOUT_MS / 1000
Story = Callable[["Stage"], Awaitable[None]]


class Worst(Random):
    """The outcome of a loss of power that keeps the least."""

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        return seq[0]


class Stage:
    """A cluster with acknowledged records."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.loop = cluster.loop

    def controller(self) -> BrokerHost:
        """Return the controller, which leads a partition, too."""
        [found] = [
            each for each in self.cluster.brokers if each.program._member.controller.is_active
        ]
        return found

    def in_sync_sets(self) -> set[frozenset[int]]:
        return {frozenset(each.isr) for each in self.cluster.partition_states().values()}

    def others(self, host: BrokerHost) -> list[BrokerHost]:
        return [each for each in self.cluster.brokers if each is not host]

    async def create(self, admin: ottla.Admin, topic: str) -> None:
        """Create a topic with a replica on every broker."""
        await admin.create_topics([ottla.NewTopic(topic, 1, BROKERS)])

    async def write(self, topic: str, values: Sequence[bytes]) -> None:
        """Write records to the only partition of a topic."""
        async with ottla.Producer(self.cluster.bootstrap) as producer:
            for value in values:
                await (await producer.send(topic, value))

    def member(self, name: str) -> ottla.Consumer:
        """Return a member of a group that is put out before it commits if it works for long."""
        return ottla.Consumer(
            self.cluster.bootstrap,
            group_id=GROUP,
            client_id=name,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=int(COMMIT_S * 1000),
            session_timeout_ms=6000,
            heartbeat_interval_ms=1000,
            max_poll_interval_ms=int(MAX_POLL_S * 1000),
        )

    def lose_power(self, host: Host) -> None:
        host.disk._chance = Worst(0)
        host.lose_power()

    async def boot(self, *hosts: BrokerHost) -> None:
        """Start brokers, as their supervisors do."""

        async def start(host: BrokerHost) -> None:
            while not host.is_up:
                try:
                    await host.boot()
                except StartupError:
                    host.kill()
                    await asyncio.sleep(1.0)

        await asyncio.gather(*map(start, hosts))

    async def until_in_sync(self) -> None:
        while not self.cluster.is_in_sync():  # noqa: ASYNC110 - polls the coordinator's state
            await asyncio.sleep(POLL_S)


def play(seed: int, story: Story) -> tuple[int, set[str]]:
    """Return the number of records after a story, and the names of all logged events."""

    async def live(loop: WorldLoop, root: Path) -> int:
        cluster = Cluster(loop, root, BROKERS)
        for host in cluster.brokers:
            host.log_dirs = [host.root / f"d{number}" for number in range(LOG_DIRS)]
        await cluster.boot()
        async with ottla.Admin(cluster.bootstrap) as admin:
            await admin.create_topics([ottla.NewTopic(TOPIC, BROKERS, BROKERS)])
        stage = Stage(cluster)
        await stage.until_in_sync()
        async with ottla.Producer(cluster.bootstrap) as producer:
            for number in range(RECORDS):
                await (await producer.send(TOPIC, b"", partition=number % BROKERS))
        async with asyncio.timeout(STORY_S):
            await story(stage)
        found = await read_topic(cluster, TOPIC)
        for host in cluster.brokers:
            if host.is_up:
                await host.stop()
        return len(found)

    with capture_logs() as logged:
        count = in_world(seed, live)
    return count, {each["event"] for each in logged}

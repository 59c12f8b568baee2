"""Steps of a wall clock, which must not change any delay."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

import ottla
from kafkawire.ids import TopicPartition
from tests.simulation.world.cluster import BrokerHost, Cluster
from tests.simulation.world.loop import WorldLoop
from tests.simulation.world.script import BROKERS
from tests.simulation.world.workload import TOPIC
from tests.simulation.world.world import in_world

PARTITION = TopicPartition(TOPIC, 0)
RECORDS = 20
BACK_OFF_S = 2.0
"""More than the longest back-off of a follower, and enough for the creation of a topic."""
LAG_S = 60.0
"""More than the time after which a silent follower leaves the in-sync set."""
Story = Callable[["Stage"], Awaitable[None]]


class Stage:
    """A cluster with one partition."""

    def __init__(self, cluster: Cluster, producer: ottla.Producer) -> None:
        self.cluster = cluster
        self._producer = producer
        state = cluster.partition_states()[PARTITION]
        hosts = {host.number: host for host in cluster.brokers}
        self.leader: BrokerHost = hosts[state.leader]
        self.follower = next(
            host
            for host in cluster.brokers
            if host is not self.leader and not host.program._member.controller.is_active
        )

    def step_clock(self, host: BrokerHost, seconds: float) -> None:
        self.cluster.loop.clock.offsets_s[host.name] = seconds

    async def write(self) -> None:
        deliveries = [await self._producer.send(TOPIC, b"x" * 1000) for _ in range(RECORDS)]
        await asyncio.gather(*deliveries)

    def end_at(self, host: BrokerHost) -> int:
        return int(host.program._replicas.table.by_key[PARTITION].log.log_end_offset)


def play(story: Story) -> None:
    async def live(loop: WorldLoop, root: Path) -> None:
        cluster = Cluster(loop, root, BROKERS)
        await cluster.boot()
        async with ottla.Admin(cluster.bootstrap) as admin:
            await admin.create_topics([ottla.NewTopic(TOPIC, 1, BROKERS)])
        await asyncio.sleep(BACK_OFF_S)
        assert cluster.is_in_sync()
        async with ottla.Producer(cluster.bootstrap) as producer:
            stage = Stage(cluster, producer)
            await stage.write()
            await story(stage)
        for host in cluster.brokers:
            await host.stop()

    with capture_logs():
        in_world(0, live)


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
def test_a_follower_retries_although_its_clock_is_set(seconds: float) -> None:
    async def story(stage: Stage) -> None:
        stage.follower.disk.free_bytes = 0
        writing = asyncio.ensure_future(stage.write())
        await asyncio.sleep(BACK_OFF_S)
        assert stage.end_at(stage.follower) < stage.end_at(stage.leader)
        stage.step_clock(stage.follower, seconds)
        stage.follower.disk.heal()
        await asyncio.sleep(BACK_OFF_S)
        assert stage.end_at(stage.follower) == stage.end_at(stage.leader)
        await writing

    play(story)


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
def test_a_silent_follower_leaves_although_the_clock_is_set(seconds: float) -> None:
    async def story(stage: Stage) -> None:
        leader, follower = stage.leader.name, stage.follower.name
        stage.cluster.loop.network.blocked |= {(leader, follower), (follower, leader)}
        stage.step_clock(stage.leader, seconds)
        writing = asyncio.ensure_future(stage.write())
        await asyncio.sleep(BACK_OFF_S)
        state = stage.cluster.partition_states()[PARTITION]
        assert len(state.isr) == BROKERS, "the lag has not exceeded its limit yet"
        await asyncio.sleep(LAG_S)
        state = stage.cluster.partition_states()[PARTITION]
        assert len(state.isr) == BROKERS - 1
        await writing
        stage.cluster.loop.network.blocked.clear()

    play(story)

"""Operators of topics that the writers do not use: new ones, and one with a single replica."""

from __future__ import annotations

import asyncio
from typing import Final

import ottla
from kafkawire.ids import TopicPartition
from ottla.client.errors import OttlaError, TopicExistsError
from tests.simulation.world.cluster import Cluster
from tests.simulation.world.workload import DELIVERY_TIMEOUT_MS, Client, Promises, read_topic

NEW: Final = "new"
MAX_NEW: Final = 8
SINGLE: Final = "single"
PAUSE_S: Final = (0.0, 4.0)
MOVE_S: Final = (0.0, 2.0)


class Creator(Client):
    """Creates topics that stay."""

    async def _work(self) -> None:
        number = 0
        async with ottla.Admin(self.cluster.bootstrap, client_id=self.name) as admin:
            while not self.is_over:
                await asyncio.sleep(self.loop.chance.uniform(*PAUSE_S))
                if number == MAX_NEW:
                    continue
                number += 1
                replicas = min(self.loop.chance.choice((2, 3)), self.cluster.replica_count)
                try:
                    await admin.create_topics([ottla.NewTopic(f"{NEW}{number}", 1, replicas)])
                except OttlaError:
                    self.promises.failed_count += 1


class Rover(Client):
    """Moves the only replica of a topic from broker to broker, and writes to it.

    It is only for worlds without faults that lose the records of one broker.
    """

    def __init__(self, cluster: Cluster, name: str, promises: Promises) -> None:
        super().__init__(cluster, name, promises)
        self.written: dict[int, bytes] = {}
        """Acknowledged records by offset."""

    async def _work(self) -> None:
        async with ottla.Admin(self.cluster.bootstrap, client_id=self.name) as admin:
            await self._create(admin)
            moving = self.run(self._move(admin))
            async with ottla.Producer(
                self.cluster.bootstrap, delivery_timeout_ms=DELIVERY_TIMEOUT_MS, client_id=self.name
            ) as producer:
                number = 0
                while not self.is_over:
                    await asyncio.sleep(self.loop.chance.uniform(*MOVE_S) / 4)
                    number += 1
                    value = b"%d" % number
                    try:
                        found = await (await producer.send(SINGLE, value, partition=0))
                    except OttlaError:
                        self.promises.failed_count += 1
                    else:
                        self.written[found.offset] = value
            await moving

    async def _create(self, admin: ottla.Admin) -> None:
        topic = ottla.NewTopic(SINGLE, 1, 1, {"min.insync.replicas": "1"})
        while not self.is_over:
            try:
                await admin.create_topics([topic])
            except TopicExistsError:
                return
            except OttlaError:
                await asyncio.sleep(MOVE_S[1])

    async def _move(self, admin: ottla.Admin) -> None:
        partition = TopicPartition(SINGLE, 0)
        numbers = [host.number for host in self.cluster.brokers]
        while not self.is_over:
            await asyncio.sleep(self.loop.chance.uniform(*MOVE_S))
            count = min(self.loop.chance.choice((1, 2)), self.cluster.replica_count)
            replicas = self.loop.chance.sample(numbers, count)
            wanted = self.loop.chance.choice((replicas, replicas, None))
            try:
                await admin.alter_reassignments({partition: wanted})
            except OttlaError:
                self.promises.failed_count += 1

    async def judge(self) -> None:
        """Check that every acknowledged record is there."""
        if not self.written:
            # Faults may have left no time in which the topic could be created.
            return
        found = {int(each.offset): each.value for each in await read_topic(self.cluster, SINGLE)}
        for offset, value in self.written.items():
            assert found.get(offset) == value, f"{SINGLE}@{offset} lacks {value!r}"

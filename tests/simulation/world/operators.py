"""Operators of a simulated cluster, and a writer to a compacted topic."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import ottla
from kafkawire.ids import TopicPartition
from ottla.client.admin_model import ResourceType
from ottla.client.errors import OttlaError, TopicExistsError, UnknownTopicError
from tests.simulation.world.cluster import Cluster
from tests.simulation.world.judges import Judges
from tests.simulation.world.workload import (
    DELIVERY_TIMEOUT_MS,
    PARTITIONS,
    TOPIC,
    Client,
    Promises,
    read_topic,
)

SCRATCH: Final = "scratch"
"""A topic that is deleted and created again."""
KEYED: Final = "keyed"
"""A compacted topic."""
KEYS: Final = 5
PAUSE_S: Final = (0.0, 3.0)
KEYED_PAUSE_S: Final = (0.0, 0.2)
RETRIES: Final = 3
SEGMENT_BYTES: Final = ("16384", "65536", "1048576")
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "1024",
    "min.cleanable.dirty.ratio": "0.01",
}


class TopicOperator(Client):
    """Creates, fills, grows, empties and deletes one topic again and again.

    Each record names the generation of the topic that it was written to. A record that is
    acknowledged in one generation must not be in a later one at the same place.
    """

    def __init__(self, cluster: Cluster, name: str, promises: Promises, judges: Judges) -> None:
        super().__init__(cluster, name, promises)
        self.generation = 0
        """Number of deletions that have certainly taken place."""
        self.counts = {"created": 0, "uncertain": 0, "written": 0}
        self._judges = judges
        self._written: dict[tuple[int, int], set[tuple[int, bytes]]] = {}

    async def _work(self) -> None:
        async with ottla.Admin(self.cluster.bootstrap, client_id=self.name) as admin:
            while not self.is_over:
                if await self._retry(lambda: self._create(admin)):
                    await self._use(admin)
                await self._delete(admin)
                await asyncio.sleep(self.loop.chance.uniform(*PAUSE_S))

    async def _retry(self, attempt: Callable[[], Awaitable[Any]]) -> bool:
        """Try a few times; return False if the outcome is uncertain."""
        for _ in range(RETRIES):
            try:
                await attempt()
            except OttlaError:
                await asyncio.sleep(self.loop.chance.uniform(*PAUSE_S))
            else:
                return True
        self.counts["uncertain"] += 1
        return False

    async def _create(self, admin: ottla.Admin) -> None:
        replicas = self.loop.chance.choice((2, 3))
        await admin.create_topics([ottla.NewTopic(SCRATCH, 1, replicas)])
        self.counts["created"] += 1

    async def _use(self, admin: ottla.Admin) -> None:
        await self._retry(self._write)
        if self.loop.chance.random() < 0.5:
            await self._retry(lambda: admin.create_partitions({SCRATCH: 2}))
            await self._retry(self._write)
        if self.loop.chance.random() < 0.3:
            await self._retry(lambda: admin.delete_records({TopicPartition(SCRATCH, 0): -1}))

    async def _write(self) -> None:
        generation = self.generation
        async with ottla.Producer(
            self.cluster.bootstrap, delivery_timeout_ms=DELIVERY_TIMEOUT_MS, client_id=self.name
        ) as producer:
            for number in range(self.loop.chance.randrange(1, 30)):
                value = b"%d %d" % (generation, number)
                found = await (await producer.send(SCRATCH, value))
                self.counts["written"] += 1
                place = (found.partition, found.offset)
                self._written.setdefault(place, set()).add((generation, value))

    async def judge(self) -> None:
        """Check that the topic holds nothing of its predecessors.

        During the faults an isolated broker may still serve a topic that is deleted.
        """
        try:
            records = await read_topic(self.cluster, SCRATCH)
        except UnknownTopicError:
            return
        for record in records:
            known = self._written.get((record.partition, record.offset), set())
            old = [value for generation, value in known if generation < self.generation]
            assert record.value not in old, f"{record} is of a deleted topic"

    async def _delete(self, admin: ottla.Admin) -> None:
        self._judges.deletions[SCRATCH] += 1
        try:
            await admin.delete_topics([SCRATCH])
        except OttlaError:
            return
        self.generation += 1


class ReplicaOperator(Client):
    """Moves the partitions and leaders of a topic, and changes its configs."""

    uncertain_count = 0

    async def _work(self) -> None:
        async with ottla.Admin(self.cluster.bootstrap, client_id=self.name) as admin:
            actions = (self._move, self._take_back, self._elect, self._configure)
            while not self.is_over:
                action = self.loop.chance.choice(actions)
                try:
                    await action(admin)
                except OttlaError:
                    self.uncertain_count += 1
                await asyncio.sleep(self.loop.chance.uniform(*PAUSE_S))

    def _partition(self) -> TopicPartition:
        return TopicPartition(TOPIC, self.loop.chance.randrange(PARTITIONS))

    async def _move(self, admin: ottla.Admin) -> None:
        numbers = [host.number for host in self.cluster.brokers]
        replicas = self.loop.chance.sample(numbers, self.loop.chance.choice((2, 3, 3)))
        await admin.alter_reassignments({self._partition(): replicas})

    async def _take_back(self, admin: ottla.Admin) -> None:
        await admin.alter_reassignments({self._partition(): None})

    async def _elect(self, admin: ottla.Admin) -> None:
        await admin.elect_leaders([self._partition()])

    async def _configure(self, admin: ottla.Admin) -> None:
        changes = {"segment.bytes": self.loop.chance.choice(SEGMENT_BYTES)}
        await admin.alter_configs(ResourceType.TOPIC, TOPIC, changes)


class KeyedWriter(Client):
    """Writes to a compacted topic, one record per key at a time."""

    def __init__(self, cluster: Cluster, name: str, promises: Promises) -> None:
        super().__init__(cluster, name, promises)
        self.last: dict[bytes, int] = {}
        """Number of the last acknowledged record, by key."""

    async def _work(self) -> None:
        async with ottla.Admin(self.cluster.bootstrap, client_id=self.name) as admin:
            while True:
                try:
                    topic = ottla.NewTopic(KEYED, 1, len(self.cluster.brokers), COMPACTED)
                    await admin.create_topics([topic])
                except TopicExistsError:
                    break
                except OttlaError:
                    await asyncio.sleep(PAUSE_S[1])
        number = 0
        async with ottla.Producer(
            self.cluster.bootstrap, delivery_timeout_ms=DELIVERY_TIMEOUT_MS, client_id=self.name
        ) as producer:
            while not self.is_over:
                await asyncio.sleep(self.loop.chance.uniform(*KEYED_PAUSE_S))
                number += 1
                key = b"%d" % self.loop.chance.randrange(KEYS)
                try:
                    await (await producer.send(KEYED, b"%d" % number, key=key))
                except OttlaError:
                    self.promises.failed_count += 1
                else:
                    self.last[key] = number

    async def judge(self) -> None:
        """Check that the last value of every key is there."""
        found: dict[bytes, int] = {}
        for record in await read_topic(self.cluster, KEYED):
            assert record.key is not None
            assert record.value is not None
            number = int(record.value)
            assert found.get(record.key, 0) < number, f"{record} after {found}"
            found[record.key] = number
        for key, number in self.last.items():
            assert found.get(key, 0) >= number, f"key {key!r}: {found.get(key)}, {number} written"

"""Clients of a simulated cluster, and the promises made to them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import ottla
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from ottla.client.client_config import IsolationLevel
from ottla.client.consumer.group.group_config import AssignorName
from ottla.client.errors import BrokerError, NoBrokerAvailableError, OttlaError
from tests.simulation.world.cluster import Cluster
from tests.simulation.world.process import Process

TOPIC: Final = "t"
PARTITIONS: Final = 2
GROUP: Final = "g"
PAUSE_S: Final = (0.0, 0.4)
STAY_S: Final = (2.0, 30.0)
"""Virtual time after which a reader leaves its group, and comes back."""
ABSENCE_S: Final = (0.0, 3.0)
COMMIT_SHARE: Final = 0.3
COMMIT_INTERVALS_MS: Final = (500, 1000, 8000)
LONG_WORK_SHARE: Final = 0.03
LONG_WORK_S: Final = (0.0, 10.0)
"""Virtual time that a reader works on some records; it may be put out of its group meanwhile."""
DELIVERY_TIMEOUT_MS: Final = 20_000
CODECS: Final = (None, "lz4", "gzip", "zstd")
LINGERS_MS: Final = (0, 0, 20)
BATCH_SIZES_BYTES: Final = (1_000, 16_384)
FETCH_SIZES_BYTES: Final = (2_000, 52_428_800)
ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
STATIC_SHARE: Final = 0.3
"""Share of the worlds in which the readers are static members of their group."""
ASSIGNORS: Final[tuple[tuple[AssignorName, ...], ...]] = (
    ("range", "cooperative-sticky"),
    ("cooperative-sticky",),
    ("sticky",),
    ("roundrobin", "range"),
)


@dataclass(frozen=True, slots=True)
class Written:
    """An acknowledged record."""

    producer: str
    number: int
    partition: int
    offset: int


@dataclass(slots=True)
class Promises:
    """Records that the cluster has acknowledged, and records that readers have seen."""

    written: list[Written] = field(default_factory=list)
    sent: dict[tuple[str, int], int] = field(default_factory=dict)
    """Partition of every record that was sent, by producer and number."""
    read: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """Values that were read, by partition and offset."""
    ends: dict[int, int] = field(default_factory=dict)
    """Offset after the last record that a client knows to be committed, by partition."""
    failed_count: int = 0
    on_offset: Callable[[TopicPartition, int], None] = lambda _partition, _offset: None
    """Called when the group has acknowledged the commit of an offset."""

    def on_committed(self, partition: int, offset: int) -> None:
        """Note that a client knows an offset to be committed."""
        self.ends[partition] = max(self.ends.get(partition, 0), offset + 1)

    def on_read(self, partition: int, offset: int, value: bytes) -> None:
        """Check that an offset has the same record for every reader."""
        self.on_committed(partition, offset)
        known = self.read.setdefault((partition, offset), value)
        assert known == value, f"{partition}@{offset} was {known!r} and is {value!r}"


class Client(ABC):
    """A program on a host of its own."""

    def __init__(self, cluster: Cluster, name: str, promises: Promises) -> None:
        self.cluster = cluster
        self.loop = cluster.loop
        self.name = name
        self.promises = promises
        self.is_over = False
        self.process = Process(name)
        self.loop.network.address_of(name)
        self.task: asyncio.Task[None]

    def begin(self) -> None:
        """Run until `is_over`."""
        self.task = self.run(self._work())

    def restart(self) -> None:
        """Kill the process, and start the program in a new one."""
        self.process.death.set()
        self.loop.network.on_death(self.process)
        self.process = Process(self.name)
        self.begin()

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run in this client's process."""
        task = self.loop.create_task(work, context=self.process.context)
        self.process.tasks.append(task)
        return task

    @abstractmethod
    async def _work(self) -> None:
        """Serve as the program until `is_over`."""


class Writer(Client):
    """An idempotent producer with many records in flight."""

    async def _work(self) -> None:
        number = 0
        async with ottla.Producer(
            self.cluster.bootstrap,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            client_id=self.name,
            compression=self.loop.chance.choice(CODECS),
            linger_ms=self.loop.chance.choice(LINGERS_MS),
            batch_size_bytes=self.loop.chance.choice(BATCH_SIZES_BYTES),
        ) as producer:
            while not self.is_over:
                for _ in range(self.loop.chance.randrange(1, 20)):
                    number += 1
                    await self._send(producer, number)
                await asyncio.sleep(self.loop.chance.uniform(*PAUSE_S))

    async def _send(self, producer: ottla.Producer, number: int) -> None:
        value = b"%s %d " % (self.name.encode(), number)
        value += b"x" * self.loop.chance.choice((0, 10, 100, 2000))
        partition = self.loop.chance.randrange(PARTITIONS)
        self.promises.sent[self.name, number] = partition
        try:
            delivery = await producer.send(TOPIC, value, partition=partition)
        except OttlaError:
            self.promises.failed_count += 1
            return

        def on_done(future: Any) -> None:
            if future.cancelled() or future.exception() is not None:
                self.promises.failed_count += 1
                return
            found = future.result()
            self.promises.on_committed(partition, found.offset)
            self.promises.written.append(Written(self.name, number, partition, found.offset))

        delivery.add_done_callback(on_done)


class Members:
    """The settings that the members of a group share."""

    def __init__(self, chance: Random) -> None:
        self.assignors = chance.choice(ASSIGNORS)
        self.are_static = chance.random() < STATIC_SHARE


class Reader(Client):
    """A member of a consumer group, which leaves the group at times."""

    def __init__(self, cluster: Cluster, name: str, promises: Promises, members: Members) -> None:
        super().__init__(cluster, name, promises)
        self._members = members

    async def _work(self) -> None:
        while not self.is_over:
            try:
                await self._stay(self.loop.time() + self.loop.chance.uniform(*STAY_S))
            except NoBrokerAvailableError:
                self.promises.failed_count += 1
            except BrokerError as error:
                # A coordinator that follows one which could not store the group any more knows an
                # earlier member of this name. A program has to start again, as with Java's client.
                if error.code is not ErrorCode.FENCED_INSTANCE_ID:
                    raise
                self.promises.failed_count += 1
            if not self.is_over:
                await asyncio.sleep(self.loop.chance.uniform(*ABSENCE_S))

    async def _stay(self, end_s: float) -> None:
        async with ottla.Consumer(
            self.cluster.bootstrap,
            group_id=GROUP,
            group_instance_id=self.name if self._members.are_static else None,
            assignors=self._members.assignors,
            client_id=self.name,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=self.loop.chance.choice(COMMIT_INTERVALS_MS),
            session_timeout_ms=6000,
            heartbeat_interval_ms=2000,
            max_poll_interval_ms=5000,
            fetch_max_bytes=self.loop.chance.choice(FETCH_SIZES_BYTES),
            isolation_level=self.loop.chance.choice(ISOLATION_LEVELS),
        ) as consumer:
            consumer.subscribe([TOPIC])
            while not self.is_over and self.loop.time() < end_s:
                await self._read(consumer)
                if self.loop.chance.random() < LONG_WORK_SHARE:
                    await asyncio.sleep(self.loop.chance.uniform(*LONG_WORK_S))

    async def _read(self, consumer: ottla.Consumer) -> None:
        ends: dict[TopicPartition, int] = {}
        for record in await consumer.fetch_batch(timeout_ms=500):
            self.promises.on_read(record.partition, record.offset, record.value or b"")
            ends[TopicPartition(TOPIC, record.partition)] = record.offset + 1
        if ends and self.loop.chance.random() < COMMIT_SHARE:
            try:
                await consumer.commit(ends)
            except OttlaError:
                self.promises.failed_count += 1
                return
            for partition, offset in ends.items():
                self.promises.on_offset(partition, offset)


async def read_topic(
    cluster: Cluster, topic: str, isolation_level: IsolationLevel = "read_uncommitted"
) -> list[ottla.ConsumerRecord]:
    """Return all records of a topic, as a client reads them."""
    found: list[ottla.ConsumerRecord] = []
    async with ottla.Consumer(
        cluster.bootstrap,
        client_id="judge",
        auto_offset_reset="earliest",
        isolation_level=isolation_level,
    ) as consumer:
        ends = await consumer.end_offsets(await consumer.assign_topics(topic))
        while any((consumer.position(each) or 0) < end for each, end in ends.items()):
            found += await consumer.fetch_batch(timeout_ms=500)
    return found


async def read_all(cluster: Cluster, promises: Promises) -> dict[int, list[tuple[int, bytes]]]:
    """Return offset and value of each record in each partition of the writers' topic."""
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for record in await read_topic(cluster, TOPIC):
        promises.on_read(record.partition, record.offset, record.value or b"")
        found[record.partition].append((record.offset, record.value or b""))
    return found


def judge(found: dict[int, list[tuple[int, bytes]]], promises: Promises) -> None:
    """Check the promises against the records."""
    by_place = {
        (partition, offset): value
        for partition, records in found.items()
        for offset, value in records
    }
    for each in promises.written:
        value = by_place.get((each.partition, each.offset))
        assert value is not None, f"lost: {each}"
        expected = b"%s %d " % (each.producer.encode(), each.number)
        assert value.startswith(expected), f"{each} is {value[:40]!r}"
    for partition, records in found.items():
        assert [offset for offset, _ in records] == list(range(len(records)))
        last: dict[bytes, int] = {}
        for offset, value in records:
            producer, number, _ = value.split(b" ", 2)
            before = last.get(producer, 0)
            assert before < int(number), (
                f"{partition}@{offset}: {producer!r} {int(number)} after {before}"
            )
            last[producer] = int(number)

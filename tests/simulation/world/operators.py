"""Operators of a simulated cluster, and a writer to a compacted topic."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import ottla
from broker.handlers.appending import ADMIN_CLIENT_ID
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC
from kafkawire.messages.fetch import (
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kafkawire.records import iterate_batches, read_records
from kafkawire.units import MIB
from ottla.client.admin_model import ResourceType
from ottla.client.errors import OttlaError, TopicExistsError, UnknownTopicError
from ottla.client.network.connection_pool import Purpose
from tests.simulation.world.cluster import BROKER_PORT, Cluster
from tests.simulation.world.judges import Judges
from tests.simulation.world.workload import (
    DELIVERY_TIMEOUT_MS,
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
BURST: Final = (1, 1, 1, 40)
KEPT_SHARE: Final = 0.5
"""Share of the worlds in which the last topic is not deleted."""
RETRIES: Final = 3
CONFIGS: Final = {
    "segment.bytes": ("16384", "65536", "1048576"),
    # The largest record of a writer fits, but not many records together.
    "max.message.bytes": ("2300", "5000", "1048588"),
    "compression.type": ("producer", "uncompressed", "lz4", "gzip", "zstd"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "segment.ms": ("1000", "604800000"),
    "segment.index.bytes": ("64", "10485760"),
    "index.interval.bytes": ("0", "4096"),
    "preallocate": ("true", "false"),
    "flush.messages": ("1", "9223372036854775807"),
    "flush.ms": ("100", "9223372036854775807"),
}
BROKER_CONFIGS: Final = {
    "compression.type": ("producer", "zstd"),
    "log.cleaner.backoff.ms": ("100", "2000"),
    "log.cleaner.io.max.bytes.per.second": ("1000", "1000000000"),
    "log.cleaner.threads": ("1", "2"),
    "log.flush.interval.ms": ("100", "10000"),
    "log.segment.bytes": ("65536", "1048576"),
    # This one counts from the next start on.
    "num.replica.fetchers": ("1", "2"),
}
QUOTAS: Final[Mapping[str, tuple[float | None, ...]]] = {
    "producer_byte_rate": (20_000.0, 500_000.0, None),
    "consumer_byte_rate": (20_000.0, 500_000.0, None),
    "request_percentage": (1.0, 50.0, None),
}
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
        self._old: tuple[TopicId, int] = (ZERO_TOPIC_ID, 0)
        """Id and generation of the topic that was deleted last."""

    async def _work(self) -> None:
        async with ottla.Admin(self.cluster.bootstrap, client_id=self.name) as admin:
            while True:
                if await self._retry(lambda: self._create(admin)):
                    await self._use(admin)
                if self.is_over and self.loop.chance.random() < KEPT_SHARE:
                    return
                await self._delete(admin)
                if self.is_over:
                    return
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
        replicas = min(self.loop.chance.choice((2, 3)), self.cluster.replica_count)
        unclean = {"unclean.leader.election.enable": self.loop.chance.choice(("true", "false"))}
        await admin.create_topics([ottla.NewTopic(SCRATCH, 1, replicas, unclean)])
        self.counts["created"] += 1

    async def _use(self, admin: ottla.Admin) -> None:
        await self._retry(self._write)
        await self._read_deleted(admin)
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
        known = self.cluster.assignments().get(SCRATCH)
        if known is not None and known.topic_id is not None:
            self._old = (known.topic_id, self.generation)
        try:
            await admin.delete_topics([SCRATCH])
        except OttlaError:
            return
        self.generation += 1

    async def _read_deleted(self, admin: ottla.Admin) -> None:
        """Read by the id of a deleted topic: this must not return records of its successor."""
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB)
        topic = FetchTopic(topic_id=self._old[0], partitions=(partition,))
        request = FetchRequest(min_bytes=0, topics=(topic,), max_bytes=MIB, session_epoch=-1)
        network = admin._cluster
        assert network is not None
        for host in self.cluster.brokers:
            connection = network.ready_connection(BrokerId(host.number), Purpose.CONTROL)
            if connection is None:
                continue
            try:
                answer = await connection.request(request, FetchResponse, version=TOPIC_IDS_SINCE)
            except OttlaError:
                continue
            for response in [each for found in answer.responses for each in found.partitions]:
                records = response.records
                assert records is None or isinstance(records, bytes | bytearray | memoryview)
                for _, batch in iterate_batches(records or b""):
                    for record in read_records(batch):
                        generation = int(bytes(record.value or b"").split()[0])
                        assert generation <= self._old[1], f"{record} of the topic's successor"


class ReplicaOperator(Client):
    """Moves replicas, elects leaders, and changes configs and quotas."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        promises: Promises,
        *,
        partitions: Sequence[TopicPartition],
        internal: Sequence[TopicPartition],
        limited: Sequence[str] = (),
    ) -> None:
        """Move `partitions`, change leaders of `internal` ones, and limit clients by their ids."""
        super().__init__(cluster, name, promises)
        self.uncertain_count = 0
        self._partitions = partitions
        self._internal = internal
        self._limited = limited
        # In some worlds it removes replicas, and no broker loses records meanwhile.
        cluster.keeps_all_replicas = self.loop.chance.random() < 0.5

    async def _work(self) -> None:
        async with ottla.Admin(self.cluster.bootstrap, client_id=self.name) as admin:
            actions = (
                self._move,
                self._take_back,
                self._change_disk,
                self._hand_over,
                self._elect,
                self._configure,
                self._configure_broker,
                self._advertise,
                *((self._limit,) if self._limited else ()),
            )
            while not self.is_over:
                action = self.loop.chance.choice(actions)
                try:
                    await action(admin)
                except OttlaError:
                    self.uncertain_count += 1
                await asyncio.sleep(self.loop.chance.uniform(*PAUSE_S))

    def _partition(self) -> TopicPartition:
        return self.loop.chance.choice(self._partitions)

    async def _move(self, admin: ottla.Admin) -> None:
        numbers = [host.number for host in self.cluster.brokers]
        count = most = self.cluster.replica_count
        if not self.cluster.keeps_all_replicas:
            count = min(self.loop.chance.choice((2, 3, 3)), most)
        replicas = self.loop.chance.sample(numbers, count)
        await admin.alter_reassignments({self._partition(): replicas})

    async def _take_back(self, admin: ottla.Admin) -> None:
        await admin.alter_reassignments({self._partition(): None})

    async def _change_disk(self, admin: ottla.Admin) -> None:
        host = self.loop.chance.choice(self.cluster.brokers)
        path = str(self.loop.chance.choice(host.log_dirs))
        await admin.alter_replica_log_dirs(host.number, {self._partition(): path})

    async def _hand_over(self, admin: ottla.Admin) -> None:
        """Make another replica the leader, in the middle of the load."""
        partition = self.loop.chance.choice((self._partition(), *self._internal))
        topic = self.cluster.assignments().get(partition.topic)
        if topic is None:
            return
        assigned = topic.partitions[partition.partition]
        if assigned.adding or assigned.removing:
            return
        first, *others = assigned.replicas
        await admin.alter_reassignments({partition: [*others, first]})
        await admin.elect_leaders([partition])

    async def _elect(self, admin: ottla.Admin) -> None:
        await admin.elect_leaders([self._partition()])

    async def _configure(self, admin: ottla.Admin) -> None:
        name = self.loop.chance.choice(tuple(CONFIGS))
        changes = {name: self.loop.chance.choice(CONFIGS[name])}
        await admin.alter_configs(ResourceType.TOPIC, TOPIC, changes)

    async def _configure_broker(self, admin: ottla.Admin) -> None:
        """Change a config of one broker or of all, or take the change back."""
        key = self.loop.chance.choice(tuple(BROKER_CONFIGS))
        name = self.loop.chance.choice(("", *(str(host.number) for host in self.cluster.brokers)))
        changes = {key: self.loop.chance.choice((None, *BROKER_CONFIGS[key]))}
        await admin.alter_configs(ResourceType.BROKER, name, changes)

    async def _advertise(self, admin: ottla.Admin) -> None:
        """Let a broker advertise another name of its host, or take that back."""
        host = self.loop.chance.choice(self.cluster.brokers)
        listener = f"PLAINTEXT://{host.other_name}:{BROKER_PORT}"
        changes = {"advertised.listeners": self.loop.chance.choice((listener, None))}
        await admin.alter_configs(ResourceType.BROKER, str(host.number), changes)

    async def _limit(self, admin: ottla.Admin) -> None:
        key = self.loop.chance.choice(tuple(QUOTAS))
        name = self.loop.chance.choice(self._limited)
        changes = {key: self.loop.chance.choice(QUOTAS[key])}
        await admin.alter_client_quotas({"client-id": name}, changes)


class KeyedWriter(Client):
    """Writes to a compacted topic, at times many records at once."""

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
                for _ in range(self.loop.chance.choice(BURST)):
                    number += 1
                    key = b"%d" % self.loop.chance.randrange(KEYS)
                    await self._send(producer, key, number)

    async def _send(self, producer: ottla.Producer, key: bytes, number: int) -> None:
        try:
            delivery = await producer.send(KEYED, b"%d" % number, key=key)
        except OttlaError:
            self.promises.failed_count += 1
            return

        def on_done(future: Any) -> None:
            if future.cancelled() or future.exception() is not None:
                self.promises.failed_count += 1
            else:
                self.last[key] = max(number, self.last.get(key, 0))

        delivery.add_done_callback(on_done)

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


class Poisoner(Client):
    """Writes records to the topic of committed offsets that no group coordinator understands."""

    async def _work(self) -> None:
        async with ottla.Producer(
            self.cluster.bootstrap,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            client_id=ADMIN_CLIENT_ID,
        ) as producer:
            while not self.is_over:
                try:
                    await (await producer.send(OFFSETS_TOPIC, b"?", key=b"?"))
                except OttlaError:
                    self.promises.failed_count += 1
                await asyncio.sleep(self.loop.chance.uniform(*PAUSE_S))

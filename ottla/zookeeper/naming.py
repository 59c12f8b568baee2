"""Names of partitions in a group's layout, and Kafka's numbers (edge).

In Jafka's layout the numbers come from the replicas in the metadata of the cluster.
"""

import asyncio
from collections.abc import Collection
from typing import Final, Protocol

from clusterstate.znodes.jafka_nodes import names_of
from kafkawire.ids import TopicPartition
from ottla.client.network.cluster import Cluster
from ottla.zookeeper.assignment import Slot

REFRESH_TRIES: Final = 4
"""Number of refreshes for a partition that the metadata lack: brokers learn of a new one a moment
after its node."""


class Naming(Protocol):
    """Translates between partitions and their names in the group's nodes."""

    async def load(self, slots: Collection[Slot]) -> None:
        """Read the facts that the translation of `slots` needs; some may stay unknown."""

    def partition(self, slot: Slot) -> TopicPartition | None:
        """Return the partition; None while it is unknown to the cluster."""

    def slot(self, partition: TopicPartition) -> Slot | None:
        """Return the name of a partition; None while it is unknown."""


class KafkaNaming:
    """Names are numbers."""

    async def load(self, slots: Collection[Slot]) -> None:
        """Read nothing."""

    def partition(self, slot: Slot) -> TopicPartition | None:
        """Return the partition."""
        return TopicPartition(slot.topic, int(slot.name))

    def slot(self, partition: TopicPartition) -> Slot | None:
        """Return the name."""
        return Slot(partition.topic, str(partition.partition))


class JafkaNaming:
    """Names are `<preferred leader>-<rank>`."""

    def __init__(self, cluster: Cluster, timeout_s: float) -> None:
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._numbers: dict[Slot, TopicPartition] = {}
        self._names: dict[TopicPartition, Slot] = {}

    async def load(self, slots: Collection[Slot]) -> None:
        """Read the replicas of the topics of `slots`; refresh the metadata if they lack one.

        Raises:
            OttlaError: a topic is unknown to the cluster, or no broker can be reached.
        """
        await self._read({slot.topic for slot in slots})
        for attempt in range(1, REFRESH_TRIES + 1):
            missing = {slot.topic for slot in slots if slot not in self._numbers}
            if not missing:
                return
            if attempt > 1:
                await asyncio.sleep(self._cluster.backoff.delay_s(attempt - 1))
            await self._cluster.refresh()
            await self._read(missing)

    async def _read(self, topics: Collection[str]) -> None:
        for topic in sorted(topics):
            held = await self._cluster.topic(topic, self._timeout_s)
            replicas = {number: one.replicas for number, one in held.partitions.items()}
            for name, number in names_of(replicas).items():
                slot, partition = Slot(topic, name), TopicPartition(topic, number)
                self._numbers[slot] = partition
                self._names[partition] = slot

    def partition(self, slot: Slot) -> TopicPartition | None:
        """Return the partition with this name."""
        return self._numbers.get(slot)

    def slot(self, partition: TopicPartition) -> Slot | None:
        """Return the name of the partition."""
        return self._names.get(partition)

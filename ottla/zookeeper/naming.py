"""Names of partitions in a group's layout, and Kafka's numbers (edge).

In Jafka's layout the numbers come from the replicas in the metadata of the cluster.
"""

from typing import Protocol

from clusterstate.znodes.jafka_nodes import names_of
from kafkawire.ids import TopicPartition
from ottla.client.network.cluster import Cluster
from ottla.zookeeper.assignment import Slot


class Naming(Protocol):
    """Translates between partitions and their names in the group's nodes."""

    async def load(self, topics: frozenset[str]) -> None:
        """Read the facts about these topics that the translation needs."""

    def partition(self, slot: Slot) -> TopicPartition | None:
        """Return the partition; None while it is unknown to the cluster."""

    def slot(self, partition: TopicPartition) -> Slot | None:
        """Return the name of a partition; None while it is unknown."""


class KafkaNaming:
    """Names are numbers."""

    async def load(self, topics: frozenset[str]) -> None:
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

    async def load(self, topics: frozenset[str]) -> None:
        """Read the replicas of these topics.

        Raises:
            OttlaError: a topic is unknown to the cluster, or no broker can be reached.
        """
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

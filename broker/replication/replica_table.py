"""The replicas on this broker, and the partitions that a failed disk took offline (decision)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkawire.ids import ZERO_TOPIC_ID, TopicId, TopicPartition

if TYPE_CHECKING:
    from broker.replication.replica import Replica

# A TopicPartition or the equal plain tuple, which takes a quarter of the time to create.
Key = tuple[str, int]


class TopicNames:
    """Names of topics by their ids, while at least one of their partitions is here."""

    def __init__(self) -> None:
        self._names: dict[TopicId, str] = {}
        self._counts: dict[TopicId, int] = {}

    def __contains__(self, topic_id: TopicId) -> bool:
        return topic_id in self._names

    def get(self, topic_id: TopicId) -> str | None:
        """Return the name of a topic; None if none of its partitions is here."""
        return self._names.get(topic_id)

    def add(self, topic_id: TopicId, name: str) -> None:
        """Note one more partition of a topic."""
        self._counts[topic_id] = self._counts.get(topic_id, 0) + 1
        self._names[topic_id] = name

    def discard(self, topic_id: TopicId) -> None:
        """Note one partition fewer; remove the topic with the last one."""
        self._counts[topic_id] -= 1
        if not self._counts[topic_id]:
            del self._counts[topic_id], self._names[topic_id]


class ReplicaTable:
    """Table of replicas. Invariant: a partition is held, offline or neither."""

    def __init__(self) -> None:
        self.by_key: dict[Key, Replica] = {}
        """Anyone may read it; only the methods change it."""
        self.topic_names = TopicNames()
        """Names of the topics that a replica here belongs to. Anyone may read it, too."""
        self._offline: set[Key] = set()

    def __iter__(self) -> Iterator[Replica]:
        """Iterate over a copy; any thread may do this."""
        return iter(list(self.by_key.values()))

    def __len__(self) -> int:
        return len(self.by_key)

    def add(self, replica: Replica) -> None:
        """Serve `replica` from now on."""
        assert replica.topic_partition not in self.by_key, "a partition is held once"
        self.by_key[replica.topic_partition] = replica
        self._offline.discard(replica.topic_partition)
        self.topic_names.add(replica.topic_id, replica.topic_partition.topic)

    def assign_topic_id(self, replica: Replica, topic_id: TopicId) -> None:
        """Note the id of the topic of `replica`, which had none."""
        assert replica.topic_id == ZERO_TOPIC_ID, "a topic keeps its id"
        self.topic_names.discard(replica.topic_id)
        replica.topic_id = topic_id
        self.topic_names.add(topic_id, replica.topic_partition.topic)

    def remove(self, key: Key) -> Replica | None:
        """Stop serving a partition; return its replica, if there was one."""
        self._offline.discard(key)
        replica = self.by_key.pop(key, None)
        if replica is not None:
            self.topic_names.discard(replica.topic_id)
        return replica

    def set_offline(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop serving partitions whose log dir has failed."""
        for partition in partitions:
            self.remove(partition)
            self._offline.add(partition)

    def is_offline(self, key: Key) -> bool:
        """Whether the partition is offline because its log dir has failed."""
        return key in self._offline

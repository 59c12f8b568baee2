"""The replicas on this broker, by partition, and those that a failed disk took away (decision)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkawire.ids import TopicId, TopicPartition

if TYPE_CHECKING:
    from broker.replication.replica import Replica

# A TopicPartition, or the bare tuple equal to it, which costs a quarter to make.
Key = tuple[str, int]


class ReplicaTable:
    """Invariant: a partition is held, or offline, or neither."""

    def __init__(self) -> None:
        self.by_key: dict[Key, Replica] = {}
        """To be read by anyone, and changed by the methods only."""
        self.topic_names: dict[TopicId, str] = {}
        """Of the topics that a replica here belongs to, or did; likewise."""
        self._offline: set[Key] = set()

    def __iter__(self) -> Iterator[Replica]:
        """Any thread may do this."""
        return iter(list(self.by_key.values()))

    def __len__(self) -> int:
        return len(self.by_key)

    def add(self, replica: Replica) -> None:
        """Serve `replica` from now on."""
        assert replica.topic_partition not in self.by_key, "a partition is held once"
        self.by_key[replica.topic_partition] = replica
        self._offline.discard(replica.topic_partition)
        self.topic_names[replica.topic_id] = replica.topic_partition.topic

    def remove(self, key: Key) -> Replica | None:
        """Stop serving a partition; return what served it."""
        self._offline.discard(key)
        return self.by_key.pop(key, None)

    def set_offline(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop serving partitions whose log dir has failed."""
        for partition in partitions:
            self.by_key.pop(partition, None)
            self._offline.add(partition)

    def is_offline(self, key: Key) -> bool:
        """Whether the partition is lost with its log dir."""
        return key in self._offline

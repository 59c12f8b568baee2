"""The replicas on this broker, and the partitions that a failed disk took offline (decision)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.cluster.metadata_cache import MetadataCache
from broker.replication.partition_events import PartitionEvents
from broker.replication.replica import Replica
from broker.replication.topic_traffic import Traffic
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from kafkawire.sentinels import NO_EPOCH, NO_LEADER

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

    def __init__(self, broker_id: BrokerId, metadata: MetadataCache) -> None:
        self.by_key: dict[Key, Replica] = {}
        """Anyone may read it; only the methods change it."""
        self.topic_names = TopicNames()
        """Names of the topics that a replica here belongs to. Anyone may read it, too."""
        self.events = PartitionEvents()
        """Changes of the replicas: each part that changes one publishes here."""
        self.traffic = Traffic()
        """Counts of records, bytes and requests, for metrics."""
        self._offline: set[Key] = set()
        self._broker_id = broker_id
        self._metadata = metadata

    def __iter__(self) -> Iterator[Replica]:
        """Iterate over a copy; any thread may do this."""
        return iter(list(self.by_key.values()))

    def __len__(self) -> int:
        return len(self.by_key)

    def __contains__(self, key: Key) -> bool:
        return key in self.by_key

    def replica(self, key: Key) -> Replica:
        """Return the replica of a partition, as leader or follower.

        Raises:
            ApiError: unknown partition, no replica of it here, or a failed disk.
        """
        replica = self.by_key.get(key)
        if replica is None:
            raise self.missing(key)
        return replica

    def leader(self, key: Key, epoch: int = NO_EPOCH, topic_id: TopicId = ZERO_TOPIC_ID) -> Replica:
        """Return the replica that leads the partition in `epoch` (NO_EPOCH: in any).

        With `topic_id`, the replica must belong to that topic, not to another one of the same name.

        Raises:
            ApiError: unknown partition, another topic or epoch, or another broker leads it.
        """
        replica = self._of_epoch(key, epoch, topic_id)
        if replica.leadership is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return replica

    def leader_or_follower(
        self, key: Key, epoch: int = NO_EPOCH, topic_id: TopicId = ZERO_TOPIC_ID
    ) -> Replica:
        """Return the replica that leads the partition, or copies it from a leader; see `leader`.

        Raises:
            ApiError: as `leader`, except that another broker may lead it.
        """
        replica = self._of_epoch(key, epoch, topic_id)
        if replica.leader == NO_LEADER:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return replica

    def _of_epoch(self, key: Key, epoch: int, topic_id: TopicId) -> Replica:
        replica = self.by_key.get(key)
        if replica is None:
            raise self.missing(key)
        if (
            topic_id is not ZERO_TOPIC_ID
            and topic_id != replica.topic_id
            and replica.topic_id != ZERO_TOPIC_ID
        ):
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if epoch != NO_EPOCH:
            replica.check_leader_epoch(epoch)
        return replica

    def missing(self, key: Key) -> ApiError:
        """Return the error for a partition that has no replica here."""
        return ApiError(self.missing_code(key))

    def missing_code(self, key: Key) -> ErrorCode:
        """Return the code of `missing`."""
        if key in self._offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        state = self._metadata.image.partition(TopicPartition(*key))
        if state is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self._broker_id in state.offline_replicas:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def topic_name(self, topic_id: TopicId) -> str | None:
        """Return the name of a topic that has a replica here or is in the metadata."""
        if topic_id == ZERO_TOPIC_ID:
            return None
        name = self.topic_names.get(topic_id)
        return self._metadata.image.topic_names.get(topic_id) if name is None else name

    def add(self, replica: Replica) -> None:
        """Serve `replica` from now on."""
        assert replica.topic_partition not in self.by_key, "a partition is held once"
        self.by_key[replica.topic_partition] = replica
        self._offline.discard(replica.topic_partition)
        self.topic_names.add(replica.topic_id, replica.topic_partition.topic)
        replica.traffic = self.traffic.join(replica.topic_partition.topic)

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
            self.traffic.leave(replica.topic_partition.topic)
        return replica

    def set_offline(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop serving partitions whose log dir has failed."""
        for partition in partitions:
            self.remove(partition)
            self._offline.add(partition)

    @property
    def offline_count(self) -> int:
        """Number of partitions that are offline because their log dir has failed."""
        return len(self._offline)

    def is_offline(self, key: Key) -> bool:
        """Whether the partition is offline because its log dir has failed."""
        return key in self._offline

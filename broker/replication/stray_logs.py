"""Finds logs that do not belong on this broker: moved away or deleted while it was down (decision).

Only a log that the metadata contradicts is a stray; see ADR 0054. A partition that is missing in
the metadata is kept: its nodes may be unreadable for a while, or its deletion may have waited for
this broker and be requested next. If a topic of that name is created again, its new id makes the
old log a stray.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.cluster.metadata_cache import MetadataCache
from broker.replication.control_orders import RoleChange
from broker.replication.replica_table import ReplicaTable
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, TopicPartition
from storage.directory.logs import Logs


class StrayLogs:
    """Compares the logs on disk with each LeaderAndIsr and with the metadata."""

    def __init__(
        self, broker_id: BrokerId, *, table: ReplicaTable, logs: Logs, metadata: MetadataCache
    ) -> None:
        self._broker_id = broker_id
        self._table = table
        self._logs = logs
        self._metadata = metadata
        # Whether the next LeaderAndIsr is the first since a registration, so that it names every
        # partition.
        self._expects_all = False
        # Partitions on disk that the first LeaderAndIsr after the registration did not name.
        self._unclaimed: set[TopicPartition] = set()

    def on_registered(self) -> None:
        """Compare the logs with the next LeaderAndIsr that is not incremental."""
        self._expects_all = True

    def is_unclaimed(self, topic_partition: TopicPartition) -> bool:
        """Whether a partition on disk was missing in the LeaderAndIsr after the registration."""
        return topic_partition in self._unclaimed

    def find(
        self, changes: Mapping[TopicPartition, RoleChange], *, is_incremental: bool
    ) -> list[TopicPartition]:
        """Return the partitions to set aside before a LeaderAndIsr with `changes` is applied."""
        if self._expects_all and not is_incremental:
            self._expects_all = False
            self._unclaimed = {each.topic_partition for each in self._logs}
        self._unclaimed.difference_update(changes)
        self._unclaimed = {each for each in self._unclaimed if self._logs.get(each) is not None}
        strays = sorted(each for each in self._unclaimed if self._is_elsewhere(each))
        self._unclaimed.difference_update(strays)
        return strays + [key for key, change in changes.items() if self._is_replaced(change)]

    def _is_elsewhere(self, partition: TopicPartition) -> bool:
        """Whether the metadata name another topic id, or assign the partition to other brokers."""
        topic = self._metadata.image.topics.get(partition.topic)
        if topic is None:
            return False
        local = self._logs.get(partition)
        known_id = None if local is None else local.topic_id
        if known_id is not None and topic.topic_id not in (ZERO_TOPIC_ID, known_id):
            return True
        state = topic.partitions.get(partition.partition)
        return state is not None and self._broker_id not in state.replicas

    def _is_replaced(self, change: RoleChange) -> bool:
        """Whether the replica here is of a deleted topic, and a new topic has taken its name.

        A controller may die after it has moved a replica away and before it has had the replica
        deleted, and no other node knows of that replica. Kafka refuses the new one until the broker
        restarts. The old topic is kept as long as it is in the metadata.
        """
        replica = self._table.by_key.get(change.topic_partition)
        if replica is None or ZERO_TOPIC_ID in (replica.topic_id, change.topic_id):
            return False
        current = self._metadata.image.topics.get(change.topic_partition.topic)
        is_current = current is not None and current.topic_id == replica.topic_id
        return replica.topic_id != change.topic_id and not is_current

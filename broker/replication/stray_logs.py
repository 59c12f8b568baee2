"""Finds logs that do not belong on this broker (decision).

Their partitions were moved away or deleted while this broker was down, or the controller died
before its request to delete them arrived. Only a log that the metadata contradicts is a stray; see
ADR 0054. A partition that is missing in the metadata is kept: its nodes may be unreadable for a
while, or its deletion may have waited for this broker and be requested next. If a topic of that
name is created again, its new id makes the old log a stray.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.cluster.metadata_cache import MetadataCache
from broker.replication.control_orders import RoleChange
from broker.replication.replica_table import ReplicaTable
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, TopicPartition
from kafkawire.sentinels import NO_EPOCH
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
        # Epoch of the controller that has named all partitions of this registration. The first
        # LeaderAndIsr of a controller does so, unless it is incremental.
        self._listed_by: int = NO_EPOCH
        # Partitions on disk that this LeaderAndIsr did not name.
        self._unclaimed: set[TopicPartition] = set()

    def on_registered(self) -> None:
        """Compare the logs with the next LeaderAndIsr that is not incremental."""
        self._listed_by = NO_EPOCH

    @property
    def has_unclaimed(self) -> bool:
        """Whether `find_contradicted` may find a partition once the metadata change."""
        return bool(self._unclaimed)

    def is_unclaimed(self, topic_partition: TopicPartition) -> bool:
        """Whether a partition on disk was missing in the last complete LeaderAndIsr."""
        return topic_partition in self._unclaimed

    def find(
        self,
        changes: Mapping[TopicPartition, RoleChange],
        controller_epoch: int,
        *,
        is_incremental: bool,
    ) -> list[TopicPartition]:
        """Return the partitions to set aside before a LeaderAndIsr with `changes` is applied."""
        if controller_epoch > self._listed_by and not is_incremental:
            self._listed_by = controller_epoch
            self._unclaimed = {each.topic_partition for each in self._logs}
        self._unclaimed.difference_update(changes)
        replaced = [key for key, change in changes.items() if self._is_replaced(change)]
        return self.find_contradicted() + replaced

    def find_contradicted(self) -> list[TopicPartition]:
        """Return the unclaimed partitions that are elsewhere according to the metadata."""
        self._unclaimed = {each for each in self._unclaimed if self._logs.get(each) is not None}
        strays = sorted(each for each in self._unclaimed if self._is_elsewhere(each))
        self._unclaimed.difference_update(strays)
        return strays

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

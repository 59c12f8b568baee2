"""Offsets of the ends of logs, and offsets by time (composition).

The leader of each partition responds. With isolation level "read_committed" the end of a log is
its last stable offset.
"""

from collections.abc import Iterable, Mapping

from kafkawire.ids import Offset, TopicPartition
from kafkawire.sentinels import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from ottla.client.argument import require_by_partition, require_partitions
from ottla.client.client_config import IsolationLevel
from ottla.client.network.cluster import Cluster
from ottla.client.network.offset_lookup import list_offsets
from ottla.client.offset import OffsetAndTimestamp, require_timestamp


class LogOffsets:
    """Offsets of logs at the isolation level of one consumer.

    Every method raises OttlaError if a partition does not exist or its leader does not respond.
    """

    def __init__(self, cluster: Cluster, isolation_level: IsolationLevel, timeout_s: float) -> None:
        is_committed = isolation_level == "read_committed"
        self._cluster = cluster
        self._isolation_level = READ_COMMITTED if is_committed else READ_UNCOMMITTED
        self._timeout_s = timeout_s

    async def beginning(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Return the log start offset of each partition."""
        return await self.at(EARLIEST_TIMESTAMP, partitions)

    async def end(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Return the end offset (exclusive) of the readable records of each partition."""
        return await self.at(LATEST_TIMESTAMP, partitions)

    async def for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a timestamp per partition; None without one.

        Raises:
            ValueError: a timestamp is negative, or no whole number of 64 bits.
        """
        wanted = require_by_partition("timestamps_ms", timestamps_ms)
        for partition, timestamp in wanted.items():
            require_timestamp(partition, timestamp)
        found = await self._list(wanted)
        return {each: place if place.offset >= 0 else None for each, place in found.items()}

    async def at(
        self, timestamp: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """Return the offsets for EARLIEST_TIMESTAMP or LATEST_TIMESTAMP."""
        found = await self._list(
            dict.fromkeys(require_partitions("partitions", partitions), timestamp)
        )
        return {each: place.offset for each, place in found.items()}

    async def _list(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await list_offsets(
            self._cluster,
            wanted,
            isolation_level=self._isolation_level,
            timeout_s=self._timeout_s,
        )

"""Where logs begin and end, and where a time is in them. Composition: words the questions.

Asked of each partition's leader; a consumer of committed records is told what it may read up to.
"""

from collections.abc import Iterable, Mapping

from kafkawire.ids import Offset, TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.config import IsolationLevel
from ottla.client.offset_lookup import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    OffsetAndTimestamp,
    list_offsets,
)
from ottla.client.partition_state import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP


class LogOffsets:
    """Offsets of logs as one consumer sees them.

    All of its questions raise OttlaError when a partition does not exist or cannot be asked.
    """

    def __init__(self, cluster: Cluster, isolation_level: IsolationLevel, timeout_s: float) -> None:
        is_committed = isolation_level == "read_committed"
        self._cluster = cluster
        self._isolation_level = READ_COMMITTED if is_committed else READ_UNCOMMITTED
        self._timeout_s = timeout_s

    async def beginning(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Return the first offset in each log."""
        return await self.at(EARLIEST_TIMESTAMP, partitions)

    async def end(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Return the offset behind the last record that may be read (exclusive), for each log."""
        return await self.at(LATEST_TIMESTAMP, partitions)

    async def for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record that is as late as its timestamp; None where there is none.

        Raises:
            ValueError: a timestamp is negative.
        """
        if any(timestamp < 0 for timestamp in timestamps_ms.values()):
            raise ValueError("a timestamp is 0 or more; use beginning_offsets or end_offsets")
        found = await self._list(timestamps_ms)
        return {each: place if place.offset >= 0 else None for each, place in found.items()}

    async def at(
        self, timestamp: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        """Return the offset at one of the timestamps that mean an end of a log."""
        found = await self._list(dict.fromkeys(partitions, timestamp))
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

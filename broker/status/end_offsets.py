"""The high watermarks of partitions, asked from their leaders (edge)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peer import PeerError
from broker.cluster.peers import Peers
from broker.replication.replica_table import ReplicaTable
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, Offset, TopicPartition
from kafkawire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkawire.sentinels import LATEST_TIMESTAMP

TIMEOUT_MS: Final = 1000
"""For one leader, so that a leader that hangs costs its lags but not the whole page."""
PARTITIONS_PER_REQUEST: Final = 250
CONSUMER_ID: Final = -1

log = structlog.get_logger(__name__)


class EndOffsets:
    """Reads the high watermarks for consumer lags."""

    def __init__(
        self, broker_id: BrokerId, table: ReplicaTable, metadata: MetadataCache, peers: Peers
    ) -> None:
        self._broker_id = broker_id
        self._table = table
        self._metadata = metadata
        self._peers = peers

    async def read(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Return the high watermarks; partitions without a leader that answers are left out."""
        ends: dict[TopicPartition, Offset] = {}
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        for position, partition in enumerate(partitions):
            replica = self._table.by_key.get(partition)
            if replica is not None and replica.leadership is not None:
                ends[partition] = replica.high_watermark
            elif (state := self._metadata.image.partition(partition)) is not None:
                by_leader.setdefault(state.leader_and_isr.leader, []).append(partition)
            if position % PARTITIONS_PER_REQUEST == PARTITIONS_PER_REQUEST - 1:
                await asyncio.sleep(0)
        await asyncio.gather(
            *(
                self._ask_all(leader, wanted, ends)
                for leader, wanted in by_leader.items()
                if leader != self._broker_id and self._peers.is_alive(leader)
            )
        )
        return ends

    async def _ask_all(
        self,
        leader: BrokerId,
        partitions: Sequence[TopicPartition],
        ends: dict[TopicPartition, Offset],
    ) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                for start in range(0, len(partitions), PARTITIONS_PER_REQUEST):
                    some = partitions[start : start + PARTITIONS_PER_REQUEST]
                    ends |= await self._ask(leader, some)
        except (PeerError, TimeoutError) as error:
            log.info("lag.not_read", leader=leader, error=str(error) or "no response in time")

    async def _ask(
        self, leader: BrokerId, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, Offset]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for topic, partition in partitions:
            wanted = ListOffsetsPartition(partition_index=partition, timestamp=LATEST_TIMESTAMP)
            topics.setdefault(topic, []).append(wanted)
        request = ListOffsetsRequest(
            replica_id=CONSUMER_ID,
            topics=[ListOffsetsTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        peer = await self._peers.peer(leader)
        response = await peer.ask(request, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, data.partition_index): Offset(data.offset)
            for topic in response.topics
            for data in topic.partitions
            if data.error_code == ErrorCode.NONE and data.offset >= 0
        }

"""Checks that a new leader's log contains the records that were read (edge).

Source: KIP-320.

After an unclean election records that a consumer has read may be gone, and the new leader may have
other records at their offsets. The leader returns the end offset of the last record's epoch; an end
below the position reveals the truncation.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, Offset, TopicPartition
from kafkawire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkawire.sentinels import CONSUMER_REPLICA_ID
from ottla.client.consumer.partition_state import PartitionState
from ottla.client.errors import LogTruncatedError, OttlaError, broker_error
from ottla.client.network.cluster import Cluster
from ottla.client.request_parts import parts

UNKNOWN_OFFSET: Final = -1

EpochEnds = dict[TopicPartition, Offset | OttlaError]
"""End offset of the epoch of each position, -1 if the leader does not know that epoch."""


async def ask_epoch_ends(
    cluster: Cluster, by_leader: Mapping[BrokerId, Iterable[PartitionState]]
) -> EpochEnds:
    """Ask each leader, all at once; return an end offset or an error for every partition."""
    ends: EpochEnds = {}
    requests = [(leader, part) for leader, states in by_leader.items() for part in parts(states)]
    for part in await asyncio.gather(*(_ask(cluster, leader, part) for leader, part in requests)):
        ends.update(part)
    return ends


def truncation(state: PartitionState, end_offset: Offset) -> LogTruncatedError | None:
    """Return the error if the log was truncated below the position of `state`, else None."""
    assert state.fetch_offset is not None
    if end_offset == UNKNOWN_OFFSET:
        return LogTruncatedError(state.topic_partition, state.fetch_offset, None)
    if end_offset < state.fetch_offset:
        return LogTruncatedError(state.topic_partition, state.fetch_offset, end_offset)
    return None


async def _ask(cluster: Cluster, leader: BrokerId, states: list[PartitionState]) -> EpochEnds:
    try:
        response = await cluster.request(
            leader, _request(cluster, states), OffsetForLeaderEpochResponse
        )
    except OttlaError as error:
        return dict.fromkeys((state.topic_partition for state in states), error)
    ends: EpochEnds = {}
    asked = {state.topic_partition for state in states}
    for topic in response.topics:
        for result in topic.partitions:
            key = TopicPartition(topic.topic, result.partition)
            if key not in asked:
                continue
            if result.error_code == ErrorCode.NONE:
                ends[key] = Offset(result.end_offset)
            else:
                ends[key] = broker_error(result.error_code, str(key))
    for state in states:
        missing = broker_error(ErrorCode.LEADER_NOT_AVAILABLE, str(state.topic_partition))
        ends.setdefault(state.topic_partition, missing)
    return ends


def _request(cluster: Cluster, states: Iterable[PartitionState]) -> OffsetForLeaderEpochRequest:
    by_topic: dict[str, list[OffsetForLeaderPartition]] = {}
    for state in states:
        partition = OffsetForLeaderPartition(
            partition=state.topic_partition.partition,
            # The metadata may have lost the topic since the check was planned.
            current_leader_epoch=cluster.metadata.leader_epoch(state.topic_partition),
            leader_epoch=state.fetch_epoch,
        )
        by_topic.setdefault(state.topic_partition.topic, []).append(partition)
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=[
            OffsetForLeaderTopic(topic=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )

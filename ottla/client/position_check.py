"""Whether a new leader's log still holds what was read of the old one. Edge: asks brokers.

Source: KIP-320.

After an unclean election records that a consumer has read may be gone, and others may stand in
their place. The leader tells where the epoch of the last record ends in its log: an end below the
position shows the cut.
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
from ottla.client.cluster import Cluster
from ottla.client.errors import LogTruncatedError, OttlaError, broker_error
from ottla.client.partition_state import PartitionState

CONSUMER_REPLICA_ID: Final = -1
UNKNOWN_OFFSET: Final = -1

EpochEnds = dict[TopicPartition, Offset | OttlaError]
"""Where the epoch of each position ends; -1 where the leader does not know that epoch."""


async def ask_epoch_ends(
    cluster: Cluster, by_leader: Mapping[BrokerId, Iterable[PartitionState]]
) -> EpochEnds:
    """Ask each leader once; every partition gets an answer or the error that it met."""
    ends: EpochEnds = {}
    asked = [(leader, list(states)) for leader, states in by_leader.items()]
    for part in await asyncio.gather(*(_ask(cluster, leader, part) for leader, part in asked)):
        ends.update(part)
    return ends


def truncation(state: PartitionState, end_offset: Offset) -> LogTruncatedError | None:
    """Return what is wrong with the position of `state`, None if the log holds all before it."""
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
    for topic in response.topics:
        for answer in topic.partitions:
            asked = TopicPartition(topic.topic, answer.partition)
            if answer.error_code == ErrorCode.NONE:
                ends[asked] = Offset(answer.end_offset)
            else:
                ends[asked] = broker_error(answer.error_code, str(asked))
    for state in states:
        missing = broker_error(ErrorCode.LEADER_NOT_AVAILABLE, str(state.topic_partition))
        ends.setdefault(state.topic_partition, missing)
    return ends


def _request(cluster: Cluster, states: Iterable[PartitionState]) -> OffsetForLeaderEpochRequest:
    by_topic: dict[str, list[OffsetForLeaderPartition]] = {}
    for state in states:
        held = cluster.metadata.partition(state.topic_partition)
        assert held is not None
        asked = OffsetForLeaderPartition(
            partition=state.topic_partition.partition,
            current_leader_epoch=held.leader_epoch,
            leader_epoch=state.fetch_epoch,
        )
        by_topic.setdefault(state.topic_partition.topic, []).append(asked)
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=[
            OffsetForLeaderTopic(topic=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ],
    )

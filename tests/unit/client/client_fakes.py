"""Builders for the client's unit tests: metadata, batches and states in memory."""

from collections.abc import Sequence

from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.records import BatchBuilder
from ottla.client.client_config import Address
from ottla.client.cluster_metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from ottla.client.consumer.partition_state import PartitionState

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def topic(
    *leaders: int, name: str = "t", epoch: int = 0, topic_id: TopicId = ZERO_TOPIC_ID
) -> TopicMetadata:
    """A topic with one partition per given leader."""
    return TopicMetadata(
        name=name,
        topic_id=topic_id,
        error=ErrorCode.NONE,
        partitions={
            index: PartitionMetadata(
                partition=index, leader=BrokerId(leader), leader_epoch=LeaderEpoch(epoch)
            )
            for index, leader in enumerate(leaders)
        },
    )


def metadata(*topics: TopicMetadata, brokers: Sequence[int] = (0, 1, 2)) -> ClusterMetadata:
    """A cluster of these topics."""
    return ClusterMetadata(
        brokers={BrokerId(each): Address("h", 1 + each) for each in brokers},
        topics={each.name: each for each in topics},
    )


def batch_of(*values: bytes, base_offset: int = 0, timestamp_ms: int = 1_000) -> bytes:
    """One encoded batch."""
    builder = BatchBuilder()
    for value in values:
        builder.append(timestamp_ms, None, value)
    return bytes(builder.build(base_offset))


def state_at(offset: int, topic_partition: TopicPartition = T0) -> PartitionState:
    """A partition whose position is `offset`."""
    state = PartitionState(topic_partition)
    state.jump(Offset(offset))
    return state

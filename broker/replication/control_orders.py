"""Decodes LeaderAndIsr and StopReplica of any version into one form (decision)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.errors import ErrorCode
from kafkawire.ids import (
    ZERO_TOPIC_ID,
    BrokerId,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    validate_topic_name,
)
from kafkawire.messages.leader_and_isr import (
    TOPIC_IDS_SINCE,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from kafkawire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kafkawire.sentinels import NO_EPOCH

Codes = Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleChange:
    """Lead or follow a partition; `replicas` are all replicas, in sync or not."""

    topic_partition: TopicPartition
    topic_id: TopicId
    state: LeaderAndIsr
    replicas: frozenset[BrokerId]
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStop:
    """Give up the role in a partition, and with `deletes` also its log."""

    topic_partition: TopicPartition
    leader_epoch: int
    deletes: bool


def is_legal(partition: TopicPartition) -> bool:
    """Whether a partition's name is valid as a directory in a log dir."""
    return validate_topic_name(partition.topic) is None and partition.partition >= 0


def role_changes(request: LeaderAndIsrRequest) -> Iterator[RoleChange]:
    """Yield the role changes in a LeaderAndIsr, one per partition."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield _role_change(topic.topic_name, topic.topic_id, state)
    for state in request.ungrouped_partition_states:
        yield _role_change(state.topic_name, ZERO_TOPIC_ID, state)


def _role_change(topic: str, topic_id: TopicId, state: LeaderAndIsrPartitionState) -> RoleChange:
    return RoleChange(
        topic_partition=TopicPartition(topic, state.partition_index),
        topic_id=topic_id,
        # Without the recovery state, which matters to the controller only.
        state=LeaderAndIsr(
            leader=BrokerId(state.leader),
            # Calls of BrokerId for each number would take most of the time.
            isr=cast("tuple[BrokerId, ...]", tuple(state.isr)),
            controller_epoch=state.controller_epoch,
            leader_epoch=LeaderEpoch(state.leader_epoch),
            partition_epoch=state.partition_epoch,
        ),
        replicas=cast("frozenset[BrokerId]", frozenset(state.replicas)),
        is_new=state.is_new,
    )


def roles_response(
    request: LeaderAndIsrRequest, codes: Codes, version: int
) -> LeaderAndIsrResponse:
    """Return the response with `codes`; older versions name topics, newer ones their ids."""
    if version >= TOPIC_IDS_SINCE:
        topics = [
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    LeaderAndIsrPartitionError(
                        partition_index=state.partition_index,
                        error_code=codes[TopicPartition(topic.topic_name, state.partition_index)],
                    )
                    for state in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ]
        return LeaderAndIsrResponse(topics=topics)
    errors = [
        LeaderAndIsrPartitionError(
            topic_name=partition.topic, partition_index=partition.partition, error_code=code
        )
        for partition, code in codes.items()
    ]
    return LeaderAndIsrResponse(partition_errors=errors)


def replica_stops(request: StopReplicaRequest) -> Iterator[ReplicaStop]:
    """Yield the stops in a StopReplica, one per partition."""
    for topic_state in request.topic_states:
        for state in topic_state.partition_states:
            yield ReplicaStop(
                topic_partition=TopicPartition(topic_state.topic_name, state.partition_index),
                leader_epoch=state.leader_epoch,
                deletes=state.delete_partition,
            )
    older = [
        TopicPartition(topic.name, index)
        for topic in request.topics
        for index in topic.partition_indexes
    ]
    older += [
        TopicPartition(each.topic_name, each.partition_index)
        for each in request.ungrouped_partitions
    ]
    for partition in older:
        yield ReplicaStop(
            topic_partition=partition,
            leader_epoch=NO_EPOCH,
            deletes=request.delete_partitions,
        )


def stop_response(codes: Codes) -> StopReplicaResponse:
    """Return the response with `codes`."""
    errors = [
        StopReplicaPartitionError(
            topic_name=partition.topic, partition_index=partition.partition, error_code=code
        )
        for partition, code in codes.items()
    ]
    return StopReplicaResponse(partition_errors=errors)

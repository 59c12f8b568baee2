"""Declares StopReplica, with which the controller removes replicas from a broker (decision)."""

from collections.abc import Sequence

from kafkawire.schema import BOOL, INT16, INT32, INT64, STRING, array, field, message, struct


@struct
class StopReplicaPartitionV0:
    topic_name: str = field(STRING)
    partition_index: int = field(INT32)


@struct
class StopReplicaTopicV1:
    name: str = field(STRING)
    partition_indexes: Sequence[int] = field(array(INT32))


@struct
class StopReplicaPartitionState:
    partition_index: int = field(INT32)
    leader_epoch: int = field(INT32, default=-1)
    delete_partition: bool = field(BOOL)


@struct
class StopReplicaTopicState:
    topic_name: str = field(STRING)
    partition_states: Sequence[StopReplicaPartitionState] = field(array(StopReplicaPartitionState))


@message(versions=(0, 4), flexible=2)
class StopReplicaRequest:
    """Request to stop replicas, and optionally to delete them."""

    controller_id: int = field(INT32)
    is_kraft_controller: bool = field(BOOL, since=4)
    controller_epoch: int = field(INT32)
    broker_epoch: int = field(INT64, since=1, default=-1, ignorable=True)
    delete_partitions: bool = field(BOOL, until=2)
    ungrouped_partitions: Sequence[StopReplicaPartitionV0] = field(
        array(StopReplicaPartitionV0), until=0
    )
    topics: Sequence[StopReplicaTopicV1] = field(array(StopReplicaTopicV1), since=1, until=2)
    topic_states: Sequence[StopReplicaTopicState] = field(array(StopReplicaTopicState), since=3)


@struct
class StopReplicaPartitionError:
    topic_name: str = field(STRING)
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


@message(versions=(0, 4), flexible=2)
class StopReplicaResponse:
    """The result for each replica."""

    error_code: int = field(INT16)
    partition_errors: Sequence[StopReplicaPartitionError] = field(array(StopReplicaPartitionError))

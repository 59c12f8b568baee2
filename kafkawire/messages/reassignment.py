"""Declares ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments (decision)."""

from collections.abc import Sequence

from kafkawire.schema import INT8, INT16, INT32, STRING, array, field, message, struct


@struct
class TopicPartitions:
    topic: str = field(STRING)
    partitions: Sequence[int] = field(array(INT32))


@message(versions=(0, 2), flexible=2)
class ElectLeadersRequest:
    """Request to elect leaders: `election_type` 0 is preferred, 1 unclean if there is no leader."""

    election_type: int = field(INT8, since=1)
    topic_partitions: Sequence[TopicPartitions] | None = field(array(TopicPartitions), nullable=0)
    timeout_ms: int = field(INT32, default=60000)


@struct
class PartitionResult:
    partition_id: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)


@struct
class ReplicaElectionResult:
    topic: str = field(STRING)
    partition_result: Sequence[PartitionResult] = field(array(PartitionResult))


@message(versions=(0, 2), flexible=2)
class ElectLeadersResponse:
    """The result for each partition."""

    throttle_time_ms: int = field(INT32)
    # Kafka's schema does not ignore it, but its broker sets it only where the version has it.
    error_code: int = field(INT16, since=1, ignorable=True)
    replica_election_results: Sequence[ReplicaElectionResult] = field(array(ReplicaElectionResult))


@struct
class ReassignablePartition:
    partition_index: int = field(INT32)
    replicas: Sequence[int] | None = field(array(INT32), nullable=0, default=None)


@struct
class ReassignableTopic:
    name: str = field(STRING)
    partitions: Sequence[ReassignablePartition] = field(array(ReassignablePartition))


@message(versions=(0, 0), flexible=0)
class AlterPartitionReassignmentsRequest:
    """Request to move partitions to other replicas; None cancels a move."""

    timeout_ms: int = field(INT32, default=60000)
    topics: Sequence[ReassignableTopic] = field(array(ReassignableTopic))


@struct
class ReassignablePartitionResponse:
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)


@struct
class ReassignableTopicResponse:
    name: str = field(STRING)
    partitions: Sequence[ReassignablePartitionResponse] = field(
        array(ReassignablePartitionResponse)
    )


@message(versions=(0, 0), flexible=0)
class AlterPartitionReassignmentsResponse:
    """The result for each partition."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    responses: Sequence[ReassignableTopicResponse] = field(array(ReassignableTopicResponse))


@struct
class ListPartitionReassignmentsTopics:
    name: str = field(STRING)
    partition_indexes: Sequence[int] = field(array(INT32))


@message(versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest:
    """Request for the pending moves of partitions; `topics` None requests all."""

    timeout_ms: int = field(INT32, default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = field(
        array(ListPartitionReassignmentsTopics), nullable=0, default=None
    )


@struct
class OngoingPartitionReassignment:
    partition_index: int = field(INT32)
    replicas: Sequence[int] = field(array(INT32))
    adding_replicas: Sequence[int] = field(array(INT32))
    removing_replicas: Sequence[int] = field(array(INT32))


@struct
class OngoingTopicReassignment:
    name: str = field(STRING)
    partitions: Sequence[OngoingPartitionReassignment] = field(array(OngoingPartitionReassignment))


@message(versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse:
    """The pending moves."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    topics: Sequence[OngoingTopicReassignment] = field(array(OngoingTopicReassignment))

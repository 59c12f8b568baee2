"""The fake cluster's elections and moves of replicas. Pure except for the logs that they change."""

from collections import defaultdict
from dataclasses import dataclass

from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from tests.integration.client.fake_log import FakeLogs


@dataclass
class ReplicaResponder:
    """Every partition prefers the broker with its number; moves start and never end."""

    broker_id: int
    controller_id: int
    logs: FakeLogs

    def _control_error(self) -> ErrorCode:
        is_controller = self.broker_id == self.controller_id
        return ErrorCode.NONE if is_controller else ErrorCode.NOT_CONTROLLER

    def elect_leaders(self, message: ElectLeadersRequest) -> ElectLeadersResponse:
        if error := self._control_error():
            return ElectLeadersResponse(error_code=error)
        wanted = [
            TopicPartition(topic.topic, number)
            for topic in message.topic_partitions or ()
            for number in topic.partitions
        ]
        if message.topic_partitions is None:
            wanted = [
                TopicPartition(name, number)
                for name, topic in self.logs.topics.items()
                for number in range(len(topic.partitions))
            ]
        results: dict[str, list[PartitionResult]] = defaultdict(list)
        for where in wanted:
            result = PartitionResult(partition_id=where.partition, error_code=self._elect(where))
            results[where.topic].append(result)
        return ElectLeadersResponse(
            replica_election_results=[
                ReplicaElectionResult(topic=topic, partition_result=partitions)
                for topic, partitions in results.items()
            ]
        )

    def _elect(self, where: TopicPartition) -> ErrorCode:
        topic = self.logs.topics.get(where.topic)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = topic.partitions[where.partition]
        if partition.leader == where.partition:
            return ErrorCode.ELECTION_NOT_NEEDED
        partition.move_to(where.partition)
        return ErrorCode.NONE

    def alter_reassignments(
        self, message: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        if error := self._control_error():
            return AlterPartitionReassignmentsResponse(error_code=error)
        responses = []
        for topic in message.topics:
            results = [
                ReassignablePartitionResponse(
                    partition_index=each.partition_index,
                    error_code=self._move(
                        TopicPartition(topic.name, each.partition_index), each.replicas
                    ),
                )
                for each in topic.partitions
            ]
            responses.append(ReassignableTopicResponse(name=topic.name, partitions=results))
        return AlterPartitionReassignmentsResponse(responses=responses)

    def _move(self, where: TopicPartition, replicas: object) -> ErrorCode:
        if where.topic not in self.logs.topics:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if replicas is None:
            is_moving = self.logs.moves.pop(where, None)
            return ErrorCode.NONE if is_moving else ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert isinstance(replicas, list | tuple)
        self.logs.moves[where] = tuple(replicas)
        return ErrorCode.NONE

    def list_reassignments(
        self, message: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        if error := self._control_error():
            return ListPartitionReassignmentsResponse(error_code=error)
        wanted = None
        if message.topics is not None:
            wanted = {
                TopicPartition(topic.name, number)
                for topic in message.topics
                for number in topic.partition_indexes
            }
        moving: dict[str, list[OngoingPartitionReassignment]] = defaultdict(list)
        for where, replicas in self.logs.moves.items():
            if wanted is None or where in wanted:
                held = self.logs.topics[where.topic].partitions[where.partition]
                moving[where.topic].append(
                    OngoingPartitionReassignment(
                        partition_index=where.partition,
                        replicas=[held.leader, *replicas],
                        adding_replicas=list(replicas),
                        removing_replicas=[held.leader],
                    )
                )
        return ListPartitionReassignmentsResponse(
            topics=[
                OngoingTopicReassignment(name=name, partitions=partitions)
                for name, partitions in moving.items()
            ]
        )

"""AlterPartitionReassignments and ListPartitionReassignments, by the controller only (edge)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from broker.cluster.controller_role import ControllerRole
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from clusterstate.replica_assignment import ReplicaAssignment
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

APIS: Final[Apis] = {
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda parts: (
        ReassignmentsHandler(parts.tasks, parts.controller).handle_alter
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda parts: (
        ReassignmentsHandler(parts.tasks, parts.controller).handle_list
    ),
}


class ReassignmentsHandler:
    """Hands the requests to the controller component."""

    def __init__(self, tasks: RequestTasks, controller: ControllerRole) -> None:
        self._tasks = tasks
        self._controller = controller

    def handle_alter(self, request: Request, message: AlterPartitionReassignmentsRequest) -> Reply:
        """Respond for every partition once its reassignment has started or was cancelled."""
        del request
        return self._tasks.run(partial(self._alter, message))

    def handle_list(self, request: Request, message: ListPartitionReassignmentsRequest) -> Reply:
        """Respond with the ongoing reassignments."""
        del request
        return self._tasks.run(partial(self._list, message))

    async def _alter(
        self, message: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        targets = {
            TopicPartition(topic.name, one.partition_index): _brokers(one.replicas)
            for topic in message.topics
            for one in topic.partitions
        }
        result = await self._controller.reassign(targets)
        if isinstance(result, ErrorCode):
            return AlterPartitionReassignmentsResponse(
                error_code=result, error_message=result.text, responses=[]
            )
        return AlterPartitionReassignmentsResponse(
            error_message=None,
            responses=[
                ReassignableTopicResponse(
                    name=topic, partitions=[_altered(each, result[each]) for each in partitions]
                )
                for topic, partitions in groupby(sorted(result), key=lambda each: each.topic)
            ],
        )

    async def _list(
        self, message: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        asked = None
        if message.topics is not None:
            asked = [
                TopicPartition(topic.name, index)
                for topic in message.topics
                for index in topic.partition_indexes
            ]
        result = await self._controller.reassignments(asked)
        if isinstance(result, ErrorCode):
            return ListPartitionReassignmentsResponse(
                error_code=result, error_message=result.text, topics=[]
            )
        return ListPartitionReassignmentsResponse(error_message=None, topics=_ongoing(result))


def _brokers(replicas: Sequence[int] | None) -> tuple[BrokerId, ...] | None:
    return None if replicas is None else tuple(BrokerId(replica) for replica in replicas)


def _altered(
    partition: TopicPartition, answer: tuple[ErrorCode, str]
) -> ReassignablePartitionResponse:
    code, text = answer
    return ReassignablePartitionResponse(
        partition_index=partition.partition,
        error_code=code,
        error_message=None if code is ErrorCode.NONE else text or code.text,
    )


def _ongoing(
    moves: Mapping[TopicPartition, ReplicaAssignment],
) -> list[OngoingTopicReassignment]:
    return [
        OngoingTopicReassignment(
            name=topic,
            partitions=[
                OngoingPartitionReassignment(
                    partition_index=each.partition,
                    replicas=moves[each].replicas,
                    adding_replicas=moves[each].adding,
                    removing_replicas=moves[each].removing,
                )
                for each in partitions
            ],
        )
        for topic, partitions in groupby(sorted(moves), key=lambda each: each.topic)
    ]

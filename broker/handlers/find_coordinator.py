"""FindCoordinator: the broker that coordinates a group or a transactional id (edge)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from broker.cluster.metadata_watch import MetadataWatch
from broker.handlers.handler_table import Apis
from broker.internal_log.topic_creation import TopicCreation
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from kafkawire.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafkawire.messages.find_coordinator import (
    KEYS_SINCE,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

NO_NODE: Final = -1

APIS: Final[Apis] = {
    ApiKey.FIND_COORDINATOR: lambda parts: (
        FindCoordinatorHandler(
            parts.tasks,
            parts.watch,
            TopicCreation(parts.topics, parts.watch, parts.config),
            {
                KeyType.GROUP: Place(
                    OFFSETS_TOPIC,
                    "this group",
                    parts.groups.registry.leaderships.partition_of,
                ),
                KeyType.TRANSACTION: Place(
                    TRANSACTIONS_TOPIC,
                    "this transactional id",
                    parts.transactions.registry.leaderships.partition_of,
                ),
            },
        ).handle
    ),
}


class KeyType(IntEnum):
    """Kafka's numbers for kinds of keys."""

    GROUP = 0
    TRANSACTION = 1


class Place(NamedTuple):
    """The topic that holds the keys of one type."""

    topic: str
    subject: str
    """The kind of a key, for errors."""
    partition_of: Callable[[str], int]


class FindCoordinatorHandler:
    """Finds the leader of the partition that a group or transactional id belongs to."""

    def __init__(
        self,
        tasks: RequestTasks,
        watch: MetadataWatch,
        topics: TopicCreation,
        places: Mapping[int, Place],
    ) -> None:
        """Look a key up in the place of its type."""
        self._tasks = tasks
        self._watch = watch
        self._topics = topics
        self._places = places

    def handle(self, request: Request, message: FindCoordinatorRequest) -> Reply:
        """Respond at once, unless the topic must be created first."""
        place = self._places.get(message.key_type)
        if place is not None and not self._topics.has(place.topic):
            return self._tasks.run(partial(self._create_and_answer, request, message, place))
        return Reply(self._answer(request, message))

    async def _create_and_answer(
        self, request: Request, message: FindCoordinatorRequest, place: Place
    ) -> FindCoordinatorResponse:
        await self._topics.create(place.topic)
        return self._answer(request, message)

    def _answer(self, request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
        has_keys = request.header.api_version >= KEYS_SINCE
        keys = message.coordinator_keys if has_keys else [message.key]
        found = [self._find(request, message.key_type, key) for key in keys]
        if has_keys:
            return FindCoordinatorResponse(coordinators=found)
        return FindCoordinatorResponse(
            error_code=found[0].error_code,
            # As in Kafka; kafkajs compares it.
            error_message=found[0].error_message or ErrorCode.NONE.name,
            node_id=found[0].node_id,
            host=found[0].host,
            port=found[0].port,
        )

    def _find(self, request: Request, key_type: int, key: str) -> Coordinator:
        place = self._places.get(key_type)
        if place is None:
            text = f"the key type must be 0 (group) or 1 (transaction), got {key_type}"
            return _none(key, ErrorCode.INVALID_REQUEST, text)
        partition = TopicPartition(place.topic, place.partition_of(key))
        return self._leader(request, partition, key, place.subject)

    def _leader(
        self, request: Request, partition: TopicPartition, key: str, subject: str
    ) -> Coordinator:
        image = self._watch.image
        state = image.partition(partition)
        endpoint = (
            None
            if state is None
            else image.endpoint(state.leader_and_isr.leader, request.listener_name)
        )
        if state is None or endpoint is None:
            text = f"{partition.topic} has no leader for {subject} at the moment"
            return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
        return Coordinator(
            key=key,
            node_id=state.leader_and_isr.leader,
            host=endpoint.host,
            port=endpoint.port,
            error_message="",
        )


def _none(key: str, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=NO_NODE, port=NO_NODE, error_code=code, error_message=text)

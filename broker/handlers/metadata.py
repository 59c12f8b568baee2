"""Metadata: brokers, topics and partition leaders (edge).

A topic created by a request has no leader yet: the response says so, and the client retries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from broker.cluster.cluster_topics import ClusterTopics
from broker.cluster.metadata_cache import (
    ClusterImage,
    MetadataCache,
    PartitionState,
    TopicState,
)
from broker.cluster.topic_plan import TopicSpec
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.acl import OPERATION_BITS, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, validate_topic_name
from kafkawire.internal_topic import INTERNAL_TOPICS
from kafkawire.messages.metadata import (
    LISTENER_NOT_FOUND_SINCE,
    NULL_FOR_ALL_SINCE,
    TOPIC_IDS_SINCE,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.sentinels import NO_LEADER, OPERATIONS_NOT_ASKED_FOR

CREATION_WAIT_S: Final = 0.5
"""Longest wait of a request for the creation of its missing topics. Clients repeat the request."""
# Another request has just created the topic, or this one may have.
_CREATED: Final = (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT)

APIS: Final[Apis] = {
    ApiKey.METADATA: lambda parts: (
        MetadataHandler(
            parts.tasks,
            parts.metadata,
            parts.topics,
            parts.identity.cluster_id,
            may_create=parts.config.server.auto_create_topics_enable,
        ).handle
    ),
}


class MetadataHandler:
    """Responds from the metadata cache; a request for an unknown topic may create it."""

    def __init__(
        self,
        tasks: RequestTasks,
        metadata: MetadataCache,
        topics: ClusterTopics,
        cluster_id: str,
        *,
        may_create: bool,
    ) -> None:
        self._tasks = tasks
        self._metadata = metadata
        self._topics = topics
        self._cluster_id = cluster_id
        self._may_create = may_create
        # Running creations, by topic.
        self._creations: dict[str, asyncio.Future[ErrorCode]] = {}
        # Responses by topic for one image: clients that wait for a leader repeat their requests.
        self._image: ClusterImage | None = None
        self._answers: dict[tuple[str, str, int], MetadataResponseTopic] = {}

    def handle(self, request: Request, message: MetadataRequest) -> Reply:
        """Respond for the requested topics, or all; at once unless a topic must be created."""
        if self._may_create and message.allow_auto_topic_creation and message.topics:
            missing = self._missing(message.topics)
            if missing:
                return self._tasks.run(partial(self._create_and_answer, request, message, missing))
        return Reply(self._answer(request, message, {}))

    def _missing(self, wanted: Iterable[MetadataRequestTopic]) -> list[str]:
        """Return the legal names of missing topics; internal topics do not count.

        A topic that is requested by id is never created, whatever name stands beside the id.
        """
        known = self._metadata.image.topics.keys() | INTERNAL_TOPICS
        named = dict.fromkeys(
            topic.name
            for topic in wanted
            if topic.topic_id == ZERO_TOPIC_ID and topic.name not in known
        )
        return [name for name in named if name and validate_topic_name(name) is None]

    async def _create_and_answer(
        self, request: Request, message: MetadataRequest, missing: Iterable[str]
    ) -> MetadataResponse:
        # Later requests of the connection wait for the response; creations continue without it.
        failures = dict.fromkeys(missing, ErrorCode.LEADER_NOT_AVAILABLE)
        with suppress(TimeoutError):
            async with asyncio.timeout(CREATION_WAIT_S):
                for name in missing:
                    failures[name] = await asyncio.shield(self._creation(name))
        return self._answer(request, message, failures)

    def _creation(self, name: str) -> asyncio.Future[ErrorCode]:
        """Return the result of the running creation of a topic; begin one if there is none."""
        creation = self._creations.get(name)
        if creation is None:
            creation = self._creations[name] = self._tasks.loop.create_future()
            self._tasks.run(partial(self._finish, name, creation))
        return creation

    async def _finish(self, name: str, creation: asyncio.Future[ErrorCode]) -> None:
        try:
            creation.set_result(await self._create(name))
        finally:
            del self._creations[name]
            if not creation.done():
                # It has failed, which is logged, or the broker stops.
                creation.set_result(ErrorCode.UNKNOWN_SERVER_ERROR)

    async def _create(self, name: str) -> ErrorCode:
        """Create a topic; return the error code for clients until it has a leader."""
        if not self._metadata.image.brokers:
            # No controller has sent metadata yet, so there are no candidates for leaders.
            return ErrorCode.LEADER_NOT_AVAILABLE
        try:
            await self._topics.create(self._topics.plan(TopicSpec(name=name)))
        except ApiError as error:
            if error.code not in _CREATED:
                return error.code
        return ErrorCode.LEADER_NOT_AVAILABLE

    def _answer(
        self, request: Request, message: MetadataRequest, failures: Mapping[str, ErrorCode]
    ) -> MetadataResponse:
        image = self._metadata.image
        wanted = message.topics
        version = request.header.api_version
        if wanted is None or (not wanted and version < NULL_FOR_ALL_SINCE):
            found = [self._topic_answer(topic, request) for topic in image.topics.values()]
        else:
            found = [self._find(topic, request, failures) for topic in _distinct(wanted)]
        if message.include_topic_authorized_operations:
            bits = OPERATION_BITS[ResourceType.TOPIC]
            found = [replace(one, topic_authorized_operations=bits) for one in found]
        asks_for_cluster = message.include_cluster_authorized_operations
        return MetadataResponse(
            brokers=broker_answers(image, request.listener_name),
            cluster_id=self._cluster_id,
            controller_id=image.controller_id,
            topics=found,
            cluster_authorized_operations=(
                OPERATION_BITS[ResourceType.CLUSTER]
                if asks_for_cluster
                else OPERATIONS_NOT_ASKED_FOR
            ),
        )

    def _find(
        self,
        wanted: MetadataRequestTopic,
        request: Request,
        failures: Mapping[str, ErrorCode],
    ) -> MetadataResponseTopic:
        if request.header.api_version < TOPIC_IDS_SINCE and (
            wanted.name is None or wanted.topic_id != ZERO_TOPIC_ID
        ):
            code = ErrorCode.INVALID_REQUEST
            return MetadataResponseTopic(error_code=code, name=wanted.name or "")
        if wanted.topic_id != ZERO_TOPIC_ID:
            return self._find_by_id(wanted, request)
        name = wanted.name or ""
        topic = self._metadata.image.topics.get(name)
        if topic is not None:
            return self._topic_answer(topic, request)
        is_legal = validate_topic_name(name) is None
        code = failures.get(
            name,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION,
        )
        return MetadataResponseTopic(
            error_code=code, name=name, is_internal=name in INTERNAL_TOPICS
        )

    def _find_by_id(self, wanted: MetadataRequestTopic, request: Request) -> MetadataResponseTopic:
        image = self._metadata.image
        name = image.topic_names.get(wanted.topic_id)
        if name is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            return MetadataResponseTopic(error_code=code, name=None, topic_id=wanted.topic_id)
        return self._topic_answer(image.topics[name], request)

    def _topic_answer(self, topic: TopicState, request: Request) -> MetadataResponseTopic:
        """Return the response for a topic of the current image."""
        if self._image is not self._metadata.image:
            self._image = self._metadata.image
            self._answers.clear()
        # Later versions differ only in their encoding.
        version = min(request.header.api_version, LISTENER_NOT_FOUND_SINCE)
        key = (topic.name, request.listener_name, version)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = topic_answer(self._metadata.image, topic, request)
        return answer


def broker_answers(image: ClusterImage, listener_name: str) -> list[MetadataResponseBroker]:
    """Return the brokers with an endpoint for `listener_name`."""
    return [
        MetadataResponseBroker(
            node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        for broker in image.brokers.values()
        if (endpoint := broker.endpoints.get(listener_name)) is not None
    ]


def topic_answer(image: ClusterImage, topic: TopicState, request: Request) -> MetadataResponseTopic:
    """Return the response about `topic` for the listener and version of `request`."""
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _partition_answer(image, state, request) for state in topic.partitions.values()
        ],
    )


def _partition_answer(
    image: ClusterImage, state: PartitionState, request: Request
) -> MetadataResponsePartition:
    listener_name, version = request.listener_name, request.header.api_version
    code, leader = ErrorCode.NONE, state.leader_and_isr.leader
    replicas, isr = state.replicas, state.leader_and_isr.isr
    if version == 0:
        # Old clients look each id up among the brokers of the response, and fail without it.
        replicas, isr = (_reachable(image, each, listener_name) for each in (replicas, isr))
    if image.endpoint(leader, listener_name) is None:
        is_dead = leader not in image.brokers or version < LISTENER_NOT_FOUND_SINCE
        code = ErrorCode.LEADER_NOT_AVAILABLE if is_dead else ErrorCode.LISTENER_NOT_FOUND
        leader = NO_LEADER
    elif len(replicas) < len(state.replicas):
        code = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=code,
        partition_index=state.index,
        leader_id=leader,
        leader_epoch=state.leader_and_isr.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=state.offline_replicas,
    )


def _reachable(
    image: ClusterImage, replicas: tuple[BrokerId, ...], listener_name: str
) -> tuple[BrokerId, ...]:
    return tuple(each for each in replicas if image.endpoint(each, listener_name) is not None)


def _distinct(wanted: Iterable[MetadataRequestTopic]) -> list[MetadataRequestTopic]:
    return list({(topic.name, topic.topic_id): topic for topic in wanted}.values())

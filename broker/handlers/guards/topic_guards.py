"""Guards of the APIs that describe, create and delete topics (edge).

Rights come before existence: a client learns nothing about topics that it may not describe.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final
from uuid import UUID

from broker.handlers.guards.guard import Guard, Maker, Sieve
from broker.handlers.handler_table import Parts
from broker.network.reply import Reply, after
from broker.network.request import Request
from broker.network.router import Handler
from kafkawire.acl import CLUSTER_NAME, Operation, ResourceType
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID
from kafkawire.internal_topic import INTERNAL_TOPICS
from kafkawire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kafkawire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkawire.messages.delete_topics import (
    TOPICS_SINCE,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafkawire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kafkawire.messages.metadata import (
    NULL_FOR_ALL_SINCE,
    TOPIC_IDS_SINCE,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafkawire.sentinels import OPERATIONS_NOT_ASKED_FOR

TOPIC: Final = ResourceType.TOPIC
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN_COUNT: Final = -1


def metadata(parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require DESCRIBE on each topic, and CREATE to create one; filter a list of all topics."""
    return MetadataGuard(parts, guard, handle).handle


class MetadataGuard:
    """The guard of Metadata, and the operations that it lists."""

    def __init__(self, parts: Parts, guard: Guard, handle: Handler) -> None:
        self._metadata = parts.metadata
        self._may_create = parts.config.server.auto_create_topics_enable
        self._guard = guard
        self._handle = handle

    def handle(self, request: Request, message: MetadataRequest) -> Reply:
        """Respond for the allowed topics, and with an error for the denied ones."""
        wanted, version = message.topics, request.header.api_version
        if wanted is None or (not wanted and version < NULL_FOR_ALL_SINCE):
            return after(self._handle(request, message), lambda all_: self._filter(request, all_))
        named = [(self._name(topic, version), topic) for topic in wanted]
        asked = [name for name, _ in named if name is not None]
        allowed = self._guard.sift(request, Operation.DESCRIBE, TOPIC, asked)
        allowed -= self._uncreatable(request, message, allowed)
        left = [topic for name, topic in named if name is None or name in allowed]
        refused = [
            _refused(topic, name)
            for name, topic in named
            if name is not None and name not in allowed
        ]

        def add(response: MetadataResponse) -> MetadataResponse:
            # In version 0, an empty list requests all topics.
            response.topics = [*(response.topics if left else ()), *refused]
            return self._list_operations(request, response)

        return after(self._handle(request, replace(message, topics=left)), add)

    def _name(self, topic: MetadataRequestTopic, version: int) -> str | None:
        """Return the name of a requested topic; None if the handler refuses it unseen."""
        if topic.topic_id != ZERO_TOPIC_ID and version >= TOPIC_IDS_SINCE:
            return self._metadata.image.topic_names.get(topic.topic_id)
        return topic.name if topic.topic_id == ZERO_TOPIC_ID else None

    def _uncreatable(self, request: Request, message: MetadataRequest, names: set[str]) -> set[str]:
        """Return the topics that the request would create, but may not."""
        if not (self._may_create and message.allow_auto_topic_creation):
            return set()
        known = self._metadata.image.topics
        missing = names - known.keys()
        if not missing or self._guard.allows_on_cluster(request, Operation.CREATE, is_logged=False):
            return set()
        return missing - self._guard.sift(request, Operation.CREATE, TOPIC, sorted(missing))

    def _filter(self, request: Request, response: MetadataResponse) -> MetadataResponse:
        names = [topic.name for topic in response.topics if topic.name is not None]
        allowed = self._guard.sift(request, Operation.DESCRIBE, TOPIC, names, is_logged=False)
        response.topics = [topic for topic in response.topics if topic.name in allowed]
        return self._list_operations(request, response)

    def _list_operations(self, request: Request, response: MetadataResponse) -> MetadataResponse:
        response.cluster_authorized_operations = cluster_operations(
            self._guard, request, response.cluster_authorized_operations
        )
        # The handler shares its answers about topics between requests.
        response.topics = [
            topic
            if topic.topic_authorized_operations == OPERATIONS_NOT_ASKED_FOR or topic.name is None
            else replace(
                topic,
                topic_authorized_operations=self._guard.operations(request, TOPIC, topic.name),
            )
            for topic in response.topics
        ]
        return response


def _refused(topic: MetadataRequestTopic, name: str) -> MetadataResponseTopic:
    """Return the error of a topic; one that is requested by id keeps its name secret."""
    if topic.topic_id != ZERO_TOPIC_ID:
        return MetadataResponseTopic(error_code=DENIED, name=None, topic_id=topic.topic_id)
    return MetadataResponseTopic(error_code=DENIED, name=name, is_internal=name in INTERNAL_TOPICS)


def cluster_operations(guard: Guard, request: Request, listed: int) -> int:
    """Return the bits of the operations on the cluster, if the request asks for them."""
    if listed == OPERATIONS_NOT_ASKED_FOR:
        return OPERATIONS_NOT_ASKED_FOR
    if not guard.allows_on_cluster(request, Operation.DESCRIBE):
        return 0
    return guard.operations(request, ResourceType.CLUSTER, CLUSTER_NAME)


def describe_cluster(_parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Describe the cluster to everybody, and list the allowed operations."""

    def guarded(request: Request, message: DescribeClusterRequest) -> Reply:
        def list_operations(response: DescribeClusterResponse) -> DescribeClusterResponse:
            response.cluster_authorized_operations = cluster_operations(
                guard, request, response.cluster_authorized_operations
            )
            return response

        return after(handle(request, message), list_operations)

    return guarded


CREATIONS: Final[Sieve[CreatableTopic]] = Sieve(
    operation=Operation.CREATE,
    kind=TOPIC,
    items="topics",
    name=lambda topic: topic.name,
    response=CreateTopicsResponse,
    results="topics",
    refuse=lambda topic: CreatableTopicResult(
        name=topic.name, error_code=DENIED, error_message=DENIED.text
    ),
)


def create_topics(parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require CREATE on the cluster or on each topic, and DESCRIBE_CONFIGS to see its configs."""

    def guarded(request: Request, message: CreateTopicsRequest) -> Reply:
        if not parts.controller.is_active:
            return handle(request, message)
        times = Counter(topic.name for topic in message.topics)
        allowed = set(times)
        if not guard.allows_on_cluster(request, Operation.CREATE, is_logged=False):
            allowed = guard.sift(request, Operation.CREATE, TOPIC, times)
        readable = guard.sift(
            request, Operation.DESCRIBE_CONFIGS, TOPIC, sorted(allowed), is_logged=False
        )

        def hide(response: CreateTopicsResponse) -> CreateTopicsResponse:
            for topic in response.topics:
                if topic.name not in readable and topic.error_code in (ErrorCode.NONE, DENIED):
                    topic.topic_config_error_code = DENIED
                    topic.num_partitions = topic.replication_factor = UNKNOWN_COUNT
                    topic.configs = []
            return response

        return after(
            CREATIONS.apply(guard, request, message, handle, allowed | _repeated(times)), hide
        )

    return guarded


def delete_topics(parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require DELETE on each topic; one that is named by id shows its name for DESCRIBE only."""

    def guarded(request: Request, message: DeleteTopicsRequest) -> Reply:
        if not (parts.controller.is_active and parts.config.server.delete_topic_enable):
            return handle(request, message)
        if request.header.api_version < TOPICS_SINCE:
            return _delete_by_name(guard, handle, request, message)
        return _delete(parts, guard, handle, request, message)

    return guarded


def _delete_by_name(
    guard: Guard, handle: Handler, request: Request, message: DeleteTopicsRequest
) -> Reply:
    allowed = guard.sift(request, Operation.DELETE, TOPIC, message.topic_names)
    allowed |= _repeated(Counter(message.topic_names))
    return DELETIONS.apply(guard, request, message, handle, allowed)


def _delete(
    parts: Parts, guard: Guard, handle: Handler, request: Request, message: DeleteTopicsRequest
) -> Reply:
    names = parts.watch.image.topic_names
    times = Counter((topic.name, topic.topic_id) for topic in message.topics)
    found = [
        (None if _is_malformed(topic, times) else topic.name or names.get(topic.topic_id), topic)
        for topic in message.topics
    ]
    asked = [name for name, _ in found if name is not None]
    described = guard.sift(request, Operation.DESCRIBE, TOPIC, asked)
    allowed = guard.sift(request, Operation.DELETE, TOPIC, asked)
    left, refused = [], []
    for name, topic in found:
        may_see = topic.topic_id == ZERO_TOPIC_ID or name in described
        if name is None or (name in allowed and may_see):
            left.append(topic)
        else:
            refused.append(_undeleted(name if may_see else None, topic.topic_id))
    if not left:
        return Reply(DeleteTopicsResponse(responses=refused))

    def add(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses = [*response.responses, *refused]
        return response

    return after(handle(request, replace(message, topics=left)), add)


def _is_malformed(topic: DeleteTopicState, times: Counter[tuple[str | None, UUID]]) -> bool:
    """Whether the handler refuses the topic without looking for it."""
    has_both = topic.name is not None and topic.topic_id != ZERO_TOPIC_ID
    return has_both or times[topic.name, topic.topic_id] > 1


def _undeleted(name: str | None, topic_id: UUID = ZERO_TOPIC_ID) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=DENIED, error_message=DENIED.text
    )


def _repeated(times: Counter[str]) -> set[str]:
    """Return the names that a request repeats, which the handler refuses by itself."""
    return {name for name, count in times.items() if count > 1}


DELETIONS: Final[Sieve[str]] = Sieve(
    operation=Operation.DELETE,
    kind=TOPIC,
    items="topic_names",
    name=str,
    response=DeleteTopicsResponse,
    results="responses",
    refuse=_undeleted,
)
"""The guard of deletions by name only, in older versions."""
GROWTH: Final[Sieve[CreatePartitionsTopic]] = Sieve(
    operation=Operation.ALTER,
    kind=TOPIC,
    items="topics",
    name=lambda topic: topic.name,
    response=CreatePartitionsResponse,
    results="results",
    refuse=lambda topic: CreatePartitionsTopicResult(
        name=topic.name, error_code=DENIED, error_message=DENIED.text
    ),
)


def create_partitions(parts: Parts, guard: Guard, handle: Handler) -> Handler:
    """Require ALTER on each topic."""

    def guarded(request: Request, message: CreatePartitionsRequest) -> Reply:
        if not parts.controller.is_active:
            return handle(request, message)
        times = Counter(topic.name for topic in message.topics)
        repeated = _repeated(times)
        asked = [name for name in times if name not in repeated]
        allowed = guard.sift(request, Operation.ALTER, TOPIC, asked)
        return GROWTH.apply(guard, request, message, handle, allowed | repeated)

    return guarded


GUARDS: Final[dict[ApiKey, Maker]] = {
    ApiKey.METADATA: metadata,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.CREATE_PARTITIONS: create_partitions,
}

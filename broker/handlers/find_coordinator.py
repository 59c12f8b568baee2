"""FindCoordinator: the broker that coordinates a group (edge)."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Final

import structlog

from broker.cluster.cluster_topics import ClusterTopics
from broker.cluster.metadata_watch import MetadataWatch, has_leaders
from broker.cluster.topic_plan import TopicSpec
from broker.config.broker_config import BrokerConfig
from broker.handlers.handler_table import Apis
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.group_records import OFFSETS_TOPIC, partition_for
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.find_coordinator import (
    KEYS_SINCE,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

NO_NODE: Final = -1
TRANSACTIONS_TOPIC: Final = "__transaction_state"
LEADERS_WAIT_MS: Final = 1000
"""Time that the first client waits for leaders; without leaders it must retry."""

log = structlog.get_logger(__name__)

APIS: Final[Apis] = {
    ApiKey.FIND_COORDINATOR: lambda parts: (
        FindCoordinatorHandler(
            parts.tasks,
            parts.watch,
            parts.topics,
            parts.config,
            broker_id=parts.identity.broker_id,
            partition_of=parts.groups.registry.partition_of,
        ).handle
    ),
}


class KeyType(IntEnum):
    """Kafka's numbers for kinds of keys."""

    GROUP = 0
    TRANSACTION = 1


class FindCoordinatorHandler:
    """Finds the leader of a group's partition of `__consumer_offsets`."""

    def __init__(
        self,
        tasks: RequestTasks,
        watch: MetadataWatch,
        topics: ClusterTopics,
        config: BrokerConfig,
        *,
        broker_id: BrokerId,
        partition_of: Callable[[str], int],
    ) -> None:
        self._tasks = tasks
        self._watch = watch
        self._topics = topics
        self._config = config
        self._broker_id = broker_id
        self._partition_of = partition_of

    def handle(self, request: Request, message: FindCoordinatorRequest) -> Reply:
        """Respond at once, unless the topic must be created first."""
        if message.key_type == KeyType.GROUP and not self._has_topic():
            return self._tasks.run(partial(self._create_and_answer, request, message))
        return Reply(self._answer(request, message))

    def _has_topic(self) -> bool:
        return OFFSETS_TOPIC in self._watch.image.topics

    async def _create_and_answer(
        self, request: Request, message: FindCoordinatorRequest
    ) -> FindCoordinatorResponse:
        try:
            plan = self._topics.plan(offsets_topic(self._config))
            await self._topics.create(plan)
            count = len(plan.assignments)
            await self._watch.wait_for(
                lambda image: has_leaders(image, OFFSETS_TOPIC, count), LEADERS_WAIT_MS
            )
        except ApiError as error:
            # Clients retry until there are enough brokers.
            log.warning("topic.rejected", topic=OFFSETS_TOPIC, error=str(error))
        return self._answer(request, message)

    def _answer(self, request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
        has_keys = request.header.api_version >= KEYS_SINCE
        keys = message.coordinator_keys if has_keys else [message.key]
        found = [self._find(request, message.key_type, key) for key in keys]
        if has_keys:
            return FindCoordinatorResponse(coordinators=found)
        return FindCoordinatorResponse(
            error_code=found[0].error_code,
            error_message=found[0].error_message,
            node_id=found[0].node_id,
            host=found[0].host,
            port=found[0].port,
        )

    def _find(self, request: Request, key_type: int, key: str) -> Coordinator:
        if key_type == KeyType.TRANSACTION:
            return self._find_of_transaction(request, key)
        if key_type != KeyType.GROUP:
            text = f"the key type must be 0 (group) or 1 (transaction), got {key_type}"
            return _none(key, ErrorCode.INVALID_REQUEST, text)
        partition = TopicPartition(OFFSETS_TOPIC, self._partition_of(key))
        return self._leader(request, partition, key, "this group")

    def _find_of_transaction(self, request: Request, key: str) -> Coordinator:
        """Return the leader of a transactional id's partition, unless it is this broker.

        The topic exists only if the cluster has, or had, a Kafka broker.
        """
        image = self._watch.image
        topic = image.topics.get(TRANSACTIONS_TOPIC)
        if topic is not None and topic.partitions:
            number = partition_for(key, len(topic.partitions))
            partition = TopicPartition(TRANSACTIONS_TOPIC, number)
            state = image.partition(partition)
            if state is not None and state.leader_and_isr.leader != self._broker_id:
                return self._leader(request, partition, key, "this transactional id")
        text = "this broker does not coordinate transactions yet"
        # The only code that every client treats as final. Java and Python clients treat others as
        # final too, but librdkafka retries forever after any other code.
        return _none(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text)

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


def offsets_topic(config: BrokerConfig) -> TopicSpec:
    """Return the request that creates `__consumer_offsets`.

    A standalone broker can keep only one replica. In a cluster the topic is not created before
    there are enough brokers, so that its first records are replicated like all others.

    Source: GroupCoordinator.offsetsTopicConfigs of Kafka 3.9.
    """
    is_standalone = config.server.zookeeper_connect is None
    return TopicSpec(
        name=OFFSETS_TOPIC,
        partition_count=config.groups.offsets_topic_num_partitions,
        replication_factor=1 if is_standalone else config.groups.offsets_topic_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "segment.bytes": str(config.groups.offsets_topic_segment_bytes),
            "compression.type": "producer",
        },
    )


def _none(key: str, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=NO_NODE, port=NO_NODE, error_code=code, error_message=text)

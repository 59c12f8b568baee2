"""FindCoordinator: which broker coordinates a group (edge, for it may create the topic)."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Final

import structlog

from broker.cluster.metadata_watch import MetadataWatch, has_leaders
from broker.cluster.topic_source import TopicSource
from broker.config import BrokerConfig
from broker.groups.internal_topic import offsets_topic
from broker.network.reply import Reply
from broker.network.request_channel import Request
from broker.network.request_tasks import RequestTasks
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.group_records import OFFSETS_TOPIC, partition_for
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

FIRST_VERSION_WITH_KEYS: Final = 4
NO_NODE: Final = -1
TRANSACTIONS_TOPIC: Final = "__transaction_state"
LEADERS_WAIT_MS: Final = 1000
"""How long a client waits that comes first; without leaders it is told to come again."""

log = structlog.get_logger(__name__)


class KeyType(IntEnum):
    """What a key names."""

    GROUP = 0
    TRANSACTION = 1


class FindCoordinatorHandler:
    """Answers with the leader of the group's partition of `__consumer_offsets`."""

    def __init__(
        self,
        tasks: RequestTasks,
        watch: MetadataWatch,
        topics: TopicSource,
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
        """Answer at once, unless the topic has to be created first."""
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
            # Clients come again, until there are brokers enough.
            log.warning("topic.rejected", topic=OFFSETS_TOPIC, error=str(error))
        return self._answer(request, message)

    def _answer(self, request: Request, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
        has_keys = request.header.api_version >= FIRST_VERSION_WITH_KEYS
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
            text = "the key type is neither 0 (group) nor 1 (transaction)"
            return _none(key, ErrorCode.INVALID_REQUEST, text)
        partition = TopicPartition(OFFSETS_TOPIC, self._partition_of(key))
        return self._leader(request, partition, key, "this group")

    def _find_of_transaction(self, request: Request, key: str) -> Coordinator:
        """Name the broker that leads the partition of a transactional id, unless it is this one.

        The topic exists where a broker of Kafka is, or was, in the cluster.
        """
        image = self._watch.image
        topic = image.topics.get(TRANSACTIONS_TOPIC)
        if topic is not None and topic.partitions:
            number = partition_for(key, len(topic.partitions))
            partition = TopicPartition(TRANSACTIONS_TOPIC, number)
            state = image.partition(partition)
            if state is not None and state.leader != self._broker_id:
                return self._leader(request, partition, key, "this transactional id")
        text = "this broker does not coordinate transactions yet"
        # The only code that ends every client. Java and Python take others for final too, but
        # librdkafka looks for a coordinator for ever after any but this one.
        return _none(key, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text)

    def _leader(
        self, request: Request, partition: TopicPartition, key: str, what: str
    ) -> Coordinator:
        image = self._watch.image
        state = image.partition(partition)
        endpoint = None if state is None else image.endpoint(state.leader, request.listener_name)
        if state is None or endpoint is None:
            text = f"{partition.topic} has no leader for {what} at the moment"
            return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
        return Coordinator(
            key=key,
            node_id=state.leader,
            host=endpoint.host,
            port=endpoint.port,
            error_message="",
        )


def _none(key: str, code: ErrorCode, text: str) -> Coordinator:
    return Coordinator(key=key, node_id=NO_NODE, port=NO_NODE, error_code=code, error_message=text)

"""FindCoordinator: the leader of the partition of a transactional id."""

import asyncio
import uuid
from typing import cast

from broker.cluster.cluster_topics import ClusterTopics
from broker.cluster.metadata_cache import (
    Endpoint,
    LiveBroker,
    MetadataCache,
    PartitionState,
    TopicState,
)
from broker.cluster.metadata_watch import MetadataWatch
from broker.config.broker_config import BrokerConfig
from broker.handlers.find_coordinator import FindCoordinatorHandler, KeyType, Place
from broker.internal_log.topic_creation import TopicCreation
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from kafkawire.internal_topic import TRANSACTIONS_TOPIC, partition_for
from kafkawire.messages.find_coordinator import (
    KEYS_SINCE,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkawire.sentinels import NO_LEADER
from tests.unit.broker.metadata import partition_state, put_topics, set_brokers
from tests.unit.broker.requests import request

THEM = BrokerId(7)
COUNT = 3
TRANSACTIONAL_ID = "t"


def state(index: int, leader: BrokerId) -> PartitionState:
    return partition_state(index, leader, THEM)


async def find(leader: BrokerId, key_type: int = KeyType.TRANSACTION) -> Coordinator:
    return (await answer(leader, key_type, 4)).coordinators[0]


async def answer(leader: BrokerId, key_type: int, version: int) -> FindCoordinatorResponse:
    cache = MetadataCache()
    endpoints = {"PLAINTEXT": Endpoint("kafka", 9092)}
    set_brokers(cache, [LiveBroker(broker_id=THEM, endpoints=endpoints)], THEM)
    own = partition_for(TRANSACTIONAL_ID, COUNT)
    states = {n: state(n, leader if n == own else NO_LEADER) for n in range(COUNT)}
    topic = TopicState(name=TRANSACTIONS_TOPIC, topic_id=uuid.uuid4(), partitions=states)
    put_topics(cache, [topic])
    watch = MetadataWatch(cache)
    place = Place(
        TRANSACTIONS_TOPIC, "this transactional id", lambda key: partition_for(key, COUNT)
    )
    handler = FindCoordinatorHandler(
        RequestTasks(asyncio.get_running_loop()),
        watch,
        TopicCreation(cast(ClusterTopics, object()), watch, BrokerConfig()),
        {KeyType.TRANSACTION: place},
    )
    message = FindCoordinatorRequest(key_type=key_type)
    if version < KEYS_SINCE:
        message.key = TRANSACTIONAL_ID
    else:
        message.coordinator_keys = [TRANSACTIONAL_ID]
    reply = handler.handle(request(ApiKey.FIND_COORDINATOR, version, message), message)
    assert isinstance(reply.message, FindCoordinatorResponse)
    return reply.message


async def test_the_leader_of_the_partition_of_the_id_is_returned() -> None:
    found = await find(THEM)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 7, "kafka", 9092)


async def test_message_of_a_success_is_none_in_versions_with_a_single_key() -> None:
    found = await answer(THEM, KeyType.TRANSACTION, KEYS_SINCE - 1)
    assert (found.error_code, found.error_message, found.node_id) == (0, "NONE", 7)
    assert (await find(THEM)).error_message == ""


async def test_without_a_leader_the_client_must_retry() -> None:
    assert (await find(NO_LEADER)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_an_unknown_type_of_key_is_refused() -> None:
    assert (await find(THEM, key_type=2)).error_code == ErrorCode.INVALID_REQUEST

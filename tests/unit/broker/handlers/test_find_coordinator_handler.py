"""FindCoordinator: the config of `__consumer_offsets`, and coordinators of transactional ids."""

import asyncio
import uuid
from typing import cast

import pytest

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
from broker.handlers.find_coordinator import (
    TRANSACTIONS_TOPIC,
    FindCoordinatorHandler,
    KeyType,
    offsets_topic,
)
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.group_records import partition_for
from kafkawire.ids import BrokerId
from kafkawire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkawire.sentinels import NO_LEADER
from tests.unit.broker.metadata import partition_state, put_topics, set_brokers
from tests.unit.broker.requests import request

US, THEM = BrokerId(1), BrokerId(7)
COUNT = 3
TRANSACTIONAL_ID = "t"
REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def state(index: int, leader: BrokerId) -> PartitionState:
    return partition_state(index, leader, THEM)


async def find(leader: BrokerId | None) -> Coordinator:
    cache = MetadataCache()
    endpoints = {"PLAINTEXT": Endpoint("kafka", 9092)}
    set_brokers(cache, [LiveBroker(broker_id=THEM, endpoints=endpoints)], THEM)
    if leader is not None:
        own = partition_for(TRANSACTIONAL_ID, COUNT)
        states = {n: state(n, leader if n == own else NO_LEADER) for n in range(COUNT)}
        topic = TopicState(name=TRANSACTIONS_TOPIC, topic_id=uuid.uuid4(), partitions=states)
        put_topics(cache, [topic])
    handler = FindCoordinatorHandler(
        RequestTasks(asyncio.get_running_loop()),
        MetadataWatch(cache),
        cast(ClusterTopics, object()),
        BrokerConfig(),
        broker_id=US,
        partition_of=lambda _group: 0,
    )
    message = FindCoordinatorRequest(
        key_type=KeyType.TRANSACTION, coordinator_keys=[TRANSACTIONAL_ID]
    )
    reply = handler.handle(request(ApiKey.FIND_COORDINATOR, 4, message), message)
    assert isinstance(reply.message, FindCoordinatorResponse)
    return reply.message.coordinators[0]


async def test_a_kafka_broker_that_leads_the_partition_of_the_id_is_returned() -> None:
    found = await find(THEM)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 7, "kafka", 9092)


@pytest.mark.parametrize(
    ("leader", "code"),
    [
        pytest.param(None, REFUSED, id="there is no such topic"),
        pytest.param(US, REFUSED, id="this broker leads the partition"),
        pytest.param(NO_LEADER, ErrorCode.COORDINATOR_NOT_AVAILABLE, id="there is no leader now"),
    ],
)
async def test_the_error_without_a_kafka_leader_is_final_or_retriable(
    leader: BrokerId | None, code: ErrorCode
) -> None:
    assert (await find(leader)).error_code == code


def test_offsets_topic_follows_the_broker_config() -> None:
    spec = offsets_topic(
        BrokerConfig.from_properties(
            {"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "9999"}
        )
    )
    assert (spec.name, spec.partition_count) == ("__consumer_offsets", 7)
    assert spec.configs["cleanup.policy"] == "compact"
    assert spec.configs["segment.bytes"] == "9999"
    assert spec.configs["compression.type"] == "producer"


def test_offsets_topic_of_a_standalone_broker_has_one_replica() -> None:
    alone = BrokerConfig.from_properties({})
    member = BrokerConfig.from_properties({"zookeeper.connect": "127.0.0.1:2181"})
    assert offsets_topic(alone).replication_factor == 1
    assert offsets_topic(member).replication_factor == 3

"""Metadata from the image of the cluster, also an empty one: `broker.handlers.metadata`."""

import asyncio
from typing import cast
from uuid import uuid4

import pytest

from broker.cluster.cluster_topics import ClusterTopics
from broker.cluster.metadata_cache import Endpoint, LiveBroker, MetadataCache, TopicState
from broker.cluster.topic_plan import TopicSpec
from broker.handlers import metadata
from broker.handlers.metadata import MetadataHandler
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.unit.broker.metadata import partition_state, put_topics, set_brokers
from tests.unit.broker.requests import request

B1 = BrokerId(1)


async def test_a_topic_cannot_be_created_yet_and_the_client_must_retry() -> None:
    loop = asyncio.get_running_loop()
    unused = cast(ClusterTopics, object())
    handler = MetadataHandler(RequestTasks(loop), MetadataCache(), unused, "c", may_create=True)
    message = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    reply = handler.handle(request(ApiKey.METADATA, 12, message), message)
    done = loop.create_future()
    reply.on_done(lambda: done.set_result(None))
    await done
    assert isinstance(reply.message, MetadataResponse)
    assert [topic.error_code for topic in reply.message.topics] == [ErrorCode.LEADER_NOT_AVAILABLE]


class SlowCoordinator:
    """Notes the creations that begin; each lasts until `answer`."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.answer = asyncio.Event()

    def plan(self, spec: TopicSpec) -> str:
        return spec.name

    async def create(self, name: str) -> None:
        self.begun.append(name)
        await self.answer.wait()
        if name == "broken":
            raise ValueError(name)


async def test_a_response_waits_for_a_limited_time_and_creations_continue_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata, "CREATION_WAIT_S", 0)
    cache, coordinator, loop = MetadataCache(), SlowCoordinator(), asyncio.get_running_loop()
    set_brokers(cache, [LiveBroker(broker_id=B1, endpoints={"PLAINTEXT": Endpoint("h", 1)})], B1)
    topics = cast(ClusterTopics, coordinator)
    handler = MetadataHandler(RequestTasks(loop), cache, topics, "c", may_create=True)

    async def ask(*names: str) -> list[int]:
        message = MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in names])
        reply = handler.handle(request(ApiKey.METADATA, 12, message), message)
        done = loop.create_future()
        reply.on_done(lambda: done.set_result(None))
        await done
        assert isinstance(reply.message, MetadataResponse)
        return [topic.error_code for topic in reply.message.topics]

    wait = ErrorCode.LEADER_NOT_AVAILABLE
    assert await ask("a", "b") == [wait, wait]
    assert await ask("a") == [wait]
    assert coordinator.begun == ["a"], "the second request joins the first one's creation"
    monkeypatch.setattr(metadata, "CREATION_WAIT_S", 60)
    coordinator.answer.set()
    assert await ask("b", "broken") == [wait, ErrorCode.UNKNOWN_SERVER_ERROR]
    assert coordinator.begun == ["a", "b", "broken"]


@pytest.mark.parametrize("version", [10, 12])
async def test_a_name_beside_an_id_creates_no_topic(version: int) -> None:
    unused = cast(ClusterTopics, object())
    tasks = RequestTasks(asyncio.get_running_loop())
    handler = MetadataHandler(tasks, MetadataCache(), unused, "c", may_create=True)
    message = MetadataRequest(topics=[MetadataRequestTopic(name="t", topic_id=uuid4())])
    reply = handler.handle(request(ApiKey.METADATA, version, message), message)
    assert reply.is_done, "nothing is created"
    assert isinstance(reply.message, MetadataResponse)
    code = ErrorCode.UNKNOWN_TOPIC_ID if version == 12 else ErrorCode.INVALID_REQUEST
    assert [topic.error_code for topic in reply.message.topics] == [code]


@pytest.mark.parametrize(
    ("version", "code", "replicas"),
    [(0, ErrorCode.REPLICA_NOT_AVAILABLE, [1]), (1, ErrorCode.NONE, [1, 2])],
)
async def test_version_0_names_only_brokers_that_the_response_describes(
    version: int, code: ErrorCode, replicas: list[int]
) -> None:
    """Kafka's old clients fail at the id of any other broker, such as one that is down."""
    cache = MetadataCache()
    set_brokers(cache, [LiveBroker(broker_id=B1, endpoints={"PLAINTEXT": Endpoint("h", 1)})], B1)
    partitions = {0: partition_state(0, 1, 1, 2)}
    put_topics(cache, [TopicState(name="t", topic_id=uuid4(), partitions=partitions)])
    unused = cast(ClusterTopics, object())
    tasks = RequestTasks(asyncio.get_running_loop())
    handler = MetadataHandler(tasks, cache, unused, "c", may_create=True)
    message = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    reply = handler.handle(request(ApiKey.METADATA, version, message), message)
    assert isinstance(reply.message, MetadataResponse)
    assert [broker.node_id for broker in reply.message.brokers] == [1]
    [found] = reply.message.topics[0].partitions
    assert (found.error_code, found.leader_id) == (code, 1)
    assert [list(found.replica_nodes), list(found.isr_nodes)] == [replicas, replicas]

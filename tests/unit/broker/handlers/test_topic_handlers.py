"""Requests to change topics at a broker that is about to become the controller.

The guards check rights on the controller only. A request that arrived before must not be served.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from broker.cluster.cluster_topics import CreationWaits
from broker.cluster.metadata_cache import ClusterImage, TopicState
from broker.cluster.topic_plan import (
    MAX_REQUEST_PARTITIONS,
    TopicPlan,
    TopicSpec,
    partition_count_of,
)
from broker.config.broker_config import BrokerConfig
from broker.config.dynamic_config import DynamicConfig
from broker.handlers.create_partitions import CreatePartitionsHandler
from broker.handlers.create_topics import CreateTopicsHandler
from broker.handlers.delete_topics import DeleteTopicsHandler
from broker.network.reply import Reply
from broker.network.request import Request
from broker.network.request_tasks import ITEMS_PER_TURN, RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, TopicId
from kafkawire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkawire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkawire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from storage.config.topic_config import TOPIC_CONFIG_KEYS
from tests.unit.broker.metadata import partition_state
from tests.unit.broker.requests import request

Handle = Callable[[Request, Any], Reply]


class Controller:
    """The role of the controller, which this broker does not have yet."""

    is_active = False


def creation(tasks: RequestTasks, controller: Any, unused: Any) -> Handle:
    return CreateTopicsHandler(tasks, unused, unused, controller, unused).handle


def growth(tasks: RequestTasks, controller: Any, unused: Any) -> Handle:
    return CreatePartitionsHandler(tasks, unused, unused, controller).handle


def deletion(tasks: RequestTasks, controller: Any, unused: Any) -> Handle:
    return DeleteTopicsHandler(tasks, unused, unused, controller, is_enabled=True).handle


CASES: list[tuple[Callable[..., Handle], ApiKey, int, object, str]] = [
    (
        creation,
        ApiKey.CREATE_TOPICS,
        7,
        CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
        ),
        "topics",
    ),
    (
        growth,
        ApiKey.CREATE_PARTITIONS,
        3,
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2)]),
        "results",
    ),
    (deletion, ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["t"]), "responses"),
    (
        deletion,
        ApiKey.DELETE_TOPICS,
        6,
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]),
        "responses",
    ),
]


@pytest.mark.parametrize(("make", "key", "version", "message", "results"), CASES)
async def test_a_request_from_before_an_election_changes_nothing(
    make: Callable[..., Handle], key: ApiKey, version: int, message: object, results: str
) -> None:
    loop, controller = asyncio.get_running_loop(), Controller()
    # Any use of this object fails, and closes the connection.
    handle = make(RequestTasks(loop), controller, cast(Any, object()))
    reply = handle(request(key, version, message), message)
    controller.is_active = True
    if not reply.is_done:
        done = loop.create_future()
        reply.on_done(lambda: done.set_result(None))
        await done
    found = getattr(reply.message, results)
    assert [(each.name, each.error_code) for each in found] == [("t", ErrorCode.NOT_CONTROLLER)]


class ActiveController:
    is_active = True


class Topics:
    """Notes the planned and the grown topics."""

    def __init__(self) -> None:
        self.planned: list[str] = []
        self.grown: list[str] = []
        self.partition_default = 1
        self.waits: list[CreationWaits] = []

    async def create(self, plan: TopicPlan, waits: CreationWaits) -> TopicId:
        self.waits.append(waits)
        if plan.name == "b":
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS)
        return ZERO_TOPIC_ID

    def partition_count(self, spec: TopicSpec) -> int:
        return partition_count_of(spec, self.partition_default)

    def plan(self, spec: TopicSpec) -> TopicPlan:
        self.planned.append(spec.name)
        assignments = ((BrokerId(1),),) * self.partition_count(spec)
        return TopicPlan(name=spec.name, assignments=assignments, configs={})

    async def add_partitions(self, name: str, count: int, *_chosen: object, **_: object) -> int:
        self.grown.append(name)
        return count


class Watch:
    """Metadata with a topic "old" of two partitions."""

    image = ClusterImage(
        topics={
            "old": TopicState(
                name="old",
                topic_id=ZERO_TOPIC_ID,
                partitions={index: partition_state(index, 1, 1) for index in range(2)},
            )
        }
    )

    async def wait_for_each(self, wanted: Sequence[object], *_: object) -> Sequence[object]:
        return wanted[:0]


def creating(counts: Mapping[str, int], topics: Topics, *, validate_only: bool = True) -> Reply:
    message = CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=count, replication_factor=-1)
            for name, count in counts.items()
        ],
        timeout_ms=0,
        validate_only=validate_only,
    )
    config = DynamicConfig(BrokerConfig.from_properties({}))
    tasks = RequestTasks(asyncio.get_running_loop())
    handler = CreateTopicsHandler(
        tasks, cast(Any, Watch()), cast(Any, topics), cast(Any, ActiveController()), config
    )
    return handler.handle(request(ApiKey.CREATE_TOPICS, 7, message), message)


def growing(counts: Mapping[str, int], topics: Topics) -> Reply:
    message = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count) for name, count in counts.items()],
        validate_only=True,
    )
    handler = CreatePartitionsHandler(
        RequestTasks(asyncio.get_running_loop()),
        cast(Any, Watch()),
        cast(Any, topics),
        cast(Any, ActiveController()),
    )
    return handler.handle(request(ApiKey.CREATE_PARTITIONS, 3, message), message)


async def codes_of(reply: Reply, results: str) -> dict[str, int]:
    if not reply.is_done:
        done = asyncio.get_running_loop().create_future()
        reply.on_done(lambda: done.set_result(None))
        await done
    return {each.name: each.error_code for each in getattr(reply.message, results)}


async def test_the_topics_of_a_request_share_the_limits_of_their_waits() -> None:
    topics = Topics()
    wanted = dict.fromkeys("abc", 1)
    found = await codes_of(creating(wanted, topics, validate_only=False), "topics")
    assert found == {"a": 0, "b": ErrorCode.TOPIC_ALREADY_EXISTS, "c": 0}
    assert len(topics.waits) == 3
    assert len(set(topics.waits)) == 1


MOST = MAX_REQUEST_PARTITIONS


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({"a": MOST - 1, "b": 1}, ErrorCode.NONE),
        ({"a": MOST - 1, "b": -1}, ErrorCode.NONE),
        ({"a": MOST, "b": 1}, ErrorCode.POLICY_VIOLATION),
        ({"a": MOST, "b": -1}, ErrorCode.POLICY_VIOLATION),
        ({"a": MOST, "b": 1, "c": -MOST}, ErrorCode.POLICY_VIOLATION),
    ],
)
async def test_a_request_creates_a_limited_number_of_partitions(
    counts: dict[str, int], code: ErrorCode
) -> None:
    topics = Topics()
    found = await codes_of(creating(counts, topics), "topics")
    assert found == dict.fromkeys(counts, code)
    assert topics.planned == ([*counts] if code is ErrorCode.NONE else [])


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({"old": MOST + 2, "unknown": MOST}, ErrorCode.NONE),
        ({"old": MOST + 3, "unknown": 1}, ErrorCode.POLICY_VIOLATION),
    ],
)
async def test_a_request_adds_a_limited_number_of_partitions(
    counts: dict[str, int], code: ErrorCode
) -> None:
    topics = Topics()
    found = await codes_of(growing(counts, topics), "results")
    assert found == dict.fromkeys(counts, code)
    assert topics.grown == ([*counts] if code is ErrorCode.NONE else [])


@pytest.mark.parametrize(("topic_count", "partition_count"), [(100, 1), (25, 400)])
async def test_other_requests_run_between_the_partitions_and_configs_of_new_topics(
    topic_count: int, partition_count: int
) -> None:
    topics = Topics()
    reply = creating({f"t{number}": partition_count for number in range(topic_count)}, topics)
    most_per_turn = seen = 0
    while not reply.is_done:
        # Lets the request take one turn.
        await asyncio.sleep(0)
        most_per_turn, seen = max(most_per_turn, len(topics.planned) - seen), len(topics.planned)
    items = partition_count + len(TOPIC_CONFIG_KEYS)
    assert seen == topic_count
    assert (most_per_turn - 1) * items < ITEMS_PER_TURN

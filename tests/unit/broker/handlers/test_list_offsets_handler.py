"""ListOffsets of many partitions: `broker.handlers.offset_lookup`."""

import asyncio
from pathlib import Path

import pytest

from broker.handlers.offset_lookup import SEARCHES_PER_TURN, ListOffsetsHandler
from broker.network.reply import Reply
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkawire.sentinels import CONSUMER_REPLICA_ID, LATEST_TIMESTAMP, MAX_TIMESTAMP
from tests.unit.broker.replicas import NOW_MS, PARTITION, World, batch
from tests.unit.broker.requests import request

TURNS = 5
TIMEOUT_S = 30


@pytest.fixture
async def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.replicas.append(PARTITION, memoryview(bytearray(batch(b"a"))), 1, NOW_MS)
    return made


def ask(world: World, count: int, timestamp: int, version: int = 7) -> Reply:
    """Request `count` partitions of two topics; the first one exists."""
    topics = [
        ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                for index in range(partition_count)
            ],
        )
        for name, partition_count in ((PARTITION.topic, count - 1), ("missing", 1))
    ]
    message = ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, topics=topics)
    tasks = RequestTasks(asyncio.get_running_loop())
    handler = ListOffsetsHandler(tasks, world.replicas, lambda: NOW_MS)
    return handler.handle(request(ApiKey.LIST_OFFSETS, version, message), message)


@pytest.mark.parametrize(
    ("timestamp", "version"), [(NOW_MS, 1), (MAX_TIMESTAMP, 7), (LATEST_TIMESTAMP, 0)]
)
async def test_many_searches_by_time_leave_turns_of_the_loop_to_others(
    world: World, timestamp: int, version: int
) -> None:
    count = TURNS * SEARCHES_PER_TURN
    reply = ask(world, count, timestamp, version)
    assert [reply.is_done, reply.message] == [False, None]
    turns = 0
    async with asyncio.timeout(TIMEOUT_S):
        while not reply.is_done:
            await asyncio.sleep(0)
            turns += 1
    assert turns >= TURNS
    assert isinstance(reply.message, ListOffsetsResponse)
    here, missing = reply.message.topics
    assert [here.name, missing.name] == [PARTITION.topic, "missing"]
    assert [each.partition_index for each in here.partitions] == list(range(count - 1))
    found, *others = [*here.partitions, *missing.partitions]
    assert found.error_code == ErrorCode.NONE
    assert {each.error_code for each in others} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize(
    ("timestamp", "count"), [(NOW_MS, SEARCHES_PER_TURN), (LATEST_TIMESTAMP, 1000)]
)
async def test_few_searches_and_any_number_of_ends_are_answered_at_once(
    world: World, timestamp: int, count: int
) -> None:
    reply = ask(world, count, timestamp)
    assert isinstance(reply.message, ListOffsetsResponse)
    assert sum(len(topic.partitions) for topic in reply.message.topics) == count

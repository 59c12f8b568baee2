"""ListOffsets of many partitions: `broker.handlers.offset_lookup`."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from broker.handlers.offset_lookup import (
    SEARCHES_PER_TURN,
    SEGMENTS_PER_TURN,
    ListOffsetsHandler,
)
from broker.network.reply import Reply
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import Offset
from kafkawire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkawire.sentinels import CONSUMER_REPLICA_ID, LATEST_TIMESTAMP, MAX_TIMESTAMP
from storage.config.log_config import LogConfig
from tests.unit.broker.replicas import NOW_MS, PARTITION, World, batch
from tests.unit.broker.requests import request
from tests.unit.storage.logs import append

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


@pytest.fixture
async def long_world(tmp_path: Path) -> World:
    """A log whose closed segments are not counted, as after a start."""
    made = World(tmp_path, LogConfig(segment_bytes=100))
    for number in range(TURNS * SEGMENTS_PER_TURN):
        append(made.log, [NOW_MS + number])
    assert made.replica.leadership is not None
    made.replica.leadership.on_append(made.log.log_end_offset, NOW_MS)
    made.log.upkeep.release_closed()
    for segment in made.log.segments[:-1]:
        segment.is_counted = False
    return made


def search(world: World, timestamp: int, version: int = 7) -> Reply:
    wanted = ListOffsetsPartition(
        partition_index=PARTITION.partition, timestamp=timestamp, max_num_offsets=1
    )
    topic = ListOffsetsTopic(name=PARTITION.topic, partitions=[wanted])
    message = ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, topics=[topic])
    tasks = RequestTasks(asyncio.get_running_loop())
    handler = ListOffsetsHandler(tasks, world.replicas, lambda: NOW_MS + 1_000)
    return handler.handle(request(ApiKey.LIST_OFFSETS, version, message), message)


def result_of(reply: Reply) -> ListOffsetsPartitionResponse:
    assert isinstance(reply.message, ListOffsetsResponse)
    return reply.message.topics[0].partitions[0]


@pytest.mark.parametrize("version", [0, 7])
@pytest.mark.parametrize("timestamp", [NOW_MS + 70, MAX_TIMESTAMP])
async def test_first_search_opens_a_limited_number_of_segments_in_one_turn(
    long_world: World, timestamp: int, version: int
) -> None:
    segments = long_world.log.segments
    left = [sum(not each.is_counted for each in segments)]
    reply = search(long_world, timestamp, version)
    left.append(sum(not each.is_counted for each in segments))
    async with asyncio.timeout(TIMEOUT_S):
        while not reply.is_done:
            await asyncio.sleep(0)
            left.append(sum(not each.is_counted for each in segments))
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) == SEGMENTS_PER_TURN
    answer = result_of(reply)
    if version == 7:
        end = long_world.log.log_end_offset
        assert answer.offset == (70 if timestamp >= 0 else end - 1)
    elif timestamp >= 0:
        assert answer.old_style_offsets == [70]
    assert result_of(search(long_world, timestamp, version)) == answer, "at once from now on"


async def test_a_log_that_is_lost_during_a_search_fails_it(long_world: World) -> None:
    done = asyncio.Event()
    reply = search(long_world, NOW_MS)
    reply.on_done(done.set)
    await asyncio.sleep(0)
    long_world.replica.resign()
    async with asyncio.timeout(TIMEOUT_S):
        await done.wait()
    assert result_of(reply).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_search_in_version_0_does_not_see_segments_below_the_log_start(
    long_world: World,
) -> None:
    log = long_world.log
    start = Offset(log.log_end_offset - 2)
    log.advance_log_start(start)
    wanted = ListOffsetsPartition(
        partition_index=PARTITION.partition, timestamp=LATEST_TIMESTAMP, max_num_offsets=9
    )
    topic = ListOffsetsTopic(name=PARTITION.topic, partitions=[wanted])
    message = ListOffsetsRequest(replica_id=CONSUMER_REPLICA_ID, topics=[topic])
    tasks = RequestTasks(asyncio.get_running_loop())
    handler = ListOffsetsHandler(tasks, long_world.replicas, lambda: NOW_MS)
    reply = handler.handle(request(ApiKey.LIST_OFFSETS, 0, message), message)
    assert result_of(reply).old_style_offsets == [start + 2, start + 1, start]

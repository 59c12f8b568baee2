"""DeleteRecords of many partitions: `broker.handlers.delete_records`."""

import asyncio
from pathlib import Path

import pytest

from broker.handlers.delete_records import PARTITIONS_PER_TURN, DeleteRecordsHandler
from broker.network.reply import Reply
from broker.network.request_tasks import RequestTasks
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.unit.broker.replicas import NOW_MS, PARTITION, World, batch
from tests.unit.broker.requests import request

TURNS = 5
TIMEOUT_S = 30


@pytest.fixture
async def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.replicas.append(PARTITION, memoryview(bytearray(batch(b"a"))), 1, NOW_MS)
    return made


def delete(world: World, count: int) -> Reply:
    """Delete the record of the partition, and name `count - 1` others, which do not exist."""
    topics = [
        DeleteRecordsTopic(
            name=name,
            partitions=[DeleteRecordsPartition(partition_index=each, offset=1) for each in indexes],
        )
        for name, indexes in ((PARTITION.topic, range(1)), ("missing", range(1, count)))
    ]
    message = DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_S * 1000)
    tasks = RequestTasks(asyncio.get_running_loop())
    handler = DeleteRecordsHandler(world.replicas, world.purgatory, tasks)
    return handler.handle(request(ApiKey.DELETE_RECORDS, 2, message), message)


def check(reply: Reply, count: int) -> None:
    assert isinstance(reply.message, DeleteRecordsResponse)
    here, missing = reply.message.topics
    assert [here.name, missing.name] == [PARTITION.topic, "missing"]
    assert [(each.low_watermark, each.error_code) for each in here.partitions] == [(1, 0)]
    assert [each.partition_index for each in missing.partitions] == [*range(1, count)]
    codes = {each.error_code for each in missing.partitions}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_many_partitions_leave_turns_of_the_loop_to_others(world: World) -> None:
    count = TURNS * PARTITIONS_PER_TURN
    reply = delete(world, count)
    turns = 0
    async with asyncio.timeout(TIMEOUT_S):
        while not reply.is_done:
            await asyncio.sleep(0)
            turns += 1
    assert turns >= TURNS
    check(reply, count)


async def test_few_partitions_are_answered_at_once(world: World) -> None:
    check(delete(world, PARTITIONS_PER_TURN), PARTITIONS_PER_TURN)

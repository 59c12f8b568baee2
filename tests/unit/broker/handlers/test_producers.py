"""DescribeProducers: every online replica describes its remembered producers."""

from pathlib import Path

import pytest

from broker.handlers.producers import DescribeProducersHandler
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import LeaderEpoch
from kafkawire.messages.describe_producers import (
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopic,
)
from kafkawire.records import BatchBuilder
from tests.unit.broker.replicas import B2, NOW_MS, PARTITION, World
from tests.unit.broker.requests import request


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


def describe(world: World, partition: int = PARTITION.partition) -> DescribeProducersPartition:
    topic = DescribeProducersTopic(name=PARTITION.topic, partition_indexes=[partition])
    message = DescribeProducersRequest(topics=[topic])
    handler = DescribeProducersHandler(world.replicas)
    response = handler.handle(request(ApiKey.DESCRIBE_PRODUCERS, 0), message).message
    assert isinstance(response, DescribeProducersResponse)
    return response.topics[0].partitions[0]


async def test_a_follower_describes_its_producers_like_the_leader(world: World) -> None:
    builder = BatchBuilder(producer_id=7, producer_epoch=0, base_sequence=0)
    builder.append(NOW_MS, b"key", b"value")
    world.replicas.append(PARTITION, memoryview(builder.build()), -1, NOW_MS)
    as_leader = describe(world)
    world.replica.follow(B2, LeaderEpoch(1))
    as_follower = describe(world)
    assert [each.producer_id for each in as_leader.active_producers] == [7]
    assert as_follower == as_leader


async def test_a_partition_that_does_not_exist_fails_alone(world: World) -> None:
    answer = describe(world, partition=9)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_message

"""Responses to produce requests: `broker.handlers.produce`, with followers moved by the test."""

import asyncio
from pathlib import Path

import pytest

from broker.network.reply import EncodedMessage, Reply
from broker.network.request_tasks import RequestTasks
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import Offset
from kafkawire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafkawire.schema import decode
from tests.unit.broker.replicas import (
    B1,
    B2,
    B3,
    MAX_LAG_MS,
    NOW_MS,
    PARTITION,
    World,
    batch,
    make_produce_handler,
    turn,
)
from tests.unit.broker.requests import request


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


def produce(world: World, *, acks: int = -1, timeout_ms: int = 60_000) -> Reply:
    message = ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=0, records=batch(b"a", b"b"))]
            )
        ],
    )
    asked = request(ApiKey.PRODUCE, 9, message)
    handler = make_produce_handler(
        world.replicas, world.purgatory, RequestTasks(asyncio.get_running_loop())
    )
    return handler.handle(asked, decode(ProduceRequest, asked.body, 9))


def answer(reply: Reply) -> tuple[int, int]:
    """Return the error and the base offset of the one partition."""
    message = reply.message
    if isinstance(message, EncodedMessage):
        message = decode(ProduceResponse, message, 9)
    assert isinstance(message, ProduceResponse)
    found = message.responses[0].partition_responses[0]
    return found.error_code, found.base_offset


async def test_acks_all_waits_for_all_in_sync_replicas(world: World) -> None:
    world.replicate_to(B2)
    reply = produce(world)
    assert not reply.is_done
    world.follower_fetches(B2, 1)
    await turn()
    assert not reply.is_done, "half a batch is not enough"
    world.follower_fetches(B2, 2)
    await turn()
    assert answer(reply) == (ErrorCode.NONE, 0)
    assert world.purgatory.waiting.watcher_count == 0


async def test_the_leader_alone_is_enough_for_acks_1(world: World) -> None:
    world.replicate_to(B2)
    assert answer(produce(world, acks=1)) == (ErrorCode.NONE, 0)


async def test_silent_followers_time_out_and_the_records_stay(world: World) -> None:
    world.replicate_to(B2)
    reply = produce(world, timeout_ms=0)
    await turn()
    assert answer(reply) == (ErrorCode.REQUEST_TIMED_OUT, 0)
    assert world.log.log_end_offset == 2


async def test_records_and_errors_are_counted_once(world: World) -> None:
    world.replicate_to(B2)
    produce(world, acks=1)
    produce(world, timeout_ms=0)
    await turn()
    world.replicate_to(B2, min_insync_replicas=3)
    produce(world)
    traffic = world.replicas.table.traffic
    counted = traffic.total
    assert (counted.messages_in, counted.bytes_in > 0) == (4, True)
    assert traffic.produce_errors == {
        ErrorCode.REQUEST_TIMED_OUT: 1,
        ErrorCode.NOT_ENOUGH_REPLICAS: 1,
    }
    assert counted.failed_produce_count == 2


async def test_too_few_in_sync_replicas_refuse_before_the_append(world: World) -> None:
    world.replicate_to(B2, min_insync_replicas=3)
    assert answer(produce(world)) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert world.log.log_end_offset == 0
    assert answer(produce(world, acks=1)) == (ErrorCode.NONE, 0)


async def test_isr_shrunk_below_min_isr_after_the_append_is_reported(world: World) -> None:
    leadership = world.replicate_to(B2, B3, min_insync_replicas=2)
    reply = produce(world)
    world.follower_fetches(B2, 2)
    world.follower_fetches(B3, 2)
    leadership.on_append(Offset(3), NOW_MS)
    assert leadership.on_tick(NOW_MS + MAX_LAG_MS + 1)
    asked = leadership.proposal_to_send
    assert asked is not None
    alone = LeaderAndIsr(leader=B1, isr=(B1,), controller_epoch=1, partition_epoch=1)
    leadership.on_recorded(asked, alone, NOW_MS)
    await turn()
    assert answer(reply) == (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0)


async def test_the_end_of_a_leadership_is_reported(world: World) -> None:
    world.replicate_to(B2)
    reply = produce(world)
    world.replicas.roles.remove(PARTITION)
    await turn()
    assert answer(reply) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)


async def test_a_client_that_vanishes_leaves_its_records_and_no_waiter(world: World) -> None:
    world.replicate_to(B2)
    reply = produce(world)
    reply.cancel()
    assert world.purgatory.waiting.operation_count == 1, "a produce continues without its client"
    world.follower_fetches(B2, 2)
    await turn()
    assert world.purgatory.waiting.operation_count == 0
    assert world.replica.high_watermark == 2

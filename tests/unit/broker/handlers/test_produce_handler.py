"""Responses to produce requests: `broker.handlers.produce`, with followers moved by the test."""

import asyncio
from pathlib import Path

import pytest

from broker.cluster.metadata_cache import ClusterImage, Endpoint, LiveBroker
from broker.network.reply import EncodedMessage, Reply
from broker.network.request_tasks import RequestTasks
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, Offset
from kafkawire.messages.produce import (
    NodeEndpoint,
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


def produce(world: World, *, acks: int = -1, timeout_ms: int = 60_000, version: int = 9) -> Reply:
    message = ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name="t", partition_data=[PartitionProduceData(index=0, records=batch(b"a", b"b"))]
            )
        ],
    )
    asked = request(ApiKey.PRODUCE, version, message)
    handler = make_produce_handler(
        world.replicas,
        world.purgatory,
        RequestTasks(asyncio.get_running_loop()),
        metadata=world.metadata,
    )
    return handler.handle(asked, decode(ProduceRequest, asked.body, version))


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


def live(broker_id: BrokerId, **ports: int) -> LiveBroker:
    endpoints = {name: Endpoint("b.example", port) for name, port in ports.items()}
    return LiveBroker(broker_id=broker_id, endpoints=endpoints, rack="east")


def hints(reply: Reply) -> tuple[tuple[int, int], list[NodeEndpoint]]:
    """Return the leader that the response for the one partition names, and all addresses."""
    message = reply.message
    assert isinstance(message, ProduceResponse)
    leader = message.responses[0].partition_responses[0].current_leader
    return (leader.leader_id, leader.leader_epoch), list(message.node_endpoints)


NO_HINTS: tuple[tuple[int, int], list[NodeEndpoint]] = ((-1, -1), [])
NODE = NodeEndpoint(node_id=B2, host="b.example", port=9092, rack="east")


async def test_a_refused_batch_names_the_new_leader_and_its_address(world: World) -> None:
    brokers = {B2: live(B2, PLAINTEXT=9092, OTHER=9093), B3: live(B3, PLAINTEXT=9092)}
    world.metadata.adopt(ClusterImage(brokers=brokers))
    world.replica.follow(B2, LeaderEpoch(5))
    refused = produce(world, version=10)
    assert answer(refused) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert hints(refused) == ((B2, 5), [NODE])
    # The fields are new in version 10.
    assert hints(produce(world, version=9)) == NO_HINTS


async def test_a_leader_without_an_address_for_the_client_is_named_without(world: World) -> None:
    world.metadata.adopt(ClusterImage(brokers={B2: live(B2, OTHER=9093)}))
    world.replica.follow(B2, LeaderEpoch(5))
    assert hints(produce(world, version=10)) == ((B2, 5), [])
    world.replica.follow(B3, LeaderEpoch(6))
    assert hints(produce(world, version=10)) == ((B3, 6), [])


async def test_leadership_lost_while_the_batch_waits_names_the_new_leader(world: World) -> None:
    world.metadata.adopt(ClusterImage(brokers={B2: live(B2, PLAINTEXT=9092)}))
    world.replicate_to(B2)
    reply = produce(world, version=10)
    world.replica.follow(B2, LeaderEpoch(5))
    world.purgatory.on_change(PARTITION)
    await turn()
    assert answer(reply)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert hints(reply) == ((B2, 5), [NODE])


async def test_other_errors_name_no_leader(world: World) -> None:
    world.replicate_to(B2, min_insync_replicas=3)
    refused = produce(world, version=10)
    assert answer(refused)[0] == ErrorCode.NOT_ENOUGH_REPLICAS
    assert hints(refused) == NO_HINTS


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

"""Fetch by topic ids: `broker.handlers.fetch`, over a real log."""

import asyncio
import sys
from pathlib import Path

import pytest

from broker.cluster.metadata_cache import Endpoint, LiveBroker, MetadataCache
from broker.handlers.fetch import DelayedFetch, FetchHandler, FetchReader
from broker.handlers.follower_fetch import FollowerFetchHandler
from broker.handlers.leader_hint import LeaderHints
from broker.network.reply import Reply
from kafkawire.apis import ApiKey
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId
from kafkawire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tests.unit.broker.metadata import set_brokers
from tests.unit.broker.replicas import B2, NOW_MS, PARTITION, World, batch, turn
from tests.unit.broker.requests import request

OTHER_ID = TopicId(int=78)
VERSION = 13
B3 = BrokerId(3)


def reader(world: World, topic_id: TopicId, min_bytes: int = 0) -> FetchReader:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=topic_id, partitions=[wanted])
    message = FetchRequest(max_wait_ms=1, min_bytes=min_bytes, max_bytes=1 << 20, topics=[topic])
    return FetchReader(world.replicas, message, VERSION, 1 << 20)


def fetch(world: World, topic_id: TopicId) -> PartitionData:
    return reader(world, topic_id).read().responses[0].partitions[0]


def world_with_a_record(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.replicas.append(PARTITION, memoryview(bytearray(batch(b"a"))), 1, NOW_MS)
    return world


async def test_a_topic_is_fetched_by_its_id(tmp_path: Path) -> None:
    world = world_with_a_record(tmp_path)
    found = fetch(world, world.replica.topic_id)
    assert (found.error_code, found.high_watermark) == (ErrorCode.NONE, 1)


async def test_sent_bytes_and_errors_are_counted(tmp_path: Path) -> None:
    world = world_with_a_record(tmp_path)
    served = reader(world, world.replica.topic_id)
    served.charged(served.read(), None)
    refused = reader(world, OTHER_ID)
    refused.charged(refused.read(), None)
    traffic = world.replicas.table.traffic
    assert traffic.of(PARTITION.topic).bytes_out == len(batch(b"a"))
    assert traffic.of(PARTITION.topic).fetch_count == 1
    assert (traffic.total.fetch_count, traffic.total.failed_fetch_count) == (2, 1)
    assert traffic.fetch_errors == {ErrorCode.UNKNOWN_TOPIC_ID: 1}


async def test_the_id_of_a_former_topic_of_that_name_reads_nothing(tmp_path: Path) -> None:
    world = world_with_a_record(tmp_path)
    # Another partition of the former topic still exists.
    world.replicas.table.topic_names.add(OTHER_ID, PARTITION.topic)
    found = fetch(world, OTHER_ID)
    assert (found.error_code, found.records) == (ErrorCode.INCONSISTENT_TOPIC_ID, b"")


async def test_the_id_of_a_topic_without_replicas_is_unknown(tmp_path: Path) -> None:
    world = world_with_a_record(tmp_path)
    world.replicas.table.remove(PARTITION)
    for topic_id in (world.replica.topic_id, ZERO_TOPIC_ID):
        assert fetch(world, topic_id).error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_partitions_that_are_not_here_fail_without_an_exception(tmp_path: Path) -> None:
    # One request may name 20,000 of them, and raising costs as much as the rest of their work.
    world = world_with_a_record(tmp_path)
    wanted = [FetchPartition(partition=number) for number in (-1, 1, 2)]
    topics = [FetchTopic(topic=name, partitions=wanted) for name in (PARTITION.topic, "missing")]
    unanswered = FetchReader(world.replicas, FetchRequest(topics=topics), 11, 1 << 20)
    raised: list[object] = []

    def trace(_frame: object, event: str, argument: object) -> object:
        if event == "exception":
            raised.append(argument)
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        response = unanswered.read()
    finally:
        sys.settrace(previous)
    codes = {found.error_code for topic in response.responses for found in topic.partitions}
    assert (codes, raised) == ({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}, [])
    assert unanswered.is_enough


async def test_a_refused_fetch_names_the_new_leader(tmp_path: Path) -> None:
    world = world_with_a_record(tmp_path)
    assert fetch(world, world.replica.topic_id).current_leader.leader_id == -1
    world.replica.follow(B2, LeaderEpoch(5))
    found = fetch(world, world.replica.topic_id)
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (B2, 5)


@pytest.mark.parametrize(("version", "has_address"), [(15, False), (16, True)])
async def test_a_refused_fetch_has_the_address_of_the_new_leader(
    tmp_path: Path, version: int, has_address: bool
) -> None:
    world, cache = world_with_a_record(tmp_path), MetadataCache()
    brokers = [
        LiveBroker(broker_id=each, endpoints={listener: Endpoint("h", 9092)}, rack="r")
        for each, listener in ((B2, "PLAINTEXT"), (B3, "OTHER"))
    ]
    set_brokers(cache, brokers, B2)
    hints = LeaderHints(world.replicas.leader_of, cache)
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=world.replica.topic_id, partitions=[wanted, wanted])
    message = FetchRequest(max_wait_ms=1, min_bytes=0, max_bytes=1 << 20, topics=[topic])
    found = []
    for leader in (B2, B3):
        world.replica.follow(leader, LeaderEpoch(5))
        asked = FetchReader(
            world.replicas,
            message,
            version,
            1 << 20,
            hints=hints,
            listener_name="PLAINTEXT",
        )
        response = asked.charged(asked.read(), None)
        found += [
            (each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints
        ]
    assert found == ([(B2, "h", 9092, "r")] if has_address else [])


async def test_a_follower_serves_clients_with_a_rack_up_to_its_high_watermark(
    tmp_path: Path,
) -> None:
    world = world_with_a_record(tmp_path)
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=world.replica.topic_id, partitions=[wanted])
    message = FetchRequest(max_wait_ms=1, min_bytes=0, max_bytes=1 << 20, topics=[topic])

    def read() -> PartitionData:
        near = FetchReader(world.replicas, message, VERSION, 1 << 20, client_rack="r1")
        return near.read().responses[0].partitions[0]

    world.replica.follow(B2, LeaderEpoch(5))
    assert (read().error_code, read().high_watermark) == (ErrorCode.NONE, 1)
    world.replica.resign()
    assert read().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_waiting_fetch_is_answered_when_its_topic_is_recreated(tmp_path: Path) -> None:
    world = World(tmp_path)
    waiting = reader(world, world.replica.topic_id, min_bytes=1)
    waiting.read()
    delayed = DelayedFetch(waiting, None, lambda _delayed: None)
    assert not delayed.is_satisfied(PARTITION)
    world.replica.topic_id = OTHER_ID
    assert delayed.is_satisfied(PARTITION)


async def test_a_follower_of_a_former_topic_gets_nothing(tmp_path: Path) -> None:
    world = world_with_a_record(tmp_path)
    world.replicate_to(B2)

    def read(topic_id: TopicId) -> int:
        return world.replicas.followers.read(
            PARTITION,
            B2,
            0,
            1 << 20,
            leader_epoch=-1,
            last_fetched_epoch=-1,
            min_one_batch=True,
            topic_id=topic_id,
        ).log_end_offset

    assert read(world.replica.topic_id) == 1
    with pytest.raises(ApiError) as refused:
        read(OTHER_ID)
    assert refused.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


async def test_waiting_requests_hold_a_limited_number_of_partitions(tmp_path: Path) -> None:
    world = World(tmp_path)
    followers = FollowerFetchHandler(
        world.replicas,
        world.purgatory,
        loop=asyncio.get_running_loop(),
        max_sessions=1,
        max_bytes=1 << 20,
        clock_ms=lambda: NOW_MS,
    )
    handler = FetchHandler(
        world.replicas, world.purgatory, 1 << 20, followers, max_held_partitions=3
    )
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    message = FetchRequest(
        max_wait_ms=2**31 - 1,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=PARTITION.topic, partitions=[wanted, wanted])],
    )

    def ask() -> Reply:
        return handler.handle(request(ApiKey.FETCH, 12), message)

    waiting = ask()
    assert [waiting.is_done, ask().is_done] == [False, True], "the first alone may wait"
    waiting.cancel()
    again = ask()
    done = [again.is_done]
    world.replicas.append(PARTITION, memoryview(bytearray(batch(b"a"))), 1, NOW_MS)
    await turn()
    assert [*done, again.is_done] == [False, True]
    assert handler._held_count == 0

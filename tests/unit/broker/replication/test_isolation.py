"""Fetch and ListOffsets at both isolation levels, and completion of a waiting fetch."""

import asyncio
import inspect
from pathlib import Path

import pytest

from broker.handlers.fetch import FetchHandler
from broker.handlers.follower_fetch import FollowerFetchHandler
from broker.handlers.offset_lookup import ListOffsetsHandler
from broker.network.reply import Reply
from broker.network.request_tasks import RequestTasks
from broker.replication.replica import Replica
from broker.replication.replica_manager import ReplicaManager
from kafkawire.apis import ApiKey
from kafkawire.ids import Offset
from kafkawire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkawire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkawire.records import ControlType
from kafkawire.sentinels import LATEST_TIMESTAMP, MAX_TIMESTAMP, READ_COMMITTED
from storage.producers.producer_state import NewMarker
from storage.segment.segment import FileRegion
from tests.unit.broker.replicas import B2, NOW_MS, PARTITION, World, turn
from tests.unit.broker.requests import request
from tests.unit.storage.produced_batches import marker, produced, write

READ_UNCOMMITTED = 0
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
VERSION = 12


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


def append(world: World, batch: bytearray) -> None:
    """Append as a transaction coordinator would, which does not exist yet."""
    info = write(world.log, batch)
    assert world.replica.leadership is not None
    world.replica.leadership.on_append(Offset(info.last_offset + 1), NOW_MS)
    world.replicas.events.changed(PARTITION)


def begin(world: World, producer_id: int = 7) -> None:
    append(world, produced(producer_id, 0, is_transactional=True))


def end(world: World, kind: ControlType, producer_id: int = 7) -> None:
    append(world, marker(producer_id, world.log.log_end_offset, kind))


def fetch(
    world: World, isolation: int, offset: int = 0, *, max_wait_ms: int = 0, min_bytes: int = 1
) -> Reply:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    message = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        isolation_level=isolation,
        topics=[FetchTopic(topic="t", partitions=[wanted])],
    )
    followers = FollowerFetchHandler(
        world.replicas,
        world.purgatory,
        loop=asyncio.get_running_loop(),
        max_sessions=1,
        max_bytes=1 << 20,
        clock_ms=lambda: NOW_MS,
    )
    handler = FetchHandler(world.replicas, world.purgatory, 1 << 20, followers)
    return handler.handle(request(ApiKey.FETCH, VERSION, message), message)


def result_of(reply: Reply) -> PartitionData:
    assert isinstance(reply.message, FetchResponse)
    return reply.message.responses[0].partitions[0]


def size_of(data: PartitionData) -> int:
    return data.records.size_bytes if isinstance(data.records, FileRegion) else 0


def latest(
    world: World, isolation: int, timestamp: int = LATEST_TIMESTAMP, replica_id: int = -1
) -> int:
    wanted = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=timestamp)])
    message = ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation, topics=[wanted])
    tasks = RequestTasks(asyncio.get_running_loop())
    handler = ListOffsetsHandler(tasks, world.replicas, lambda: 0)
    reply = handler.handle(request(ApiKey.LIST_OFFSETS, 7, message), message)
    assert isinstance(reply.message, ListOffsetsResponse)
    return reply.message.topics[0].partitions[0].offset


async def test_committed_reader_gets_records_up_to_an_open_transaction(world: World) -> None:
    begin(world, 7)
    end(world, COMMIT, 7)
    begin(world, 8)
    everything = result_of(fetch(world, READ_UNCOMMITTED))
    decided = result_of(fetch(world, READ_COMMITTED))
    for data in (everything, decided):
        assert (data.high_watermark, data.last_stable_offset) == (3, 2)
    assert size_of(everything) == world.log.size_bytes
    assert 0 < size_of(decided) < world.log.size_bytes
    assert everything.aborted_transactions is None
    assert decided.aborted_transactions == []


async def test_only_committed_reader_gets_aborted_transactions(world: World) -> None:
    begin(world, 7)
    end(world, ABORT, 7)
    assert result_of(fetch(world, READ_UNCOMMITTED)).aborted_transactions is None
    data = result_of(fetch(world, READ_COMMITTED))
    assert data.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=0)]
    assert size_of(data) == world.log.size_bytes


async def test_committed_reader_gets_no_record_beyond_the_last_stable_offset(
    world: World,
) -> None:
    begin(world)
    end(world, COMMIT, 8)
    data = result_of(fetch(world, READ_COMMITTED, 1))
    assert (data.error_code, size_of(data), data.aborted_transactions) == (0, 0, [])


async def test_waiting_fetch_completes_when_the_marker_is_committed(world: World) -> None:
    world.replicate_to(B2)
    begin(world)
    world.follower_fetches(B2, 1)
    reply = fetch(world, READ_COMMITTED, max_wait_ms=60_000)
    end(world, ABORT)
    await turn()
    states = [reply.is_done]
    world.follower_fetches(B2, 2)
    await turn()
    assert [*states, reply.is_done] == [False, True], (
        "the fetch completes only when the marker is replicated"
    )
    data = result_of(reply)
    assert data.aborted_transactions == [AbortedTransaction(producer_id=7, first_offset=0)]
    assert (size_of(data), data.last_stable_offset) == (world.log.size_bytes, 2)


def test_no_other_task_runs_within_a_read() -> None:
    """The end of the records and the offsets of a response come from one state (KAFKA-9807)."""
    for read in (ReplicaManager.read, Replica.read):
        assert not inspect.iscoroutinefunction(read)
        assert not inspect.isgeneratorfunction(read)


async def test_latest_offset_is_the_last_stable_one_for_committed_readers_only(
    world: World,
) -> None:
    world.replicate_to(B2)
    begin(world, 7)
    end(world, COMMIT, 7)
    begin(world, 8)
    begin(world, 9)
    world.follower_fetches(B2, 3)
    assert latest(world, READ_COMMITTED) == 2
    assert latest(world, READ_UNCOMMITTED) == 3
    assert latest(world, READ_COMMITTED, replica_id=2) == 4


async def test_timestamp_is_not_found_in_an_open_transaction(world: World) -> None:
    begin(world)
    for timestamp in (NOW_MS, MAX_TIMESTAMP):
        assert latest(world, READ_UNCOMMITTED, timestamp) == 0
        assert latest(world, READ_COMMITTED, timestamp) == -1


async def test_follower_drops_ended_transactions_once_they_are_committed(
    world: World,
) -> None:
    world.replicate_to(B2)
    begin(world)
    end(world, COMMIT)
    world.replica.resign()
    assert len(world.log.producers.ended_below(Offset(2))) == 1
    world.replica.adopt_high_watermark(2)
    assert world.log.producers.ended_below(Offset(2)) == []


async def test_leader_drops_ended_transactions_although_nobody_reads(world: World) -> None:
    for producer_id in range(3):
        begin(world, producer_id)
        [offset] = world.replica.append_markers([NewMarker(producer_id, 0, COMMIT, 0)], NOW_MS)
        assert world.replica.high_watermark == world.log.log_end_offset
        assert isinstance(offset, int)
        assert world.log.producers.ended_below(world.log.log_end_offset) == []


async def test_leader_keeps_ended_transactions_that_are_not_committed(world: World) -> None:
    world.replicate_to(B2)
    begin(world)
    world.replica.append_markers([NewMarker(7, 0, COMMIT, 0)], NOW_MS)
    assert len(world.log.producers.ended_below(world.log.log_end_offset)) == 1
    assert world.replica.last_stable_offset == 0


async def test_deleting_the_head_of_an_open_transaction_moves_the_last_stable_offset(
    world: World,
) -> None:
    begin(world)
    append(world, produced(7, 1, is_transactional=True))
    world.replicas.delete_records(PARTITION, 1)
    assert latest(world, READ_COMMITTED) == 1
    end(world, ABORT)
    assert latest(world, READ_COMMITTED) == 3

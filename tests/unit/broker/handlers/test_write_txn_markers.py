"""Transaction markers from coordinators, with followers moved by the test."""

import asyncio
import errno
from dataclasses import dataclass
from pathlib import Path

import pytest

from broker.handlers import write_txn_markers
from broker.handlers.write_txn_markers import WriteTxnMarkersHandler
from broker.network.reply import Reply, ReplyState
from broker.network.request_tasks import RequestTasks
from broker.purgatory import Purgatory
from broker.transactions.marker_senders import MAX_SENDERS, MarkerSenders
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkawire.schema import decode
from tests.unit.broker.replicas import B1, B2, B3, MAX_LAG_MS, NOW_MS, PARTITION, World, turn
from tests.unit.broker.requests import request
from tests.unit.storage.faults import failing
from tests.unit.storage.produced_batches import produced, write

NONE = ErrorCode.NONE
EPOCH = 5
"""Epoch of the coordinator."""


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


@dataclass(frozen=True)
class Sent:
    """A marker for partitions of a topic."""

    producer_id: int = 7
    epoch: int = 0
    is_commit: bool = True
    coordinator_epoch: int = EPOCH
    topic: str = PARTITION.topic
    partitions: tuple[int, ...] = (0,)


def handler_of(world: World, timeout_ms: int = 30_000) -> WriteTxnMarkersHandler:
    return WriteTxnMarkersHandler(
        world.replicas,
        world.purgatory,
        RequestTasks(asyncio.get_running_loop()),
        lambda _partition, _markers: None,
        timeout_ms=timeout_ms,
        now_ms=lambda: NOW_MS,
    )


def send(world: World, *sent: Sent, timeout_ms: int = 30_000) -> Reply:
    return send_on(1, handler_of(world, timeout_ms), *sent)


def send_on(
    connection: int, handler: WriteTxnMarkersHandler, *sent: Sent, client_id: str = "sender"
) -> Reply:
    """Send markers on the connection with this number."""
    message = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                transaction_result=each.is_commit,
                topics=[WritableTxnMarkerTopic(name=each.topic, partition_indexes=each.partitions)],
                coordinator_epoch=each.coordinator_epoch,
            )
            for each in sent
        ]
    )
    asked = request(ApiKey.WRITE_TXN_MARKERS, 1, message, client_id=client_id, number=connection)
    return handler.handle(asked, decode(WriteTxnMarkersRequest, asked.body, 1))


def codes(reply: Reply) -> list[tuple[int, str, int, int]]:
    """Return producer, topic, partition and error of each result."""
    assert isinstance(reply.message, WriteTxnMarkersResponse)
    return [
        (marker.producer_id, topic.name, each.partition_index, each.error_code)
        for marker in reply.message.markers
        for topic in marker.topics
        for each in topic.partitions
    ]


def only_code(reply: Reply) -> int:
    [(_, _, _, code)] = codes(reply)
    return code


def begin(world: World, *producer_ids: int) -> None:
    for producer_id in producer_ids:
        info = write(world.log, produced(producer_id, 0, is_transactional=True))
        assert world.replica.leadership is not None
        world.replica.leadership.on_append(Offset(info.last_offset + 1), NOW_MS)


async def test_markers_are_answered_once_all_in_sync_replicas_have_them(world: World) -> None:
    begin(world, 7, 8)
    world.replicate_to(B2)
    world.follower_fetches(B2, 2)
    reply = send(world, Sent(7), Sent(8, is_commit=False))
    assert not reply.is_done
    world.follower_fetches(B2, 3)
    await turn()
    assert not reply.is_done, "only the first marker is replicated"
    world.follower_fetches(B2, 4)
    await turn()
    assert codes(reply) == [(7, "t", 0, NONE), (8, "t", 0, NONE)]
    assert world.replica.last_stable_offset == 4
    assert world.purgatory.waiting.watcher_count == 0


async def test_bad_markers_and_partitions_do_not_fail_the_others(world: World) -> None:
    begin(world, 7)
    assert only_code(send(world, Sent(7, epoch=1))) == NONE
    reply = send(
        world,
        Sent(7, epoch=0),
        Sent(7, epoch=1, coordinator_epoch=EPOCH - 1),
        Sent(7, epoch=1, partitions=(0, 9)),
        Sent(-1),
        Sent(7, epoch=-1),
        Sent(8, topic="unknown"),
    )
    assert codes(reply) == [
        (7, "t", 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (7, "t", 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (7, "t", 0, NONE),
        (7, "t", 9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, "t", 0, ErrorCode.INVALID_REQUEST),
        (7, "t", 0, ErrorCode.INVALID_REQUEST),
        (8, "unknown", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert world.log.log_end_offset == 3


async def test_marker_without_a_transaction_is_appended_all_the_same(world: World) -> None:
    """The coordinator repeats markers when a response was lost."""
    assert only_code(send(world, Sent(is_commit=False))) == NONE
    assert world.log.log_end_offset == 1
    assert world.replica.last_stable_offset == 1


async def test_too_few_in_sync_replicas_refuse_before_the_append(world: World) -> None:
    world.replicate_to(B2, min_insync_replicas=3)
    assert only_code(send(world, Sent())) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.log.log_end_offset == 0


async def test_isr_shrunk_below_min_isr_after_the_append_is_reported(world: World) -> None:
    leadership = world.replicate_to(B2, B3, min_insync_replicas=2)
    reply = send(world, Sent())
    world.follower_fetches(B2, 1)
    world.follower_fetches(B3, 1)
    leadership.on_append(Offset(2), NOW_MS)
    assert leadership.on_tick(NOW_MS + MAX_LAG_MS + 1)
    asked = leadership.proposal_to_send
    assert asked is not None
    alone = LeaderAndIsr(leader=B1, isr=(B1,), controller_epoch=1, partition_epoch=1)
    leadership.on_recorded(asked, alone, NOW_MS)
    await turn()
    assert only_code(reply) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


async def test_silent_followers_time_out_and_the_markers_stay(world: World) -> None:
    world.replicate_to(B2)
    reply = send(world, Sent(7, partitions=(0, 9)), timeout_ms=0)
    await turn()
    assert [code for *_, code in codes(reply)] == [
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert world.log.log_end_offset == 1


async def test_silent_followers_are_reported_before_the_sender_gives_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the markers of all other partitions in the request would be sent again."""
    waits_ms: list[int] = []

    def hold(_self: object, _operation: object, _keys: object, timeout_ms: int) -> None:
        waits_ms.append(timeout_ms)

    monkeypatch.setattr(Purgatory, "hold", hold)
    world.replicate_to(B2)
    send(world, Sent(), timeout_ms=30_000)
    assert waits_ms == [15_000]


@pytest.mark.parametrize("is_leader_again", [False, True])
async def test_markers_of_an_earlier_leadership_are_not_confirmed(
    world: World, is_leader_again: bool
) -> None:
    """Another leader may have replaced the markers, even if this broker leads again."""
    world.replicate_to(B2)
    reply = send(world, Sent())
    world.replica.resign()
    if is_leader_again:
        state = LeaderAndIsr(leader=B1, isr=(B1,), controller_epoch=1, leader_epoch=LeaderEpoch(9))
        world.lead_in(state)
    world.replicas.events.changed(PARTITION)
    await turn()
    assert only_code(reply) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_removed_partition_is_reported(world: World) -> None:
    world.replicate_to(B2)
    reply = send(world, Sent())
    world.replicas.roles.remove(PARTITION)
    await turn()
    assert only_code(reply) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_full_disk_fails_its_partition(world: World) -> None:
    with failing("pwrite", errno.ENOSPC, at=lambda path: path.suffix == ".log"):
        assert only_code(send(world, Sent())) == ErrorCode.KAFKA_STORAGE_ERROR


async def test_many_markers_take_several_turns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_txn_markers, "MARKERS_PER_WRITE", 3)
    reply = send(world, *(Sent(producer_id) for producer_id in range(10)))
    ends = [world.log.log_end_offset]
    while not reply.is_done:
        await asyncio.sleep(0)
        ends.append(world.log.log_end_offset)
    assert sorted(set(ends)) == [3, 6, 9, 10]
    assert [code for *_, code in codes(reply)] == [NONE] * 10


async def test_empty_request_is_answered(world: World) -> None:
    assert codes(send(world)) == []


async def test_markers_on_an_earlier_connection_of_their_sender_are_not_written(
    world: World,
) -> None:
    handler = handler_of(world)
    assert only_code(send_on(2, handler, Sent())) == NONE
    begin(world, 7)
    late = send_on(1, handler, Sent())
    assert late.state is ReplyState.CLOSE
    assert world.log.log_end_offset == 2
    assert world.replica.last_stable_offset == 1, "the transaction is still open"
    assert only_code(send_on(1, handler, Sent(8), client_id="other")) == NONE
    assert only_code(send_on(2, handler, Sent())) == NONE
    assert world.log.log_end_offset == 4


async def test_rest_of_a_request_is_not_written_after_one_on_a_later_connection(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_txn_markers, "MARKERS_PER_WRITE", 3)
    handler = handler_of(world)
    early = send_on(1, handler, *(Sent(producer_id) for producer_id in range(10)))
    assert only_code(send_on(2, handler, Sent(9))) == NONE
    await turn()
    assert early.state is ReplyState.CLOSE
    assert world.log.log_end_offset == 4


def test_least_recent_senders_are_forgotten() -> None:
    senders = MarkerSenders()
    assert senders.note(("host", "first"), 2)
    for number in range(MAX_SENDERS - 1):
        assert senders.note(("host", str(number)), 1)
    assert not senders.note(("host", "first"), 1)
    assert senders.note(("host", "another"), 1)
    assert senders.note(("host", "first"), 1), "it was silent for longest"

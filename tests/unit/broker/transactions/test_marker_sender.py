"""Sending markers to leaders that move, fail and vanish: `broker.transactions.marker_sender`."""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from broker.cluster.metadata_cache import Endpoint, LiveBroker, MetadataCache, TopicState
from broker.cluster.peer import Peer, PeerError
from broker.cluster.peers import Peers
from broker.network.reply import Reply
from broker.transactions import marker_sender
from broker.transactions.marker_queues import Outgoing
from broker.transactions.marker_sender import MarkerSender
from broker.transactions.transaction_effects import Ending, ProducerIdentity
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.transactions import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkawire.sentinels import NO_LEADER
from tests.unit.broker.metadata import partition_state, put_topics, set_brokers
from tests.waiting import until

US, THEM = BrokerId(1), BrokerId(2)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Answer = Callable[[WriteTxnMarkersRequest], WriteTxnMarkersResponse]


def answer(code: ErrorCode = ErrorCode.NONE) -> Answer:
    """Return a leader that gives every marker the same result."""

    def respond(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=code
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    return respond


class FakePeer:
    """The other broker."""

    def __init__(self, world: "World", endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.is_closed = False
        self._world = world
        self._pending: asyncio.Future[None] | None = None

    async def ask(self, request: WriteTxnMarkersRequest, _type: Any, *, timeout_ms: int) -> Any:
        assert timeout_ms == 5
        await asyncio.sleep(0)
        self._world.sent.append((THEM, request))
        if self._world.hangs:
            self._pending = asyncio.get_running_loop().create_future()
            await self._pending
        if self._world.failures:
            raise self._world.failures.pop(0)
        return self._world.answers[THEM](request)

    def interrupt(self) -> None:
        if self._pending is not None:
            self._pending.set_exception(PeerError("the connection was given up"))

    async def close(self) -> None:
        self.is_closed = True


class World:
    """Two partitions, two brokers, and a sender at broker 1."""

    def __init__(self) -> None:
        self.cache = MetadataCache()
        self.answers: dict[BrokerId, Answer] = {US: answer(), THEM: answer()}
        self.failures: list[Exception] = []
        self.sent: list[tuple[BrokerId, WriteTxnMarkersRequest]] = []
        self.done: list[TopicPartition] = []
        self.peers: list[FakePeer] = []
        self.port: int | None = 9092
        self.hangs = False
        self.held: list[tuple[Reply, WriteTxnMarkersRequest]] | None = None
        set_brokers(self.cache, [LiveBroker(broker_id=THEM, endpoints={})], THEM)
        self.cache.adopt(replace(self.cache.image, is_complete=True))
        self.lead(US, US)
        self.sender = MarkerSender(
            US,
            self.cache,
            peers=Peers(self._endpoint_of, self._make_peer),
            write_own=self._write_own,
            on_marker=self._on_marker,
            loop=asyncio.get_running_loop(),
            timeout_ms=5,
        )

    def lead(self, *leaders: BrokerId) -> None:
        states = {n: partition_state(n, leader, US) for n, leader in enumerate(leaders)}
        put_topics(self.cache, [TopicState(name="t", topic_id=uuid.UUID(int=1), partitions=states)])

    def send(self, *partitions: TopicPartition, producer_id: int = 7) -> Outgoing:
        ending = Ending("id", True, ProducerIdentity(producer_id, 0), set(partitions))
        outgoing = Outgoing(ending, 3, 5)
        self.sender.send(outgoing)
        return outgoing

    def _endpoint_of(self, broker_id: BrokerId) -> Endpoint | None:
        is_known = broker_id == THEM and self.port is not None
        return Endpoint("them", self.port or 0) if is_known else None

    def _make_peer(self, endpoint: Endpoint) -> Peer:
        self.peers.append(FakePeer(self, endpoint))
        return cast(Peer, self.peers[-1])

    def _write_own(self, request: WriteTxnMarkersRequest) -> Reply:
        self.sent.append((US, request))
        if self.held is None:
            return Reply(self.answers[US](request))
        reply = Reply()
        self.held.append((reply, request))
        return reply

    def _on_marker(self, outgoing: Outgoing, partition: TopicPartition) -> None:
        outgoing.ending.remaining.discard(partition)
        self.done.append(partition)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_sender, "RETRY_S", 0.0)
    monkeypatch.setattr(marker_sender, "LOOK_UP_S", 0.0)


async def test_own_partitions_take_no_socket_and_no_turn() -> None:
    world = World()
    world.send(T0, T1)
    assert (sorted(world.done), world.sender.ending_count) == ([T0, T1], 0)
    assert world.peers == []
    await world.sender.stop()


async def test_each_leader_gets_its_markers() -> None:
    world = World()
    world.lead(US, THEM)
    world.send(T0, T1)
    await until(lambda: len(world.done) == 2)
    assert {broker for broker, _ in world.sent} == {US, THEM}
    assert world.sent[0][1].markers[0].coordinator_epoch == 5
    await world.sender.stop()
    assert world.peers[0].is_closed


async def test_markers_that_queue_up_make_the_next_request() -> None:
    world = World()
    world.held = []
    world.send(T0, producer_id=1)
    world.send(T0, producer_id=2)
    world.send(T1, producer_id=3)
    assert len(world.sent) == 1
    [(reply, request)] = world.held
    world.held = None
    reply.complete(answer()(request))
    await until(lambda: len(world.done) == 3)
    assert [len(request.markers) for _, request in world.sent] == [1, 2]
    await world.sender.stop()


@pytest.mark.parametrize(
    "failures",
    [[PeerError("gone")], [PeerError("gone"), RuntimeError("a bug")]],
    ids=["no answer", "bug"],
)
async def test_markers_are_sent_until_they_are_written(failures: list[Exception]) -> None:
    world = World()
    world.lead(THEM, THEM)
    count = len(failures)
    world.failures = failures
    with capture_logs():
        world.send(T0)
        await until(lambda: bool(world.done))
    assert len(world.sent) == count + 1
    await world.sender.stop()


async def test_marker_follows_its_partition_to_a_new_leader() -> None:
    world = World()
    world.lead(THEM)
    world.answers[THEM] = answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    world.send(T0)
    await until(lambda: len(world.sent) > 1)
    world.lead(US)
    await until(lambda: bool(world.done))
    assert world.sent[-1][0] == US
    await world.sender.stop()


async def test_connection_follows_a_broker_that_moves() -> None:
    world = World()
    world.lead(THEM)
    world.send(T0)
    await until(lambda: len(world.done) == 1)
    world.port = 9999
    world.send(T0)
    await until(lambda: len(world.done) == 2)
    assert [peer.endpoint.port for peer in world.peers] == [9092, 9999]
    assert world.peers[0].is_closed
    await world.sender.stop()


async def test_broker_that_hangs_delays_no_marker_once_it_is_replaced() -> None:
    world = World()
    world.lead(THEM)
    world.hangs = True
    world.send(T0)
    await until(lambda: len(world.sent) == 1)
    world.port = None
    world.lead(US)
    await until(lambda: bool(world.done))
    assert world.sent[-1][0] == US
    await world.sender.stop()


async def test_own_bug_stops_no_other_marker() -> None:
    world = World()
    bugs: list[Exception] = [RuntimeError("a bug")]

    def fail_once(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        if bugs:
            raise bugs.pop()
        return answer()(request)

    world.answers[US] = fail_once
    with capture_logs() as lines:
        world.send(T0)
        world.send(T1, producer_id=8)
        await until(lambda: len(world.done) == 2)
    assert [each["event"] for each in lines] == ["markers.failed"]
    await world.sender.stop()


async def test_marker_waits_for_a_leader() -> None:
    world = World()
    world.lead(NO_LEADER)
    world.send(T0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (world.sent, world.sender.lost_count) == ([], 1)
    world.lead(US)
    assert world.done == [T0], "the change of the metadata is enough"
    await world.sender.stop()


async def test_deleted_partition_needs_no_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_sender, "DELETED_AFTER_S", 0.05)
    world = World()
    gone = TopicPartition("t", 9)
    world.send(T0, gone)
    assert world.done == [T0]
    await until(lambda: gone in world.done)
    assert world.sender.ending_count == 0
    await world.sender.stop()


async def test_no_marker_waits_for_a_new_partition_with_the_name_of_a_deleted_one() -> None:
    world = World()
    early, late = TopicPartition("t", 2), TopicPartition("t", 3)
    world.send(early)
    world.sender.on_partitions_deleted([early, late])
    world.send(T0, late, producer_id=8)
    assert sorted(world.done) == [T0, early, late]
    assert (world.sender.ending_count, world.sender.lost_count) == (0, 0)
    sent_count = len(world.sent)
    world.lead(US, US, US, US)
    assert len(world.sent) == sent_count
    world.send(late, producer_id=9)
    assert len(world.sent) == sent_count + 1, "the new partition needs one"
    await world.sender.stop()


async def test_only_the_latest_deletions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_sender, "MAX_DELETED", 2)
    world = World()
    gone = [TopicPartition("t", number) for number in (5, 6, 7)]
    world.sender.on_partitions_deleted(gone)
    world.send(*gone)
    # The partitions of an ending are a set.
    assert (sorted(world.done), world.sender.lost_count) == (gone[1:], 1)
    await world.sender.stop()


async def test_partition_that_is_not_known_yet_is_not_deleted() -> None:
    world = World()
    late = TopicPartition("t", 2)
    world.send(late)
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.done == []
    world.lead(US, US, US)
    assert world.done == [late]
    await world.sender.stop()


async def test_partition_is_not_deleted_before_the_metadata_are_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(marker_sender, "DELETED_AFTER_S", 0.0)
    world = World()
    world.cache.adopt(replace(world.cache.image, is_complete=False))
    world.send(TopicPartition("t", 9))
    for _ in range(20):
        await asyncio.sleep(0)
    assert (world.done, world.sender.lost_count) == ([], 1)
    await world.sender.stop()


async def test_superseded_markers_are_given_up() -> None:
    world = World()
    world.answers[US] = answer(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    with capture_logs() as lines:
        world.send(T0, T1)
        for _ in range(20):
            await asyncio.sleep(0)
    assert (len(world.sent), world.done, world.sender.ending_count) == (1, [], 0)
    assert lines[0]["outcome"] == "SUPERSEDED"
    await world.sender.stop()


async def test_unforeseen_error_stops_no_other_marker() -> None:
    world = World()
    world.answers[US] = answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with capture_logs() as lines:
        world.send(T0, producer_id=1)
    assert lines[0]["log_level"] == "error"
    world.answers[US] = answer()
    world.send(T1, producer_id=2)
    await until(lambda: bool(world.done))
    assert (world.done, world.sender.ending_count) == ([T1], 1)
    await world.sender.stop()


async def test_markers_of_a_lost_partition_are_dropped() -> None:
    world = World()
    world.held = []
    world.send(T0)
    world.sender.drop(3)
    [(reply, request)] = world.held
    reply.complete(answer()(request))
    await asyncio.sleep(0)
    assert (world.done, world.sender.ending_count) == ([], 0)
    await world.sender.stop()


async def test_stopped_sender_ignores_late_answers() -> None:
    world = World()
    world.held = []
    world.lead(US, THEM)
    world.send(T0, T1)
    await world.sender.stop()
    [(reply, request)] = world.held
    reply.complete(answer()(request))
    assert world.done == []

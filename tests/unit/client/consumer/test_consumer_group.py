"""Commits of a consumer under its membership, with a coordinator in memory."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio

from kafkawire.consumer_protocol import encode_assignment, encode_subscription
from kafkawire.errors import ErrorCode
from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.messages.consumer_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafkawire.messages.find_coordinator import FindCoordinatorResponse
from kafkawire.messages.group_membership import (
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from kafkawire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kafkawire.records import TimestampType
from kafkawire.sentinels import NO_OFFSET
from ottla.client.client_config import ClientConfig, ConsumerConfig, parse_bootstrap
from ottla.client.consumer.consumer_group import ConsumerGroup
from ottla.client.consumer.fetch_buffer import FetchBuffer
from ottla.client.consumer.group.group_config import GroupConfig, parse_assignors
from ottla.client.consumer.group.read_gate import ReadGate
from ottla.client.consumer.group.rebalance_listener import OnPartitions, RebalanceListener
from ottla.client.consumer.reading import Reading
from ottla.client.errors import (
    BrokerError,
    CommitFailedError,
    ConfigurationError,
    ProtocolError,
    RebalanceFailedError,
)
from ottla.client.network.cluster import Cluster
from ottla.client.offset import CommittedOffset, GroupMetadata
from ottla.client.record import ConsumerRecord
from ottla.client.retry import Backoff
from tests.unit.client.client_fakes import T0, T1
from tests.waiting import until

T2 = TopicPartition(T0.topic, 2)
VERSION = 8
MEMBER = "m-1"
HEARTBEAT_MS = 1


class FakeCoordinator:
    """Admits one member, assigns T0 to it, and records the commits that arrive."""

    def __init__(self) -> None:
        self.config = ClientConfig(bootstrap=parse_bootstrap("h:1"))
        self.backoff = Backoff(initial_s=0.001, max_s=0.001, random=lambda: 0.5)
        self.commits: list[OffsetCommitRequest] = []
        self.commit_error = ErrorCode.NONE
        self.offsets: list[OffsetFetchResponseGroup] = []
        self.membership_error = ErrorCode.NONE
        self.is_silent = False
        self.leave_count = 0
        self.join_count = 0
        self.leader = "another"
        self.metadata = SimpleNamespace(topics={})
        self.metadata_during_sync = self.metadata
        self.may_refresh = asyncio.Event()
        self.assigned = [T0.partition]
        self.generation = 1
        self.heartbeat_count = 0
        self.timeouts_s: dict[type, float | None] = {}
        """Time limit of the last request, by the type of its response."""
        held = (JoinGroupResponse, HeartbeatResponse, LeaveGroupResponse, OffsetCommitResponse)
        self.may_answer = {each: asyncio.Event() for each in held}
        for event in self.may_answer.values():
            event.set()
        self.join_begins = asyncio.Event()
        self.may_be_found = asyncio.Event()
        self.may_be_found.set()

    async def request_any(
        self, _message: object, _response_type: type, **_settings: Any
    ) -> FindCoordinatorResponse:
        """Return the response to FindCoordinator."""
        await self.may_be_found.wait()
        return FindCoordinatorResponse(node_id=1, host="h", port=1)

    async def refresh(self) -> None:
        """Return once metadata has arrived."""
        await self.may_refresh.wait()

    async def request_at(
        self,
        _broker: object,
        _address: object,
        message: Any,
        response_type: type,
        *,
        timeout_s: float | None,
        **_settings: Any,
    ) -> object:
        """Return the response of the group's coordinator."""
        self.timeouts_s[response_type] = timeout_s
        sent = message(VERSION) if callable(message) else message
        self.leave_count += response_type is LeaveGroupResponse
        if self.is_silent:
            await asyncio.Event().wait()
        if response_type is OffsetCommitResponse:
            self.commits.append(sent)
            is_past = sent.member_id and sent.generation_id_or_member_epoch != self.generation
            code = ErrorCode.ILLEGAL_GENERATION if is_past else self.commit_error
            row = OffsetCommitResponsePartition(partition_index=0, error_code=code)
            await self.may_answer[OffsetCommitResponse].wait()
            return OffsetCommitResponse(
                topics=[OffsetCommitResponseTopic(name=T0.topic, partitions=[row])]
            )
        if response_type is OffsetFetchResponse:
            return OffsetFetchResponse(groups=self.offsets)
        self.heartbeat_count += response_type is HeartbeatResponse
        if response_type is JoinGroupResponse:
            self.join_begins.set()
        if response_type in self.may_answer:
            await self.may_answer[response_type].wait()
        if response_type is JoinGroupResponse:
            self.join_count += 1
            subscription = ConsumerProtocolSubscription(topics=[T0.topic])
            return JoinGroupResponse(
                error_code=self.membership_error,
                generation_id=self.generation,
                member_id=MEMBER,
                leader=self.leader,
                protocol_name="range",
                members=[
                    JoinGroupResponseMember(
                        member_id=MEMBER, metadata=encode_subscription(subscription)
                    )
                ],
            )
        if response_type is SyncGroupResponse:
            self.metadata = self.metadata_during_sync
            rows = [AssignedPartitions(topic=T0.topic, partitions=self.assigned)]
            given = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=rows))
            return SyncGroupResponse(assignment=given)
        if response_type is HeartbeatResponse:
            is_past = sent.generation_id != self.generation
            past = ErrorCode.ILLEGAL_GENERATION if is_past else ErrorCode.NONE
            return HeartbeatResponse(error_code=self.membership_error or past)
        return LeaveGroupResponse()


class Rig:
    """The group side of a consumer, without a fetcher."""

    def __init__(
        self,
        *,
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        assignor: str = "range",
        session_timeout_ms: int = 45_000,
        max_poll_interval_ms: int = 300_000,
    ) -> None:
        self.coordinator = FakeCoordinator()
        loop = asyncio.get_running_loop()
        self.buffer = FetchBuffer(ConsumerConfig())
        self.reading = Reading(self.buffer, None, lambda: None)
        self.gate = ReadGate(loop, self.buffer.interrupt)
        self.group = ConsumerGroup(
            cast(Cluster, self.coordinator),
            GroupConfig(
                group_id="g",
                assignors=parse_assignors([assignor]),
                session_timeout_ms=session_timeout_ms,
                heartbeat_interval_ms=HEARTBEAT_MS,
                max_poll_interval_ms=max_poll_interval_ms,
                enable_auto_commit=enable_auto_commit,
                auto_commit_interval_ms=auto_commit_interval_ms,
            ),
            self.reading,
            self.gate,
        )

    async def join(self) -> None:
        """Become a member that reads T0 at position 5."""
        self.group.subscribe([T0.topic], RebalanceListener())
        await until(lambda: self.reading.partitions() == [T0], "the assignment")
        self.reading.seek(self.reading.state(T0), 5)

    def hand_over(self, offset: int) -> None:
        """Hand over the records from `offset` to position 5 to the application."""
        first = ConsumerRecord(
            T0.topic,
            T0.partition,
            Offset(offset),
            timestamp_ms=0,
            key=None,
            value=None,
            headers=(),
            timestamp_type=TimestampType.CREATE_TIME,
            leader_epoch=LeaderEpoch(-1),
        )
        self.buffer.hand_out()
        self.buffer.hold_from(self.reading.state(T0), first)

    async def lose(self) -> None:
        """Be removed from the group while a record is in hand."""
        self.gate.leave(with_records=True)
        self.coordinator.membership_error = ErrorCode.UNKNOWN_MEMBER_ID
        await until(lambda: self.gate.is_held, "the end of the membership")

    async def heartbeats(self) -> None:
        """Wait until a heartbeat that begins from now on has ended."""
        sent_before = self.coordinator.heartbeat_count
        await until(
            lambda: self.coordinator.heartbeat_count > sent_before + 1, "two more heartbeats"
        )

    async def stop(self, timeout_s: float = 60.0) -> None:
        self.gate.give_back()
        await self.group.stop(asyncio.get_running_loop().time() + timeout_s)


@pytest_asyncio.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await rig.stop()


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(Offset(offset))


def offsets_of(place: TopicPartition, offset: int) -> OffsetFetchResponseTopics:
    row = OffsetFetchResponsePartitions(
        partition_index=place.partition, committed_offset=offset, metadata=""
    )
    return OffsetFetchResponseTopics(name=place.topic, partitions=[row])


async def test_a_member_commits_under_its_member_id(rig: Rig) -> None:
    await rig.join()
    await rig.group.commit_processed()
    [commit] = rig.coordinator.commits
    assert (commit.member_id, commit.generation_id_or_member_epoch) == (MEMBER, 1)


def committed_offsets(rig: Rig) -> list[int]:
    return [
        partition.committed_offset
        for commit in rig.coordinator.commits
        for topic in commit.topics
        for partition in topic.partitions
    ]


async def test_an_automatic_commit_does_not_undo_one_of_the_application(rig: Rig) -> None:
    await rig.join()
    rig.hand_over(3)
    await rig.group.commit({T0: at(5)})
    await rig.group.commit_processed()
    assert committed_offsets(rig) == [5]


async def test_a_commit_to_a_topic_that_was_created_again_does_not_stand(rig: Rig) -> None:
    await rig.join()
    rig.hand_over(3)
    await rig.group.commit({T0: at(5)})
    rig.group.forget_commits([T0])
    await rig.group.commit_processed()
    assert committed_offsets(rig) == [5, 3]


async def test_an_automatic_commit_does_not_overtake_one_of_the_application(rig: Rig) -> None:
    await rig.join()
    rig.hand_over(3)
    rig.coordinator.may_be_found.clear()
    commit = asyncio.ensure_future(rig.group.commit({T0: at(5)}))
    await asyncio.sleep(0)
    automatic = asyncio.ensure_future(rig.group.commit_processed())
    rig.coordinator.may_be_found.set()
    await asyncio.gather(commit, automatic)
    assert committed_offsets(rig) == [5]


async def begun(rig: Rig, offset: int) -> "asyncio.Future[None]":
    """Return a commit that is refused for now, and that is sent again until it succeeds."""
    rig.coordinator.commit_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    commit = asyncio.ensure_future(rig.group.commit({T0: at(offset)}))
    await until(lambda: bool(rig.coordinator.commits), "the first attempt")
    return commit


async def test_a_repeated_commit_does_not_undo_a_later_one(rig: Rig) -> None:
    await rig.join()
    rig.hand_over(3)
    commit = await begun(rig, 5)
    rig.coordinator.commit_error = ErrorCode.NONE
    await rig.group.commit({T0: at(7)})
    await commit
    assert committed_offsets(rig)[-1] == 7
    await rig.group.commit({T0: at(6)})
    assert committed_offsets(rig)[-1] == 6, "the application may still go back"


async def test_a_repeated_commit_does_not_undo_a_later_automatic_one(rig: Rig) -> None:
    await rig.join()
    commit = await begun(rig, 3)
    rig.coordinator.commit_error = ErrorCode.NONE
    await rig.group.commit_processed()
    await commit
    assert committed_offsets(rig)[-1] == 5


async def test_a_commit_is_repeated_after_a_later_one_has_failed(rig: Rig) -> None:
    await rig.join()
    commit = await begun(rig, 5)
    rig.coordinator.commit_error = ErrorCode.OFFSET_METADATA_TOO_LARGE
    with pytest.raises(BrokerError):
        await rig.group.commit({T0: at(7)})
    rig.coordinator.commit_error = ErrorCode.NONE
    await commit
    assert committed_offsets(rig)[-2:] == [7, 5]


NOTHING = OffsetFetchResponseGroup(group_id="g")
OF_ANOTHER = OffsetFetchResponseGroup(group_id="another", topics=[offsets_of(T0, 7)])
OF_T1 = OffsetFetchResponseGroup(group_id="g", topics=[offsets_of(T1, 7)])


@pytest.mark.parametrize("groups", [[], [NOTHING], [OF_ANOTHER], [OF_T1]])
async def test_an_offset_that_a_response_leaves_out_is_unknown(
    rig: Rig, groups: list[OffsetFetchResponseGroup]
) -> None:
    """Taken for no offset, it would let the reset policy skip or repeat records."""
    rig.coordinator.offsets = groups
    with pytest.raises(ProtocolError, match="no result for group g"):
        await rig.group.store.committed([T0])


async def test_offsets_are_those_of_the_group_and_of_the_wanted_partitions(rig: Rig) -> None:
    mine = OffsetFetchResponseGroup(
        group_id="g",
        topics=[
            offsets_of(T0, 5),
            offsets_of(T1, NO_OFFSET),
            offsets_of(TopicPartition("u", 0), 7),
        ],
    )
    rig.coordinator.offsets = [OF_ANOTHER, mine]
    assert await rig.group.store.committed([T0, T1]) == {T0: at(5), T1: None}


async def test_an_automatic_commit_follows_a_seek_back(rig: Rig) -> None:
    await rig.join()
    await rig.group.commit({T0: at(5)})
    rig.reading.seek(rig.reading.state(T0), 2)
    await rig.group.commit_processed()
    assert committed_offsets(rig) == [5, 2]


async def test_the_last_automatic_commit_follows_a_coordinator_that_has_moved(rig: Rig) -> None:
    await rig.join()
    rig.coordinator.commit_error = ErrorCode.NOT_COORDINATOR
    leaving = asyncio.ensure_future(rig.group.unsubscribe(asyncio.get_running_loop().time() + 60))
    await until(lambda: bool(rig.coordinator.commits), "the first attempt")
    rig.coordinator.commit_error = ErrorCode.NONE
    refused_count = len(rig.coordinator.commits)
    await leaving
    assert committed_offsets(rig)[refused_count:] == [5]


@pytest.mark.parametrize(
    "error", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
async def test_an_automatic_commit_that_can_only_fail_again_is_not_repeated(
    rig: Rig, error: ErrorCode
) -> None:
    await rig.join()
    rig.coordinator.commit_error = error
    await rig.group.commit_processed()
    assert committed_offsets(rig) == [5]


async def test_a_removed_member_commits_nothing_automatically(rig: Rig) -> None:
    await rig.join()
    await rig.lose()
    await rig.group.commit_processed()
    assert rig.coordinator.commits == []


async def test_a_commit_that_waits_for_the_coordinator_ends_with_the_membership(rig: Rig) -> None:
    await rig.join()
    rig.coordinator.commit_error = ErrorCode.NOT_COORDINATOR
    commit = asyncio.ensure_future(rig.group.commit({T0: at(5)}))
    await until(lambda: bool(rig.coordinator.commits), "the first attempt")
    rig.coordinator.may_be_found.clear()
    await rig.group.unsubscribe(asyncio.get_running_loop().time())
    rig.coordinator.may_be_found.set()
    with pytest.raises(CommitFailedError):
        await commit
    assert {each.member_id for each in rig.coordinator.commits} == {MEMBER}


async def test_a_commit_begun_by_a_member_is_not_sent_without_membership(rig: Rig) -> None:
    await rig.join()
    rig.coordinator.commit_error = ErrorCode.REBALANCE_IN_PROGRESS
    commit = asyncio.ensure_future(rig.group.commit({T0: at(5)}))
    await until(lambda: bool(rig.coordinator.commits), "the first attempt")
    await rig.group.unsubscribe(asyncio.get_running_loop().time() + 60)
    with pytest.raises(CommitFailedError):
        await commit
    assert {each.member_id for each in rig.coordinator.commits} == {MEMBER}


async def test_an_older_commit_does_not_cover_a_reassigned_partition(rig: Rig) -> None:
    await rig.join()
    rig.coordinator.commit_error = ErrorCode.REBALANCE_IN_PROGRESS
    commit = asyncio.ensure_future(rig.group.commit({T0: at(5)}))
    await until(lambda: bool(rig.coordinator.commits), "the first attempt")
    rig.reading.take_away([T0])
    rig.reading.add([T0])
    with pytest.raises(CommitFailedError):
        await commit


@pytest.mark.parametrize("joins_first", [True, False])
async def test_a_commit_that_meets_the_next_generation_is_sent_again_under_it(
    joins_first: bool,
) -> None:
    """The coordinator has completed the join, and the member does not know it yet."""
    rig = Rig(assignor="cooperative-sticky", enable_auto_commit=False)
    await rig.join()
    rig.coordinator.may_answer[JoinGroupResponse].clear()
    rig.coordinator.may_answer[OffsetCommitResponse].clear()
    rig.coordinator.join_begins.clear()
    rig.group.subscribe([T0.topic], RebalanceListener())
    async with asyncio.timeout(10):
        await rig.coordinator.join_begins.wait()
    rig.coordinator.generation = 2
    commit = asyncio.ensure_future(rig.group.commit({T0: at(5)}))
    await until(lambda: bool(rig.coordinator.commits), "the first attempt")
    if joins_first:
        rig.coordinator.may_answer[JoinGroupResponse].set()
        await until(lambda: rig.group.session._member.generation == 2, "the end of the join")
        rig.coordinator.may_answer[OffsetCommitResponse].set()
    else:
        rig.coordinator.may_answer[OffsetCommitResponse].set()
        await until(lambda: commit.done() or len(rig.coordinator.commits) > 1, "its refusal")
        rig.coordinator.may_answer[JoinGroupResponse].set()
    await commit
    generations = [each.generation_id_or_member_epoch for each in rig.coordinator.commits]
    assert (generations[0], generations[-1]) == (1, 2)
    await rig.stop()


async def test_a_commit_of_an_earlier_generation_fails_without_a_join(rig: Rig) -> None:
    await rig.join()
    rig.coordinator.generation = 2
    with pytest.raises(CommitFailedError):
        await rig.group.commit({T0: at(5)})


async def test_without_a_subscription_offsets_are_committed_without_membership(rig: Rig) -> None:
    rig.reading.assign([T0], wants_committed=False)
    await rig.group.commit({T0: at(7)})
    [commit] = rig.coordinator.commits
    assert (commit.member_id, commit.generation_id_or_member_epoch) == ("", -1)


@pytest.mark.parametrize("is_member", [True, False])
async def test_stop_waits_no_longer_than_its_deadline(is_member: bool) -> None:
    rig = Rig()
    if is_member:
        await rig.join()
    else:
        rig.reading.assign([T0], wants_committed=False)
        rig.reading.seek(rig.reading.state(T0), 5)
    rig.coordinator.is_silent = True
    async with asyncio.timeout(20):
        await rig.stop(timeout_s=0.05)
    assert rig.group.session.topics == frozenset()
    # The client does not wait for the response, but a broker that returns gets the request.
    assert rig.coordinator.leave_count == is_member


async def test_a_timeout_of_the_listener_is_not_mistaken_for_the_deadline() -> None:
    rig = Rig()

    def on_revoked(_partitions: object) -> None:
        raise TimeoutError("the application's database")

    rig.group.subscribe([T0.topic], RebalanceListener(on_revoked=on_revoked))
    await until(lambda: rig.reading.partitions() == [T0], "the assignment")
    with pytest.raises(TimeoutError, match="database"):
        await rig.stop()


async def test_automatic_commits_without_interval_do_not_occupy_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig(auto_commit_interval_ms=0)
    turns: list[int] = []

    async def commit() -> None:
        turns.append(turn)

    monkeypatch.setattr(rig.group, "commit_processed", commit)
    rig.group.start()
    turn_count = 1_000
    for turn in range(turn_count):  # noqa: B007 - `commit` reads it
        await asyncio.sleep(0)
    assert len(turns) < turn_count / 2
    await until(lambda: bool(turns), "a commit")
    await rig.stop()


async def test_a_member_removed_while_it_gives_up_a_partition_gives_up_all() -> None:
    rig = Rig(assignor="cooperative-sticky")
    lost: list[TopicPartition] = []
    listener = RebalanceListener(on_lost=lost.extend)
    rig.coordinator.assigned = [0, 1]
    rig.group.subscribe([T0.topic], listener)
    await until(lambda: rig.reading.partitions() == [T0, T1], "the assignment")
    rig.gate.leave(with_records=True)
    rig.coordinator.assigned = [1, 2]
    rig.group.subscribe([T0.topic], listener)
    await until(lambda: rig.gate.is_held, "the rebalance, which waits for the record in hand")
    rig.coordinator.may_answer[JoinGroupResponse].clear()
    rig.coordinator.generation = 2
    await until(lambda: not rig.group.session._member.is_confirmed, "the end of the membership")
    rig.gate.give_back()
    await until(lambda: bool(lost), "the loss")
    await until(lambda: not rig.gate.is_held, "the next join")
    assert (lost, rig.reading.partitions()) == ([T0, T1], [])
    rig.coordinator.may_answer[JoinGroupResponse].set()
    await until(lambda: rig.reading.partitions() == [T1, T2], "the assignment after the loss")
    await rig.stop()


async def test_a_member_removed_while_a_callback_runs_gives_up_all() -> None:
    rig = Rig(assignor="cooperative-sticky")
    lost: list[TopicPartition] = []
    is_revoking, may_end = asyncio.Event(), asyncio.Event()

    async def on_revoked(_partitions: object) -> None:
        is_revoking.set()
        await may_end.wait()

    listener = RebalanceListener(on_revoked=on_revoked, on_lost=lost.extend)
    rig.coordinator.assigned = [0, 1]
    rig.group.subscribe([T0.topic], listener)
    await until(lambda: rig.reading.partitions() == [T0, T1], "the assignment")
    rig.coordinator.assigned = [1]
    rig.group.subscribe([T0.topic], listener)
    async with asyncio.timeout(10):
        await is_revoking.wait()
    rig.coordinator.join_begins.clear()
    rig.coordinator.may_answer[JoinGroupResponse].clear()
    rig.coordinator.generation = 2
    await until(lambda: not rig.group.session._member.is_confirmed, "the end of the membership")
    may_end.set()
    async with asyncio.timeout(10):
        await rig.coordinator.join_begins.wait()
    assert (lost, rig.reading.partitions()) == ([T1], [])
    rig.coordinator.may_answer[JoinGroupResponse].set()
    await until(lambda: rig.reading.partitions() == [T1], "the assignment after the loss")
    await rig.stop()


async def test_an_idle_member_hands_over_nothing_while_it_leaves() -> None:
    rig = Rig(max_poll_interval_ms=1)
    rig.coordinator.may_answer[LeaveGroupResponse].clear()
    rig.group.subscribe([T0.topic], RebalanceListener())
    await until(lambda: rig.coordinator.leave_count == 1, "the request to leave")
    assert rig.gate.is_held
    rig.coordinator.may_answer[LeaveGroupResponse].set()
    await rig.stop()


async def test_an_idle_member_in_a_rebalance_hands_over_nothing_while_it_leaves() -> None:
    rig = Rig(assignor="cooperative-sticky")
    lost: list[TopicPartition] = []
    listener = RebalanceListener(on_lost=lost.extend)
    rig.group.subscribe([T0.topic], listener)
    await until(lambda: rig.reading.partitions() == [T0], "the assignment")
    rig.gate.leave(with_records=True)
    rig.coordinator.assigned = [1]
    rig.coordinator.may_answer[LeaveGroupResponse].clear()
    rig.group.subscribe([T0.topic], listener)
    await until(lambda: rig.gate.is_held, "the rebalance, which waits for the record in hand")
    # As if the record took longer than a member may.
    rig.gate._came_at_s -= 1_000
    await until(lambda: rig.coordinator.leave_count == 1, "the request to leave")
    rig.gate.give_back()
    await until(lambda: rig.reading.partitions() == [T1], "the end of the rebalance")
    assert (lost, rig.gate.is_held) == ([T0], True)
    rig.coordinator.may_answer[LeaveGroupResponse].set()
    # The reader has returned, so that the member joins again.
    rig.gate.enter()
    await until(lambda: lost == [T0, T1], "the loss")
    await until(lambda: not rig.gate.is_held, "the next membership")
    await rig.stop()


async def test_a_topic_that_is_unsubscribed_during_a_join_is_not_read(rig: Rig) -> None:
    assigned: list[object] = []
    listener = RebalanceListener(on_assigned=assigned.append)
    rig.coordinator.may_answer[JoinGroupResponse].clear()
    rig.group.subscribe([T0.topic], listener)
    await rig.coordinator.join_begins.wait()
    rig.group.subscribe(["another"], listener)
    rig.coordinator.may_answer[JoinGroupResponse].set()
    await until(lambda: bool(assigned), "the end of the first join")
    assert assigned[0] == []


async def test_a_late_answer_to_a_heartbeat_does_not_end_the_next_membership() -> None:
    rig = Rig()
    assigned: list[object] = []
    lost: list[object] = []
    listener = RebalanceListener(on_assigned=assigned.append, on_lost=lost.append)
    rig.group.subscribe([T0.topic], listener)
    await until(lambda: len(assigned) == 1, "the assignment")
    rig.coordinator.may_answer[HeartbeatResponse].clear()
    sent_before = rig.coordinator.heartbeat_count
    await until(lambda: rig.coordinator.heartbeat_count > sent_before, "a heartbeat")
    rig.coordinator.generation = 2
    rig.group.subscribe([T0.topic], listener)
    await until(lambda: len(assigned) == 2, "the next assignment")
    rig.coordinator.may_answer[HeartbeatResponse].set()
    sent_before = rig.coordinator.heartbeat_count
    await until(lambda: rig.coordinator.heartbeat_count > sent_before + 1, "further heartbeats")
    assert (len(assigned), lost) == (2, [])
    await rig.stop()


async def test_unsubscribing_ends_the_error_of_the_group(rig: Rig) -> None:
    rig.coordinator.membership_error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    rig.group.subscribe([T0.topic], RebalanceListener())
    await until(lambda: rig.group.error is not None, "the refusal")
    await rig.group.unsubscribe(asyncio.get_running_loop().time() + 60)
    assert rig.group.error is None


async def test_the_error_of_a_heartbeat_ends_with_the_next_one_that_succeeds(rig: Rig) -> None:
    await rig.join()
    rig.coordinator.membership_error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    await until(lambda: rig.group.error is not None, "the refusal")
    rig.coordinator.membership_error = ErrorCode.NONE
    await rig.heartbeats()
    assert rig.group.error is None
    assert rig.coordinator.join_count == 1


async def test_a_refused_join_is_tried_again(rig: Rig) -> None:
    rig.coordinator.membership_error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    rig.group.subscribe([T0.topic], RebalanceListener())
    await until(lambda: rig.group.error is not None, "the refusal")
    rig.coordinator.membership_error = ErrorCode.NONE
    async with asyncio.timeout(10):
        await until(lambda: rig.reading.partitions() == [T0], "the assignment")
    assert rig.group.error is None


@pytest.mark.parametrize(
    ("session_timeout_ms", "expected_s"),
    [
        pytest.param(45_000, 15.0, id="time for another one before the session ends"),
        pytest.param(300_000, 30.0, id="no longer than other requests"),
    ],
)
async def test_a_heartbeat_without_an_answer_does_not_use_up_the_session(
    session_timeout_ms: int, expected_s: float
) -> None:
    rig = Rig(session_timeout_ms=session_timeout_ms)
    await rig.join()
    await rig.heartbeats()
    assert rig.coordinator.timeouts_s[HeartbeatResponse] == pytest.approx(expected_s)
    await rig.stop()


async def test_a_sync_takes_no_longer_than_other_requests(rig: Rig) -> None:
    """No heartbeat is sent meanwhile. The rebalance timeout is for members that join late."""
    await rig.join()
    assert rig.coordinator.timeouts_s[SyncGroupResponse] is None
    rebalance_timeout_s = rig.coordinator.timeouts_s[JoinGroupResponse]
    assert rebalance_timeout_s is not None
    assert rebalance_timeout_s > 300


async def test_the_error_of_a_listener_lasts_although_heartbeats_succeed(rig: Rig) -> None:
    def on_assigned(_partitions: object) -> None:
        raise ValueError("disk full")

    rig.group.subscribe([T0.topic], RebalanceListener(on_assigned=on_assigned))
    await until(lambda: rig.group.error is not None, "the error of the listener")
    await rig.heartbeats()
    assert isinstance(rig.group.error, RebalanceFailedError)


def cancelled_worker(_partitions: object) -> "asyncio.Future[None]":
    """Return a worker that was cancelled; the caller of a callback awaits it."""
    worker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    worker.cancel()
    return worker


def cancelled_result(_partitions: object) -> None:
    """Ask for the result of a worker that was cancelled."""
    cancelled_worker(_partitions).result()


@pytest.mark.parametrize("callback", [cancelled_worker, cancelled_result])
async def test_a_cancelled_worker_in_a_listener_is_reported_as_its_error(
    rig: Rig, callback: OnPartitions
) -> None:
    rig.group.subscribe([T0.topic], RebalanceListener(on_assigned=callback))
    await until(lambda: rig.group.error is not None, "the error of the listener")
    assert isinstance(rig.group.error, RebalanceFailedError)
    rig.group.subscribe([T0.topic], RebalanceListener())
    await until(lambda: rig.coordinator.join_count == 2, "the next rebalance")
    await until(lambda: rig.group.error is None and not rig.gate.is_held, "its end")


async def test_a_cancelled_close_is_no_error_of_the_listener_that_it_waits_for() -> None:
    rig = Rig()
    is_revoking = asyncio.Event()

    async def on_revoked(_partitions: object) -> None:
        is_revoking.set()
        await asyncio.Event().wait()

    rig.group.subscribe([T0.topic], RebalanceListener(on_revoked=on_revoked))
    await until(lambda: rig.reading.partitions() == [T0], "the assignment")
    closing = asyncio.ensure_future(rig.stop())
    async with asyncio.timeout(10):
        await is_revoking.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing


async def test_an_error_of_the_client_in_a_listener_begins_no_further_rebalance(rig: Rig) -> None:
    def on_assigned(_partitions: object) -> None:
        raise ConfigurationError("an offset must be a whole number")

    rig.group.subscribe([T0.topic], RebalanceListener(on_assigned=on_assigned))
    await until(lambda: rig.group.error is not None, "the error of the listener")
    await rig.heartbeats()
    assert rig.coordinator.join_count == 1
    assert isinstance(rig.group.error, RebalanceFailedError)
    assert isinstance(rig.group.error.__cause__, ConfigurationError)


async def test_an_error_of_the_client_while_partitions_are_revoked_is_reported_once(
    rig: Rig,
) -> None:
    calls = []

    def on_revoked(partitions: object) -> None:
        calls.append(partitions)
        raise ConfigurationError("an offset must be a whole number")

    rig.group.subscribe([T0.topic], RebalanceListener(on_revoked=on_revoked))
    await until(lambda: rig.reading.partitions() == [T0], "the assignment")
    rig.group.subscribe([T0.topic], RebalanceListener(on_revoked=on_revoked))
    await until(lambda: rig.group.error is not None, "the error of the listener")
    await rig.heartbeats()
    assert isinstance(rig.group.error, RebalanceFailedError)
    assert len(calls) == rig.coordinator.join_count == 1
    rig.group.subscribe([T0.topic], RebalanceListener())


async def test_unsubscribing_opens_the_gate_although_the_listener_fails(rig: Rig) -> None:
    def on_lost(_partitions: object) -> None:
        raise ValueError("the application's database")

    rig.group.subscribe([T0.topic], RebalanceListener(on_lost=on_lost))
    await until(lambda: rig.reading.partitions() == [T0], "the assignment")
    await rig.lose()
    rig.gate.give_back()
    with pytest.raises(ValueError, match="database"):
        await rig.group.unsubscribe(asyncio.get_running_loop().time() + 60)
    assert not rig.gate.is_held


async def test_unsubscribing_stops_reading_although_the_listener_fails() -> None:
    def on_revoked(_partitions: object) -> None:
        raise ValueError("disk full")

    rig = Rig()
    rig.group.subscribe([T0.topic], RebalanceListener(on_revoked=on_revoked))
    await until(lambda: rig.reading.partitions() == [T0], "the assignment")
    with pytest.raises(ValueError, match="disk full"):
        await rig.group.unsubscribe(asyncio.get_running_loop().time() + 60)
    # Without the membership a commit would replace offsets of the next owner.
    assert rig.reading.partitions() == []
    assert not rig.group.is_subscribed


async def test_unsubscribing_stops_reading_although_it_is_cancelled() -> None:
    rig = Rig()
    await rig.join()
    rig.gate.leave(with_records=True)
    leaving = asyncio.ensure_future(rig.group.unsubscribe(asyncio.get_running_loop().time() + 60))
    await until(lambda: rig.gate.is_held, "the wait for the record in hand")
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert rig.reading.partitions() == []
    assert not rig.group.is_subscribed


async def test_the_metadata_for_transactions_is_the_membership() -> None:
    rig = Rig(enable_auto_commit=False)
    assert rig.group.metadata() == GroupMetadata("g"), "without a subscription"
    rig.group.subscribe([T0.topic], RebalanceListener())
    assert rig.group.metadata() == GroupMetadata("g"), "the group has not admitted it yet"
    await rig.join()
    assert rig.group.metadata() == GroupMetadata("g", 1, MEMBER)
    await rig.lose()
    with pytest.raises(CommitFailedError):
        rig.group.metadata()
    rig.gate.give_back()
    await rig.group.unsubscribe(asyncio.get_running_loop().time() + 60)
    rig.group.subscribe([T0.topic], RebalanceListener())
    assert rig.group.metadata() == GroupMetadata("g"), "the group has not admitted it again yet"
    await rig.stop()


async def test_no_metadata_for_transactions_beside_automatic_commits(rig: Rig) -> None:
    """They would commit the offsets of aborted transactions, too."""
    with pytest.raises(ConfigurationError, match="enable_auto_commit=False"):
        rig.group.metadata()


async def test_a_leader_assigns_by_known_metadata_while_a_broker_hangs() -> None:
    rig = Rig(session_timeout_ms=60)
    rig.coordinator.leader = MEMBER
    await rig.join()
    assert rig.coordinator.join_count == 1
    assert not rig.coordinator.may_refresh.is_set()
    await rig.stop()


async def test_a_leader_joins_again_for_metadata_that_arrived_during_its_sync() -> None:
    rig = Rig(session_timeout_ms=60)
    rig.coordinator.leader = MEMBER
    topic = SimpleNamespace(partitions=[0, 1])
    rig.coordinator.metadata_during_sync = SimpleNamespace(topics={T0.topic: topic})
    await rig.join()
    await until(lambda: rig.coordinator.join_count == 2, "the second join")
    await rig.stop()

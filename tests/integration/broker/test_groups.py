"""Consumer groups over a real socket: every API in every version, bad input, restarts.

tests/unit/broker/groups and tests/unit/broker/groups/test_group_states.py test the rules of groups.
"""

from collections.abc import Iterator

import pytest

from broker.handlers.group_admin import DELETIONS_PER_TURN
from broker.handlers.offset_fetch import GROUPS_AT_ONCE
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.group_records import group_key, group_value
from kafkawire.internal_topic import OFFSETS_TOPIC, java_string_hash, partition_for
from kafkawire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafkawire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.messages.group_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafkawire.messages.group_membership import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kafkawire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kafkawire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkawire.messages.offsets_topic import GroupMetadataValue, MemberMetadata
from kafkawire.records import BatchBuilder
from tests.conftest import READY_EVENT, BrokerProcess, StartBroker
from tests.integration.broker.wire import NOW_MS, Wire
from tests.waiting import until_sync

AT_ONCE = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "5",
}
SUBSCRIPTION = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"
TOPIC = "t"
NOT_READY = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker whose groups do not wait for more members."""
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), AT_ONCE)
    try:
        broker.wait_for_event(READY_EVENT)
        with Wire(broker.port) as wire:
            wire.create_topic(TOPIC, partitions=3)
            coordinate(wire, "g")
        yield broker
        assert broker.stop() == 0, broker.log_tail()
    finally:
        broker.kill()


def find(wire: Wire, group_id: str, version: int = 3) -> FindCoordinatorResponse:
    request = FindCoordinatorRequest(key=group_id)
    return wire.ask(ApiKey.FIND_COORDINATOR, version, request, FindCoordinatorResponse)


def coordinate(wire: Wire, group_id: str) -> None:
    """Let the broker create the topic of offsets, and wait until it has loaded the group."""
    until_sync(lambda: find(wire, group_id).error_code == ErrorCode.NONE, "a coordinator")
    until_sync(lambda: heartbeat(wire, group_id, "nobody", 1) not in NOT_READY, "the group")


def join_request(
    group_id: str,
    member_id: str = "",
    instance_id: str | None = None,
    session_timeout_ms: int = 30_000,
    protocols: tuple[str, ...] = ("range",),
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name=name, metadata=SUBSCRIPTION) for name in protocols
        ],
    )


def join(wire: Wire, request: JoinGroupRequest, version: int = 9) -> JoinGroupResponse:
    """Join; rejoin with the assigned member id if the broker requires it."""
    answer = wire.ask(ApiKey.JOIN_GROUP, version, request, JoinGroupResponse)
    if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
        return answer
    request.member_id = answer.member_id
    return wire.ask(ApiKey.JOIN_GROUP, version, request, JoinGroupResponse)


def sync(
    wire: Wire, joined: JoinGroupResponse, group_id: str, version: int = 5
) -> SyncGroupResponse:
    request = SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
    )
    return wire.ask(ApiKey.SYNC_GROUP, version, request, SyncGroupResponse)


def enter(wire: Wire, group_id: str, instance_id: str | None = None) -> JoinGroupResponse:
    """Become the only member of a group in its stable state."""
    joined = join(wire, join_request(group_id, instance_id=instance_id))
    assert sync(wire, joined, group_id).error_code == ErrorCode.NONE
    return joined


def heartbeat(
    wire: Wire, group_id: str, member_id: str, generation_id: int, version: int = 4
) -> int:
    request = HeartbeatRequest(group_id=group_id, generation_id=generation_id, member_id=member_id)
    return wire.ask(ApiKey.HEARTBEAT, version, request, HeartbeatResponse).error_code


def commit(
    wire: Wire,
    group_id: str,
    offset: int,
    *,
    member_id: str = "",
    generation_id: int = -1,
    instance_id: str | None = None,
    topic: str = TOPIC,
    partition: int = 0,
    metadata: str | None = "note",
    version: int = 8,
) -> int:
    """Commit one offset and return the error code."""
    each = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=metadata
    )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[each])],
    )
    answer = wire.ask(ApiKey.OFFSET_COMMIT, version, request, OffsetCommitResponse)
    return answer.topics[0].partitions[0].error_code


def committed(wire: Wire, group_id: str, partition: int = 0) -> int:
    """Return the committed offset of a partition; -1 if there is none."""
    wanted = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[partition])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=[wanted])], require_stable=True
    )
    answer = wire.ask(ApiKey.OFFSET_FETCH, 8, request, OffsetFetchResponse)
    return answer.groups[0].topics[0].partitions[0].committed_offset


# Finding the coordinator


@pytest.mark.parametrize("version", range(7))
def test_this_broker_coordinates_every_group(
    wire: Wire, version: int, shared_broker: BrokerProcess
) -> None:
    request = FindCoordinatorRequest()
    if version >= 4:
        request.coordinator_keys = ["a", "b"]
        answer = wire.ask(ApiKey.FIND_COORDINATOR, version, request, FindCoordinatorResponse)
        found = [(each.key, each.error_code, each.port) for each in answer.coordinators]
        assert found == [("a", 0, shared_broker.port), ("b", 0, shared_broker.port)]
    else:
        answer = find(wire, "a", version)
        assert (answer.error_code, answer.port) == (ErrorCode.NONE, shared_broker.port)


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_finds_the_coordinator_of_a_transactional_id(
    shared_broker: BrokerProcess, wire: Wire, version: int
) -> None:
    request = FindCoordinatorRequest(key_type=1)
    if version >= 4:
        request.coordinator_keys = ["a"]

    def find_now() -> tuple[int, int]:
        answer = wire.ask(ApiKey.FIND_COORDINATOR, version, request, FindCoordinatorResponse)
        found = answer.coordinators[0] if version >= 4 else answer
        return found.error_code, found.port

    # The first request lets the broker create the topic, and may come before its leaders are known.
    missing = ErrorCode.COORDINATOR_NOT_AVAILABLE
    until_sync(lambda: find_now()[0] != missing, "a coordinator")
    assert find_now() == (ErrorCode.NONE, shared_broker.port)


def test_the_offsets_topic_has_kafkas_configs(shared_broker: BrokerProcess, wire: Wire) -> None:
    created = shared_broker.wait_for_event(
        "topic.created", where=lambda event: event["topic"] == "__consumer_offsets"
    )
    assert created["partition_count"] == 5
    request = MetadataRequest(topics=[MetadataRequestTopic(name="__consumer_offsets")])
    [topic] = wire.ask(ApiKey.METADATA, 12, request, MetadataResponse).topics
    assert topic.is_internal
    configs = describe_topic(wire, "__consumer_offsets")
    assert configs["cleanup.policy"] == "compact"
    assert configs["segment.bytes"] == str(100 * 1024 * 1024)
    assert configs["compression.type"] == "producer"


def describe_topic(wire: Wire, name: str) -> dict[str, str | None]:
    from kafkawire.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
        DescribeConfigsResponse,
    )

    resource = DescribeConfigsResource(resource_type=2, resource_name=name)
    request = DescribeConfigsRequest(resources=[resource])
    answer = wire.ask(ApiKey.DESCRIBE_CONFIGS, 4, request, DescribeConfigsResponse)
    return {entry.name: entry.value for entry in answer.results[0].configs}


# Membership


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_beats_and_leaves_in_every_version(wire: Wire, version: int) -> None:
    group_id = f"member-v{version}"
    joined = join(wire, join_request(group_id), version)
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
    assert joined.leader == joined.member_id
    assert joined.member_id.startswith("test-")
    assert joined.protocol_name == "range"
    assert [member.metadata for member in joined.members] == [SUBSCRIPTION]
    assert sync(wire, joined, group_id, min(version, 5)).assignment == b"mine"
    assert heartbeat(wire, group_id, joined.member_id, 1, min(version, 4)) == ErrorCode.NONE
    request = LeaveGroupRequest(group_id=group_id)
    if version >= 3:
        request.members = [
            MemberIdentity(member_id=joined.member_id),
            MemberIdentity(member_id="x"),
        ]
    else:
        request.member_id = joined.member_id
    left = wire.ask(ApiKey.LEAVE_GROUP, min(version, 5), request, LeaveGroupResponse)
    assert left.error_code == ErrorCode.NONE
    codes = [member.error_code for member in left.members]
    assert codes == ([ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID] if version >= 3 else [])


def test_a_new_member_must_rejoin_with_its_id_from_version_4_on(wire: Wire) -> None:
    answer = wire.ask(ApiKey.JOIN_GROUP, 4, join_request("ids"), JoinGroupResponse)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert (answer.generation_id, answer.protocol_name, answer.leader) == (-1, "", "")
    static = wire.ask(ApiKey.JOIN_GROUP, 5, join_request("static", "", "one"), JoinGroupResponse)
    assert static.error_code == ErrorCode.NONE
    assert static.member_id.startswith("one-")


def test_two_members_share_a_group(shared_broker: BrokerProcess) -> None:
    with Wire(shared_broker.port) as first, Wire(shared_broker.port) as second:
        leader = enter(first, "pair")
        other = second.ask(ApiKey.JOIN_GROUP, 9, join_request("pair"), JoinGroupResponse)
        second.send(ApiKey.JOIN_GROUP, 9, join_request("pair", other.member_id))
        while heartbeat(first, "pair", leader.member_id, 1) != ErrorCode.REBALANCE_IN_PROGRESS:
            pass
        again = join(first, join_request("pair", leader.member_id))
        _, follower = second.receive(ApiKey.JOIN_GROUP, 9)
        assert isinstance(follower, JoinGroupResponse)
        assert follower.generation_id == again.generation_id == 2
        assert {each.member_id for each in again.members} == {leader.member_id, other.member_id}
        assert follower.members == []
        follower_sync = SyncGroupRequest(
            group_id="pair",
            generation_id=2,
            member_id=other.member_id,
            protocol_type="consumer",
            protocol_name="range",
        )
        second.send(ApiKey.SYNC_GROUP, 5, follower_sync)
        assert sync(first, again, "pair").assignment == b"mine"
        _, followed = second.receive(ApiKey.SYNC_GROUP, 5)
        assert isinstance(followed, SyncGroupResponse)
        assert (followed.error_code, followed.assignment) == (ErrorCode.NONE, b"")


def test_a_member_that_falls_silent_is_removed(wire: Wire) -> None:
    joined = join(wire, join_request("silent", session_timeout_ms=100))
    sync(wire, joined, "silent")
    while describe(wire, "silent") != ("Empty", 0):
        pass
    code = heartbeat(wire, "silent", joined.member_id, joined.generation_id)
    assert code == ErrorCode.UNKNOWN_MEMBER_ID


# Offsets


@pytest.mark.parametrize("version", range(2, 9))
def test_offsets_are_committed_and_fetched_in_every_version(wire: Wire, version: int) -> None:
    group_id = f"offsets-v{version}"
    member = enter(wire, group_id)
    code = commit(
        wire,
        group_id,
        41 + version,
        member_id=member.member_id,
        generation_id=member.generation_id,
        version=version,
    )
    assert code == ErrorCode.NONE
    assert committed(wire, group_id) == 41 + version


@pytest.mark.parametrize("version", range(1, 9))
@pytest.mark.parametrize("asks_for_all", [False, True])
def test_offsets_are_fetched_in_every_version(wire: Wire, version: int, asks_for_all: bool) -> None:
    commit(wire, "fetched", 7, partition=1)
    if version >= 8:
        named = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0, 1])]
        groups = [
            OffsetFetchRequestGroup(group_id="fetched", topics=None if asks_for_all else named)
        ]
        request = OffsetFetchRequest(groups=groups)
        answer = wire.ask(ApiKey.OFFSET_FETCH, version, request, OffsetFetchResponse).groups[0]
        found = {
            p.partition_index: (p.committed_offset, p.metadata) for p in answer.topics[0].partitions
        }
    else:
        old = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0, 1])]
        asks_for_all = asks_for_all and version >= 2
        request = OffsetFetchRequest(group_id="fetched", topics=None if asks_for_all else old)
        response = wire.ask(ApiKey.OFFSET_FETCH, version, request, OffsetFetchResponse)
        assert response.error_code == ErrorCode.NONE
        found = {
            p.partition_index: (p.committed_offset, p.metadata)
            for p in response.topics[0].partitions
        }
    assert found == ({1: (7, "note")} if asks_for_all else {0: (-1, ""), 1: (7, "note")})


def test_several_groups_are_fetched_at_once_and_a_bad_one_fails_alone(wire: Wire) -> None:
    commit(wire, "several", 3)
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id="several", topics=None),
            OffsetFetchRequestGroup(group_id="nobody", topics=None),
        ]
    )
    answer = wire.ask(ApiKey.OFFSET_FETCH, 8, request, OffsetFetchResponse)
    assert [(group.group_id, len(group.topics)) for group in answer.groups] == [
        ("several", 1),
        ("nobody", 0),
    ]


def test_offsets_can_be_committed_without_a_member(wire: Wire) -> None:
    assert commit(wire, "", 5) == ErrorCode.NONE
    assert committed(wire, "") == 5


# Bad input: Kafka's codes


@pytest.mark.parametrize(
    ("group_id", "session_timeout_ms", "member_id", "protocols", "code"),
    [
        ("", 30_000, "", ("range",), ErrorCode.INVALID_GROUP_ID),
        ("bad", 99, "", ("range",), ErrorCode.INVALID_SESSION_TIMEOUT),
        ("bad", 1_800_001, "", ("range",), ErrorCode.INVALID_SESSION_TIMEOUT),
        ("no such group", 30_000, "stranger", ("range",), ErrorCode.UNKNOWN_MEMBER_ID),
        ("bad", 30_000, "", (), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_bad_join_is_refused(
    wire: Wire,
    group_id: str,
    session_timeout_ms: int,
    member_id: str,
    protocols: tuple[str, ...],
    code: ErrorCode,
) -> None:
    request = join_request(group_id, member_id, None, session_timeout_ms, protocols)
    assert join(wire, request).error_code == code


def test_a_bad_sync_or_heartbeat_is_refused(wire: Wire) -> None:
    joined = enter(wire, "strict")
    stale = JoinGroupResponse(
        protocol_name=None, leader="", member_id=joined.member_id, members=[], generation_id=99
    )
    assert sync(wire, stale, "strict").error_code == ErrorCode.ILLEGAL_GENERATION
    assert sync(wire, joined, "").error_code == ErrorCode.INVALID_GROUP_ID
    assert sync(wire, joined, "no such group").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    unnamed = SyncGroupRequest(group_id="strict", generation_id=1, member_id=joined.member_id)
    answer = wire.ask(ApiKey.SYNC_GROUP, 5, unnamed, SyncGroupResponse)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert heartbeat(wire, "", joined.member_id, 1) == ErrorCode.INVALID_GROUP_ID
    assert heartbeat(wire, "no such group", "m", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(wire, "strict", joined.member_id, 99) == ErrorCode.ILLEGAL_GENERATION


def test_a_bad_leave_is_refused(wire: Wire) -> None:
    request = LeaveGroupRequest(group_id="", members=[MemberIdentity(member_id="m")])
    answer = wire.ask(ApiKey.LEAVE_GROUP, 5, request, LeaveGroupResponse)
    assert answer.error_code == ErrorCode.INVALID_GROUP_ID
    request.group_id = "no such group"
    answer = wire.ask(ApiKey.LEAVE_GROUP, 5, request, LeaveGroupResponse)
    assert [each.error_code for each in answer.members] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_zombies_commit_is_refused(wire: Wire) -> None:
    old = enter(wire, "zombies", "one")
    new = enter(wire, "zombies", "one")
    generation = new.generation_id
    refused = {
        "fenced": commit(
            wire, "zombies", 1, member_id=old.member_id, generation_id=generation, instance_id="one"
        ),
        "stale": commit(wire, "zombies", 1, member_id=new.member_id, generation_id=generation - 1),
        "stranger": commit(wire, "zombies", 1, member_id="who", generation_id=generation),
        "outsider": commit(wire, "zombies", 1),
        "nowhere": commit(wire, "no such group", 1, member_id="who", generation_id=1),
    }
    assert refused == {
        "fenced": ErrorCode.FENCED_INSTANCE_ID,
        "stale": ErrorCode.ILLEGAL_GENERATION,
        "stranger": ErrorCode.UNKNOWN_MEMBER_ID,
        "outsider": ErrorCode.UNKNOWN_MEMBER_ID,
        "nowhere": ErrorCode.ILLEGAL_GENERATION,
    }
    assert committed(wire, "zombies") == -1


def test_an_offset_that_cannot_be_kept_is_refused_alone(wire: Wire) -> None:
    def each(partition: int, metadata: str) -> OffsetCommitRequestPartition:
        return OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=9, committed_metadata=metadata
        )

    request = OffsetCommitRequest(
        group_id="partly",
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name=TOPIC, partitions=[each(0, "short"), each(1, "x" * 4097), each(99, "")]
            ),
            OffsetCommitRequestTopic(name="no-such-topic", partitions=[each(0, "")]),
        ],
    )
    answer = wire.ask(ApiKey.OFFSET_COMMIT, 8, request, OffsetCommitResponse)
    codes = [p.error_code for topic in answer.topics for p in topic.partitions]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE, unknown, unknown]
    assert [committed(wire, "partly", partition) for partition in range(2)] == [9, -1]
    assert commit(wire, "partly", 1, topic="no-such-topic") == unknown
    assert commit(wire, "partly", 1, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def stable_answer(wire: Wire, group_id: str) -> tuple[int, int]:
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    request = OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=True)
    [topic] = wire.ask(ApiKey.OFFSET_FETCH, 7, request, OffsetFetchResponse).topics
    return topic.partitions[0].error_code, topic.partitions[0].committed_offset


def test_an_offset_may_be_kept_for_as_long_as_a_client_can_say(wire: Wire) -> None:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    request = OffsetCommitRequest(
        group_id="for-ever",
        member_id="",
        retention_time_ms=2**63 - 1,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[row])],
    )
    answer = wire.ask(ApiKey.OFFSET_COMMIT, 3, request, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert stable_answer(wire, "for-ever") == (ErrorCode.NONE, 5)


def test_a_member_whose_id_would_be_too_long_is_refused(wire: Wire) -> None:
    long, longest = "c" * 32_730, "c" * 32_731
    request = join_request("long-names")
    answer = wire.ask(ApiKey.JOIN_GROUP, 3, request, JoinGroupResponse, client_id=longest)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    request = join_request("long-names", instance_id=longest)
    answer = wire.ask(ApiKey.JOIN_GROUP, 9, request, JoinGroupResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    request = join_request("long-names")
    joined = wire.ask(ApiKey.JOIN_GROUP, 3, request, JoinGroupResponse, client_id=long)
    assert sync(wire, joined, "long-names").error_code == ErrorCode.NONE


def test_foreign_records_in_the_offsets_topic_do_not_stop_loading(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(overrides=AT_ONCE)
    with Wire(broker.port) as wire:
        wire.create_topic(TOPIC)
        coordinate(wire, "g")
        commit(wire, "g", 5)
        partition = partition_for("g", 5)
        twin = MemberMetadata(member_id="a", client_id="c", client_host="/h")
        value = GroupMetadataValue(protocol_type="consumer", members=[twin, twin], generation=1)
        builder = BatchBuilder()
        builder.append(NOW_MS, group_key("g"), group_value(value))
        answer = wire.produce(
            OFFSETS_TOPIC, bytes(builder.build()), partition=partition, client_id="__admin_client"
        )
        assert answer.error_code == ErrorCode.NONE
    assert broker.stop() == 0
    again = start_broker(broker.data_dir, AT_ONCE)
    loaded = again.wait_for_event("groups.loaded", where=lambda each: each["unknown_count"] == 1)
    assert loaded["partition"] == partition
    with Wire(again.port) as wire:
        assert committed(wire, "g") == 5


# Administration


def describe(wire: Wire, group_id: str, version: int = 5) -> tuple[str, int]:
    request = DescribeGroupsRequest(groups=[group_id])
    [group] = wire.ask(ApiKey.DESCRIBE_GROUPS, version, request, DescribeGroupsResponse).groups
    return group.group_state, len(group.members)


@pytest.mark.parametrize("version", range(6))
def test_groups_are_described_in_every_version(wire: Wire, version: int) -> None:
    group_id = f"described-v{version}"
    member = enter(wire, group_id)
    request = DescribeGroupsRequest(
        groups=[group_id, "nobody"], include_authorized_operations=version >= 3
    )
    found = wire.ask(ApiKey.DESCRIBE_GROUPS, version, request, DescribeGroupsResponse).groups
    stable, dead = found
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == (
        "Stable", "consumer", "range",
    )  # fmt: skip
    [described] = stable.members
    assert (described.member_id, described.client_id) == (member.member_id, "test")
    assert described.client_host == "/127.0.0.1"
    assert (described.member_metadata, described.member_assignment) == (SUBSCRIPTION, b"mine")
    assert (dead.group_state, dead.error_code) == ("Dead", ErrorCode.NONE)


def test_no_assignment_is_described_during_a_rebalance(wire: Wire) -> None:
    join(wire, join_request("rebalancing"))
    request = DescribeGroupsRequest(groups=["rebalancing"])
    [group] = wire.ask(ApiKey.DESCRIBE_GROUPS, 5, request, DescribeGroupsResponse).groups
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert group.members[0].member_assignment == b""


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(wire: Wire, version: int) -> None:
    enter(wire, "listed-stable", "one")
    commit(wire, "listed-empty", 1)
    answer = wire.ask(ApiKey.LIST_GROUPS, version, ListGroupsRequest(), ListGroupsResponse)
    found = {group.group_id: group for group in answer.groups}
    assert found["listed-stable"].protocol_type == "consumer"
    assert found["listed-empty"].protocol_type == ""
    if version >= 4:
        assert found["listed-stable"].group_state == "Stable"
        assert found["listed-empty"].group_state == "Empty"
    if version >= 5:
        assert found["listed-empty"].group_type == "classic"


@pytest.mark.parametrize(
    ("states", "types", "finds"),
    [
        (["STABLE"], [], {"listed-stable"}),
        (["Empty"], ["Classic"], {"listed-empty"}),
        ([], ["consumer"], set()),
        (["Dead"], [], set()),
    ],
)
def test_groups_are_listed_by_state_and_type(
    wire: Wire, states: list[str], types: list[str], finds: set[str]
) -> None:
    enter(wire, "listed-stable", "one")
    commit(wire, "listed-empty", 1)
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    answer = wire.ask(ApiKey.LIST_GROUPS, 5, request, ListGroupsResponse)
    found = {group.group_id for group in answer.groups}
    assert found & {"listed-stable", "listed-empty"} == finds


@pytest.mark.parametrize("version", range(3))
def test_groups_without_members_are_deleted(wire: Wire, version: int) -> None:
    enter(wire, "busy", "one")
    commit(wire, "idle", 5)
    request = DeleteGroupsRequest(groups_names=["idle", "busy", "nobody"])
    answer = wire.ask(ApiKey.DELETE_GROUPS, version, request, DeleteGroupsResponse)
    assert [each.error_code for each in answer.results] == [
        ErrorCode.NONE,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert committed(wire, "idle") == -1
    assert describe(wire, "idle") == ("Dead", 0)


def test_many_groups_are_read_and_deleted_in_their_order(wire: Wire) -> None:
    """More than are handled in one turn of the event loop."""
    names = [f"many-{number}" for number in range(2 * GROUPS_AT_ONCE + DELETIONS_PER_TURN)]
    for offset, name in enumerate(names):
        commit(wire, name, offset)
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
    fetched = wire.ask(
        ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=groups), OffsetFetchResponse
    )
    assert [each.group_id for each in fetched.groups] == names
    offsets = [each.topics[0].partitions[0].committed_offset for each in fetched.groups]
    assert offsets == list(range(len(names)))
    deleted = wire.ask(
        ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=names), DeleteGroupsResponse
    )
    assert [each.group_id for each in deleted.results] == names
    assert {each.error_code for each in deleted.results} == {ErrorCode.NONE}
    assert {committed(wire, name) for name in names} == {-1}


def delete_offsets(wire: Wire, group_id: str, *topics: str) -> OffsetDeleteResponse:
    each = OffsetDeleteRequestPartition(partition_index=0)
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[OffsetDeleteRequestTopic(name=topic, partitions=[each]) for topic in topics],
    )
    return wire.ask(ApiKey.OFFSET_DELETE, 0, request, OffsetDeleteResponse)


def test_offsets_of_unsubscribed_topics_are_deleted(wire: Wire) -> None:
    wire.create_topic("unused")
    commit(wire, "cleaned", 5, topic="unused")
    commit(wire, "cleaned", 5)
    enter(wire, "cleaned")
    answer = delete_offsets(wire, "cleaned", "unused", TOPIC, "no-such-topic")
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {
        "unused": ErrorCode.NONE,
        TOPIC: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        "no-such-topic": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert committed(wire, "cleaned") == 5
    assert delete_offsets(wire, "nobody", TOPIC).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_a_deleted_topic_are_removed(wire: Wire, shared_broker: BrokerProcess) -> None:
    wire.create_topic("short-lived")
    commit(wire, "survivor", 5, topic="short-lived")
    commit(wire, "survivor", 6)
    request = DeleteTopicsRequest(topic_names=["short-lived"], timeout_ms=10_000)
    wire.ask(ApiKey.DELETE_TOPICS, 5, request, DeleteTopicsResponse)
    shared_broker.wait_for_event(
        "offsets.removed", where=lambda event: event["group_id"] == "survivor"
    )
    fetched = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="survivor", topics=None)])
    [group] = wire.ask(ApiKey.OFFSET_FETCH, 8, fetched, OffsetFetchResponse).groups
    assert [topic.name for topic in group.topics] == [TOPIC]


def test_offsets_of_groups_that_are_not_consumers_are_deleted_only_when_empty(wire: Wire) -> None:
    request = join_request("workers")
    request.protocol_type = "connect"
    join(wire, request)
    assert delete_offsets(wire, "workers", TOPIC).error_code == ErrorCode.NON_EMPTY_GROUP


# Across restarts


@pytest.mark.parametrize("way", ["stopped", "killed"])
def test_groups_and_offsets_survive_a_restart(start_broker: StartBroker, way: str) -> None:
    broker = start_broker(overrides=AT_ONCE)
    with Wire(broker.port) as wire:
        wire.create_topic(TOPIC, partitions=3)
        coordinate(wire, "g")
        member = enter(wire, "g", "one")
        for offset in range(20):
            commit(
                wire, "g", offset, member_id=member.member_id, generation_id=1, instance_id="one"
            )
        coordinate(wire, "gone")
        commit(wire, "gone", 1)
        wire.ask(
            ApiKey.DELETE_GROUPS,
            2,
            DeleteGroupsRequest(groups_names=["gone"]),
            DeleteGroupsResponse,
        )
    if way == "killed":
        broker.kill()
    else:
        assert broker.stop() == 0
    again = start_broker(broker.data_dir, AT_ONCE)
    again.wait_for_event("groups.loaded", where=lambda event: event["group_count"] == 1)
    with Wire(again.port) as wire:
        coordinate(wire, "gone")
        assert committed(wire, "g") == 19
        assert heartbeat(wire, "g", member.member_id, 1) == ErrorCode.NONE
        assert describe(wire, "g") == ("Stable", 1)
        assert describe(wire, "gone") == ("Dead", 0)
        assert sync(wire, member, "g").assignment == b"mine"


def test_expired_offsets_stay_deleted_after_a_restart(start_broker: StartBroker) -> None:
    overrides = {**AT_ONCE, "offsets.retention.check.interval.ms": "50"}
    broker = start_broker(overrides=overrides)
    with Wire(broker.port) as wire:
        wire.create_topic(TOPIC)
        coordinate(wire, "g")
        each = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, committed_metadata=None
        )
        request = OffsetCommitRequest(
            group_id="g",
            member_id="",
            # The retention requested by an old client, less than a minute.
            retention_time_ms=100,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[each])],
        )
        wire.ask(ApiKey.OFFSET_COMMIT, 4, request, OffsetCommitResponse)
        broker.wait_for_event("offsets.removed")
        assert committed(wire, "g") == -1
        assert describe(wire, "g") == ("Dead", 0)
    broker.kill()
    again = start_broker(broker.data_dir, overrides)
    loaded = again.wait_for_event("groups.loaded")
    assert (loaded["group_count"], loaded["record_count"]) == (0, 2)


def test_asking_for_metadata_does_not_create_the_offsets_topic(start_broker: StartBroker) -> None:
    broker = start_broker()
    with Wire(broker.port) as wire:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="__consumer_offsets")])
        [topic] = wire.ask(ApiKey.METADATA, 12, request, MetadataResponse).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert heartbeat(wire, "g", "m", 1) == ErrorCode.NOT_COORDINATOR
        assert sync_code(wire) == ErrorCode.NOT_COORDINATOR
        assert commit_without_topic(wire) == ErrorCode.NOT_COORDINATOR


def sync_code(wire: Wire) -> int:
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id="m")
    return wire.ask(ApiKey.SYNC_GROUP, 4, request, SyncGroupResponse).error_code


def commit_without_topic(wire: Wire) -> int:
    wire.create_topic(TOPIC)
    return commit(wire, "g", 1)


def test_a_broker_stops_while_members_wait(start_broker: StartBroker) -> None:
    broker = start_broker(overrides=AT_ONCE | {"group.initial.rebalance.delay.ms": "60000"})
    with Wire(broker.port) as wire:
        coordinate(wire, "g")
        wire.send(ApiKey.JOIN_GROUP, 3, join_request("g"))
        with Wire(broker.port) as other:
            while describe(other, "g") != ("PreparingRebalance", 1):
                pass
        assert broker.stop() == 0
        _, answer = wire.receive(ApiKey.JOIN_GROUP, 3)
        assert isinstance(answer, JoinGroupResponse)
        assert answer.error_code == ErrorCode.NOT_COORDINATOR


def test_groups_are_spread_like_in_kafka(shared_broker: BrokerProcess, wire: Wire) -> None:
    group_id = "spread"
    commit(wire, group_id, 1)
    partition = abs(java_string_hash(group_id)) % 5
    log_file = shared_broker.data_dir / f"__consumer_offsets-{partition}" / f"{0:020}.log"
    assert group_id.encode() in log_file.read_bytes()

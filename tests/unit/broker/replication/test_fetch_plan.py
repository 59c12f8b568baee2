"""A follower's next request: `broker.replication.fetch_plan`, with fake logs."""

from typing import cast

from broker.cluster.control_fence import ControlFence
from broker.config.replication_keys import ReplicationKeys
from broker.network.router import max_items
from broker.replication.fetch_plan import (
    FIRST_BACKOFF_MS,
    MAX_LISTED_PARTITIONS,
    FetchPlan,
    FollowedPartition,
    offset_requests,
)
from broker.replication.fetch_session import MAX_EPOCH
from broker.replication.replica import Replica
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.messages.fetch import FetchRequest, FetchResponse
from kafkawire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest
from kafkawire.schema import decode, encode
from kafkawire.sentinels import EARLIEST_TIMESTAMP
from storage.log.leader_epochs import LeaderEpochs

B1 = BrokerId(1)
KEYS = ReplicationKeys(replica_fetch_wait_max_ms=500, replica_fetch_backoff_ms=30)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SESSION = 7
ID, OTHER_ID = TopicId(int=3), TopicId(int=4)


class FakeLog:
    def __init__(self) -> None:
        self.log_end_offset = Offset(0)
        self.log_start_offset = Offset(0)
        self.leader_epochs = LeaderEpochs()


class FakeReplica:
    def __init__(self, partition: TopicPartition, topic_id: TopicId = ID) -> None:
        self.topic_partition = partition
        self.topic_id = topic_id
        self.leader_epoch = LeaderEpoch(4)
        self.log = FakeLog()


def plan_of(*partitions: TopicPartition, epoch: int = 11) -> FetchPlan:
    plan = FetchPlan(B1, KEYS, ControlFence(epoch))
    for partition in partitions:
        plan.add(cast(Replica, FakeReplica(partition)))
    return plan


def followed_of(plan: FetchPlan, key: TopicPartition) -> FollowedPartition:
    followed = plan.get(key)
    assert followed is not None
    return followed


def requested(request: FetchRequest) -> list[tuple[str, int, int]]:
    return [
        (topic.topic, each.partition, each.fetch_offset)
        for topic in request.topics
        for each in topic.partitions
    ]


def forgotten(request: FetchRequest) -> list[tuple[str, int]]:
    return [
        (topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def in_session(*partitions: TopicPartition) -> FetchPlan:
    plan = plan_of(*partitions)
    plan.request(0, 17)
    plan.on_response(FetchResponse(session_id=SESSION))
    return plan


def test_first_request_names_every_partition() -> None:
    request = plan_of(T0, T1).request(0, 12)
    assert requested(request) == [("t", 0, 0), ("t", 1, 0)]
    assert (request.session_id, request.session_epoch, request.replica_id) == (0, 0, B1)
    assert request.topics[0].partitions[0].current_leader_epoch == 4


def test_newer_versions_carry_the_broker_epoch() -> None:
    request = plan_of(T0).request(0, 17)
    assert request.replica_id == -1
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (B1, 11)


def test_request_within_a_session_names_only_moved_partitions() -> None:
    plan = in_session(T0, T1)
    assert requested(plan.request(0, 17)) == []
    moved = followed_of(plan, T1)
    cast(FakeReplica, moved.replica).log.log_end_offset = Offset(5)
    assert not moved.is_current
    plan.on_moved(T1)
    plan.on_response(FetchResponse(session_id=SESSION))
    request = plan.request(0, 17)
    assert (requested(request), request.session_id, request.session_epoch) == (
        [("t", 1, 5)],
        SESSION,
        2,
    )
    assert moved.is_current


def test_partitions_that_are_new_or_have_moved_or_resumed_are_named_next() -> None:
    plan = in_session(T0, T1)
    assert plan.changed() == []
    plan.on_moved(T0)
    plan.on_moved(TopicPartition("gone", 0))
    plan.on_failure(followed_of(plan, T1), 0)
    assert plan.changed() == [followed_of(plan, T0)]
    plan.resume_in_ms(FIRST_BACKOFF_MS)
    assert plan.changed() == [followed_of(plan, T0), followed_of(plan, T1)]


def test_the_log_start_of_the_last_request_is_remembered() -> None:
    plan = in_session(T0, T1)
    for key in (T0, T1):
        assert not followed_of(plan, key).has_moved
    cast(FakeReplica, followed_of(plan, T0).replica).log.log_start_offset = Offset(2)
    cast(FakeReplica, followed_of(plan, T1).replica).log.log_end_offset = Offset(2)
    for key in (T0, T1):
        assert followed_of(plan, key).has_moved


def test_request_to_a_leader_without_sessions_names_every_partition() -> None:
    plan = plan_of(T0)
    for _ in range(2):
        assert requested(plan.request(0, 17)) == [("t", 0, 0)]
        plan.on_response(FetchResponse())


def test_lost_session_is_replaced_by_another_one() -> None:
    plan = in_session(T0)
    plan.on_response(
        FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=SESSION)
    )
    request = plan.request(0, 17)
    assert (requested(request), request.session_id, request.session_epoch) == ([("t", 0, 0)], 0, 0)


def test_lost_response_closes_the_old_session() -> None:
    plan = in_session(T0)
    plan.on_no_response()
    request = plan.request(0, 17)
    assert (requested(request), request.session_id, request.session_epoch) == (
        [("t", 0, 0)],
        SESSION,
        0,
    )


def test_session_continues_after_a_request_was_given_up() -> None:
    plan = in_session(T0)
    plan.request(0, 17)
    plan.on_given_up()
    plan.add(cast(Replica, FakeReplica(T1)))
    request = plan.request(0, 17)
    assert (requested(request), request.session_id, request.session_epoch) == (
        [("t", 1, 0)],
        SESSION,
        2,
    )


def test_session_given_up_before_its_first_response_is_begun_again() -> None:
    plan = plan_of(T0)
    plan.request(0, 17)
    plan.on_given_up()
    request = plan.request(0, 17)
    assert (requested(request), request.session_id, request.session_epoch) == ([("t", 0, 0)], 0, 0)


def test_session_epoch_wraps_around_after_the_largest() -> None:
    plan = in_session(T0)
    plan._epoch = MAX_EPOCH
    plan.on_response(FetchResponse(session_id=SESSION))
    assert plan.request(0, 17).session_epoch == 1


def test_removed_partition_is_forgotten_by_the_leader_too() -> None:
    plan = in_session(T0, T1)
    plan.remove([T0, TopicPartition("unknown", 0)])
    request = plan.request(0, 17)
    assert (forgotten(request), requested(request), len(plan)) == ([T0], [], 1)
    assert forgotten(plan.request(0, 17)) == []


def test_partition_removed_and_added_again_is_not_forgotten() -> None:
    plan = in_session(T0)
    plan.remove([T0])
    plan.add(cast(Replica, FakeReplica(T0)))
    request = plan.request(0, 17)
    assert (forgotten(request), requested(request)) == ([], [("t", 0, 0)])


def test_back_off_of_a_failed_partition_doubles_up_to_the_limit() -> None:
    plan = in_session(T0)
    backoffs_ms = []
    for _ in range(4):
        plan.on_failure(followed_of(plan, T0), 100)
        assert not plan.has_ready
        backoffs_ms.append(plan.resume_in_ms(100))
    assert backoffs_ms == [FIRST_BACKOFF_MS, 20, 30, 30]
    followed_of(plan, T0).on_success()
    plan.on_failure(followed_of(plan, T0), 100)
    assert plan.resume_in_ms(100) == FIRST_BACKOFF_MS


def test_other_partitions_are_fetched_until_a_back_off_ends() -> None:
    plan = in_session(T0, T1)
    plan.on_failure(followed_of(plan, T0), 100)
    assert plan.has_ready
    during = plan.request(100, 17)
    assert (forgotten(during), during.max_wait_ms) == ([T0], FIRST_BACKOFF_MS)
    plan.on_response(FetchResponse(session_id=SESSION))
    after = plan.request(100 + FIRST_BACKOFF_MS, 17)
    assert (requested(after), after.max_wait_ms) == ([("t", 0, 0)], 500)


def test_partition_that_fails_before_its_first_request_backs_off() -> None:
    plan = plan_of(T0, T1)
    plan.on_failure(followed_of(plan, T1), 0)
    assert requested(plan.request(0, 17)) == [("t", 0, 0)]


def test_topic_without_id_must_be_named() -> None:
    plan = plan_of(T0)
    assert not plan.has_topic_without_id
    assert (plan.topic_name(TopicId(int=3)), plan.topic_name(TopicId(int=4))) == ("t", "")
    plan.add(cast(Replica, FakeReplica(T1, ZERO_TOPIC_ID)))
    assert plan.has_topic_without_id


def test_no_partition_is_ready_in_an_empty_plan() -> None:
    plan = plan_of()
    assert (plan.has_ready, plan.resume_in_ms(0), plan.get(T0)) == (False, None, None)


def test_position_is_the_log_end_offset_and_the_newest_epoch() -> None:
    followed = followed_of(plan_of(T0), T0)
    assert followed.position == (0, -1)
    local = cast(FakeReplica, followed.replica).log
    local.log_end_offset = Offset(3)
    local.leader_epochs.assign(LeaderEpoch(2), Offset(1))
    assert followed.position == (3, 2)


def test_lag_is_the_distance_from_the_leaders_high_watermark() -> None:
    plan = plan_of(T0, T1)
    followed = followed_of(plan, T0)
    assert followed.lag == 0, "the leader has not responded yet"
    followed.leader_high_watermark = followed.replica.log.log_end_offset + 5
    assert [each.lag for each in plan.followed()] == [5, 0]


def test_paused_partition_is_forgotten_by_the_leader_and_fetched_again_later() -> None:
    plan = plan_of(T0, T1)
    plan.request(0, 17)
    plan.on_response(FetchResponse(session_id=SESSION))
    plan.pause(followed_of(plan, T0), until_ms=800)
    request = plan.request(100, 17)
    assert (requested(request), forgotten(request)) == ([], [("t", 0)])
    assert request.max_wait_ms == 500
    assert requested(plan.request(800, 17)) == [("t", 0, 0)]


def test_recreated_topic_is_fetched_by_its_new_id_and_forgotten_by_the_old_one() -> None:
    plan = in_session(T0, T1)
    plan.remove([T0])
    plan.add(cast(Replica, FakeReplica(T0, OTHER_ID)))
    plan.on_moved(T1)
    request = plan.request(0, 17)
    wanted = {
        (topic.topic_id, each.partition) for topic in request.topics for each in topic.partitions
    }
    assert wanted == {(OTHER_ID, 0), (ID, 1)}
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [ID]
    assert (plan.topic_name(ID), plan.topic_name(OTHER_ID)) == ("t", "t")


def test_partition_that_gets_its_topic_id_is_not_forgotten_by_name() -> None:
    plan = in_session(T0)
    plan.add(cast(Replica, FakeReplica(T0, OTHER_ID)))
    assert forgotten(plan.request(0, 12)) == [], "the same request names it"


def test_topic_id_is_forgotten_with_the_last_partition_of_its_topic() -> None:
    plan = plan_of(T0, T1)
    plan.add(cast(Replica, FakeReplica(T0, OTHER_ID)))
    plan.remove([T0])
    assert (plan.topic_name(ID), plan.topic_name(OTHER_ID)) == ("t", "")
    plan.remove([T1])
    assert plan.topic_name(ID) == ""


def test_partitions_resume_in_the_order_of_their_pauses() -> None:
    partitions = [TopicPartition(name, 0) for name in "hgfedcbaponmlkji"]
    plan = in_session(*partitions)
    for each in partitions:
        plan.on_failure(followed_of(plan, each), 0)
    assert [name for name, _, _ in requested(plan.request(60_000, 17))] == list("hgfedcbaponmlkji")


def test_offsets_of_many_partitions_are_requested_in_parts_that_a_leader_accepts() -> None:
    count = 2 * MAX_LISTED_PARTITIONS + 1
    partitions = [TopicPartition(f"t{number}", number % 3) for number in range(count)]
    followed = [FollowedPartition(cast(Replica, FakeReplica(each))) for each in partitions]
    asked: list[tuple[str, ListOffsetsPartition]] = []
    for request in offset_requests(B1, followed, EARLIEST_TIMESTAMP):
        limit = max_items(ApiKey.LIST_OFFSETS)
        sent = decode(ListOffsetsRequest, encode(request, 7), 7, limit)
        assert sent.replica_id == B1
        asked += [(topic.name, each) for topic in sent.topics for each in topic.partitions]
    assert [(name, each.partition_index) for name, each in asked] == partitions
    assert {(each.timestamp, each.current_leader_epoch) for _, each in asked} == {
        (EARLIEST_TIMESTAMP, 4)
    }


def test_offsets_of_one_topic_are_requested_together() -> None:
    followed = [FollowedPartition(cast(Replica, FakeReplica(each))) for each in (T0, T1)]
    [request] = offset_requests(B1, followed, EARLIEST_TIMESTAMP)
    [topic] = request.topics
    assert (topic.name, [each.partition_index for each in topic.partitions]) == ("t", [0, 1])

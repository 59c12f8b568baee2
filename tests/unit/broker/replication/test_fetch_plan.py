"""What a follower asks for next: `broker.replication.fetch_plan`, over logs that are not there."""

from typing import cast

from broker.config_keys.replication import ReplicationKeys
from broker.replication.fetch_plan import FIRST_BACKOFF_MS, FetchPlan, FollowedPartition
from broker.replication.fetch_session import MAX_EPOCH
from broker.replication.replica import Replica
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafkawire.messages.fetch import FetchRequest, FetchResponse
from storage.leader_epochs import LeaderEpochs

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
    plan = FetchPlan(B1, KEYS, lambda: epoch)
    for partition in partitions:
        plan.add(cast(Replica, FakeReplica(partition)))
    return plan


def followed_of(plan: FetchPlan, key: TopicPartition) -> FollowedPartition:
    followed = plan.get(key)
    assert followed is not None
    return followed


def asked(request: FetchRequest) -> list[tuple[str, int, int]]:
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


def test_the_first_request_names_everything() -> None:
    request = plan_of(T0, T1).request(0, 12)
    assert asked(request) == [("t", 0, 0), ("t", 1, 0)]
    assert (request.session_id, request.session_epoch, request.replica_id) == (0, 0, B1)
    assert request.topics[0].partitions[0].current_leader_epoch == 4


def test_newer_versions_tell_which_life_of_the_broker_fetches() -> None:
    request = plan_of(T0).request(0, 17)
    assert request.replica_id == -1
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (B1, 11)


def test_in_a_session_only_what_has_moved_is_named() -> None:
    plan = in_session(T0, T1)
    assert asked(plan.request(0, 17)) == []
    moved = followed_of(plan, T1)
    cast(FakeReplica, moved.replica).log.log_end_offset = Offset(5)
    assert not moved.is_current
    plan.on_moved(T1)
    plan.on_response(FetchResponse(session_id=SESSION))
    request = plan.request(0, 17)
    assert (asked(request), request.session_id, request.session_epoch) == (
        [("t", 1, 5)],
        SESSION,
        2,
    )
    assert moved.is_current


def test_a_leader_without_sessions_is_asked_for_everything_each_time() -> None:
    plan = plan_of(T0)
    for _ in range(2):
        assert asked(plan.request(0, 17)) == [("t", 0, 0)]
        plan.on_response(FetchResponse())


def test_a_session_that_is_lost_is_begun_anew() -> None:
    plan = in_session(T0)
    plan.on_response(
        FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=SESSION)
    )
    request = plan.request(0, 17)
    assert (asked(request), request.session_id, request.session_epoch) == ([("t", 0, 0)], 0, 0)


def test_after_a_lost_answer_the_old_session_is_closed() -> None:
    plan = in_session(T0)
    plan.on_no_response()
    request = plan.request(0, 17)
    assert (asked(request), request.session_id, request.session_epoch) == (
        [("t", 0, 0)],
        SESSION,
        0,
    )


def test_after_a_request_that_was_given_up_the_session_goes_on() -> None:
    plan = in_session(T0)
    plan.request(0, 17)
    plan.on_given_up()
    plan.add(cast(Replica, FakeReplica(T1)))
    request = plan.request(0, 17)
    assert (asked(request), request.session_id, request.session_epoch) == (
        [("t", 1, 0)],
        SESSION,
        2,
    )


def test_a_session_that_was_given_up_before_it_began_begins() -> None:
    plan = plan_of(T0)
    plan.request(0, 17)
    plan.on_given_up()
    request = plan.request(0, 17)
    assert (asked(request), request.session_id, request.session_epoch) == ([("t", 0, 0)], 0, 0)


def test_epochs_begin_again_behind_the_largest() -> None:
    plan = in_session(T0)
    plan._epoch = MAX_EPOCH
    plan.on_response(FetchResponse(session_id=SESSION))
    assert plan.request(0, 17).session_epoch == 1


def test_what_is_removed_is_forgotten_by_the_leader_too() -> None:
    plan = in_session(T0, T1)
    plan.remove([T0, TopicPartition("unknown", 0)])
    request = plan.request(0, 17)
    assert (forgotten(request), asked(request), len(plan)) == ([T0], [], 1)
    assert forgotten(plan.request(0, 17)) == []


def test_what_comes_back_at_once_is_not_forgotten() -> None:
    plan = in_session(T0)
    plan.remove([T0])
    plan.add(cast(Replica, FakeReplica(T0)))
    request = plan.request(0, 17)
    assert (forgotten(request), asked(request)) == ([], [("t", 0, 0)])


def test_a_partition_that_failed_rests_longer_and_longer() -> None:
    plan = in_session(T0)
    rests = []
    for _ in range(4):
        plan.on_failure(followed_of(plan, T0), 100)
        assert not plan.is_due
        rests.append(plan.rest_ms(100))
    assert rests == [FIRST_BACKOFF_MS, 20, 30, 30]
    followed_of(plan, T0).on_success()
    plan.on_failure(followed_of(plan, T0), 100)
    assert plan.rest_ms(100) == FIRST_BACKOFF_MS


def test_others_are_asked_for_while_one_rests_and_no_longer_than_it_does() -> None:
    plan = in_session(T0, T1)
    plan.on_failure(followed_of(plan, T0), 100)
    assert plan.is_due
    resting = plan.request(100, 17)
    assert (forgotten(resting), resting.max_wait_ms) == ([T0], FIRST_BACKOFF_MS)
    plan.on_response(FetchResponse(session_id=SESSION))
    rested = plan.request(100 + FIRST_BACKOFF_MS, 17)
    assert (asked(rested), rested.max_wait_ms) == ([("t", 0, 0)], 500)


def test_what_fails_before_it_was_asked_for_waits_for_its_turn() -> None:
    plan = plan_of(T0, T1)
    plan.on_failure(followed_of(plan, T1), 0)
    assert asked(plan.request(0, 17)) == [("t", 0, 0)]


def test_topics_without_ids_can_only_be_named() -> None:
    plan = plan_of(T0)
    assert not plan.has_topic_without_id
    assert (plan.topic_name(TopicId(int=3)), plan.topic_name(TopicId(int=4))) == ("t", "")
    plan.add(cast(Replica, FakeReplica(T1, ZERO_TOPIC_ID)))
    assert plan.has_topic_without_id


def test_nothing_is_due_without_partitions() -> None:
    plan = plan_of()
    assert (plan.is_due, plan.rest_ms(0), plan.get(T0)) == (False, None, None)


def test_a_position_is_where_the_log_ends_and_its_newest_epoch() -> None:
    followed = followed_of(plan_of(T0), T0)
    assert followed.position == (0, -1)
    local = cast(FakeReplica, followed.replica).log
    local.log_end_offset = Offset(3)
    local.leader_epochs.assign(LeaderEpoch(2), Offset(1))
    assert followed.position == (3, 2)


def test_what_is_paused_is_forgotten_by_the_leader_and_asked_for_again_later() -> None:
    plan = plan_of(T0, T1)
    plan.request(0, 17)
    plan.on_response(FetchResponse(session_id=SESSION))
    plan.pause(followed_of(plan, T0), until_ms=800)
    request = plan.request(100, 17)
    assert (asked(request), forgotten(request)) == ([], [("t", 0)])
    assert request.max_wait_ms == 500
    assert asked(plan.request(800, 17)) == [("t", 0, 0)]


def test_a_topic_made_again_is_asked_for_by_its_new_id_and_forgotten_by_the_old_one() -> None:
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


def test_a_partition_that_gets_its_topic_id_is_not_forgotten_by_its_name() -> None:
    plan = in_session(T0)
    plan.add(cast(Replica, FakeReplica(T0, OTHER_ID)))
    assert forgotten(plan.request(0, 12)) == [], "the request names it in the same breath"


def test_an_id_is_forgotten_with_the_last_partition_of_its_topic() -> None:
    plan = plan_of(T0, T1)
    plan.add(cast(Replica, FakeReplica(T0, OTHER_ID)))
    plan.remove([T0])
    assert (plan.topic_name(ID), plan.topic_name(OTHER_ID)) == ("t", "")
    plan.remove([T1])
    assert plan.topic_name(ID) == ""

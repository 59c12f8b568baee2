"""Fetch sessions of followers: `broker.replication.fetch_session`."""

import pytest

from broker.replication.fetch_session import (
    IDLE_LIMIT_MS,
    MAX_EPOCH,
    MAX_SESSIONS_PER_BROKER,
    FetchSessions,
    Follower,
    FollowerSession,
    follower_of,
)
from broker.replication.replica_table import Key
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, TopicId
from kafkawire.messages.fetch import FetchPartition, FetchRequest, ReplicaState

B2 = Follower(BrokerId(2), -1)
T0, T1 = ("t", 0), ("t", 1)


def ask(epoch: int, session_id: int = 0) -> FetchRequest:
    return FetchRequest(session_id=session_id, session_epoch=epoch)


def begin(sessions: FetchSessions, now_ms: int = 0) -> FollowerSession:
    found = sessions.find(ask(0), B2, now_ms)
    assert isinstance(found, FollowerSession)
    for key in (T0, T1):
        sessions.want(found, key, FetchPartition(partition=key[1]), ZERO_TOPIC_ID)
    return found


class Waiting:
    """A request that waits."""

    def __init__(self) -> None:
        self.notified: list[Key] = []
        self.has_given_way = False

    def on_partition_changed(self, key: Key) -> None:
        self.notified.append(key)

    def give_way(self) -> None:
        self.has_given_way = True


def respond_with_all(session: FollowerSession) -> None:
    for key in list(session.active):
        session.on_sent(key, (0, 0), is_complete=True)
    session.on_response([T0])


def test_follower_is_distinguished_from_a_consumer_in_every_version() -> None:
    assert follower_of(FetchRequest()) is None
    assert follower_of(FetchRequest(replica_id=2)) == B2
    state = ReplicaState(replica_id=2, replica_epoch=7)
    assert follower_of(FetchRequest(replica_state=state)) == Follower(BrokerId(2), 7)


def test_session_epoch_must_grow_by_one() -> None:
    sessions = FetchSessions(1)
    session = begin(sessions)
    assert sessions.find(ask(1, session.session_id), B2, 0) is session
    assert sessions.find(ask(2, session.session_id), B2, 0) is session
    refused = sessions.find(ask(2, session.session_id), B2, 0)
    assert refused is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    unknown = sessions.find(ask(3, session.session_id + 1), B2, 0)
    assert unknown is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_session_epochs_and_ids_wrap_around_after_the_largest() -> None:
    sessions = FetchSessions(2)
    sessions._last_id = MAX_EPOCH
    session = begin(sessions)
    assert session.session_id == 1
    session.next_epoch = MAX_EPOCH
    sessions.find(ask(MAX_EPOCH, 1), B2, 0)
    assert session.next_epoch == 1


@pytest.mark.parametrize("epoch", [0, -1])
def test_session_ends_when_its_follower_begins_another(epoch: int) -> None:
    sessions = FetchSessions(9)
    session = begin(sessions)
    sessions.find(ask(epoch, session.session_id), B2, 0)
    assert len(sessions) == (1 if epoch == 0 else 0)
    respond_with_all(session)
    sessions.on_change(T0)
    assert not session.active, "an ended session is not notified"


def test_full_table_accepts_a_session_only_after_one_was_idle_for_long() -> None:
    sessions = FetchSessions(1)
    begin(sessions)
    assert begin(sessions).session_id == 0
    assert begin(sessions, IDLE_LIMIT_MS + 1).session_id != 0
    assert len(sessions) == 1


def test_only_changed_partitions_are_active() -> None:
    sessions = FetchSessions(1)
    session = begin(sessions)
    assert list(session.active) == [T0, T1]
    respond_with_all(session)
    assert not session.active
    sessions.on_change(T1)
    sessions.on_change(("other", 0))
    assert list(session.active) == [T1]


def test_marks_are_sent_when_they_have_changed() -> None:
    session = begin(FetchSessions(1))
    assert session.must_send(T0, (0, 0)), "the first response names every partition"
    respond_with_all(session)
    assert not session.must_send(T0, (0, 0))
    assert session.must_send(T0, (5, 0))


def test_marks_are_repeated_for_a_follower_that_starts_over() -> None:
    sessions = FetchSessions(1)
    session = begin(sessions)
    respond_with_all(session)
    sessions.want(session, T1, FetchPartition(partition=1, fetch_offset=5), ZERO_TOPIC_ID)
    assert not session.must_send(T1, (0, 0)), "it has made progress"
    sessions.want(session, T0, FetchPartition(partition=0), ZERO_TOPIC_ID)
    assert session.must_send(T0, (0, 0))


def test_incomplete_partition_stays_active_behind_the_others() -> None:
    session = begin(FetchSessions(1))
    session.on_sent(T0, (0, 0), is_complete=False, has_records=True)
    assert list(session.active) == [T1, T0]


def test_partitions_for_which_a_response_has_no_room_come_first_in_the_next_one() -> None:
    session = begin(FetchSessions(1))
    session.on_sent(T0, (0, 0), is_complete=False, has_records=True)
    session.on_sent(T1, (0, 0), is_complete=False)
    assert list(session.active) == [T1, T0]


def test_waiting_request_is_notified_of_a_change() -> None:
    sessions = FetchSessions(1)
    session = begin(sessions)
    session.waiting = waiting = Waiting()
    sessions.on_change(T0)
    assert waiting.notified == [T0]


def test_marks_of_a_possibly_lost_response_are_sent_again() -> None:
    session = begin(FetchSessions(1))
    session.on_request(7)
    respond_with_all(session)
    session.on_request(7)
    assert not session.active
    session.on_request(8)
    assert list(session.active) == [T0], "the last response named it"
    assert session.must_send(T0, (0, 0))
    assert not session.must_send(T1, (0, 0))


def test_marks_of_a_forgotten_partition_are_not_sent_again() -> None:
    sessions = FetchSessions(1)
    session = begin(sessions)
    respond_with_all(session)
    sessions.forget(session, T0)
    session.on_request(8)
    assert not session.active


def test_waiting_request_gives_way_to_the_next_one() -> None:
    session = begin(FetchSessions(1))
    session.waiting = waiting = Waiting()
    session.on_request(7)
    assert waiting.has_given_way


def test_forgotten_partition_leaves_the_session() -> None:
    sessions = FetchSessions(1)
    session = begin(sessions)
    sessions.forget(session, T0)
    sessions.forget(session, T0)
    sessions.on_change(T0)
    assert (list(session.partitions), list(session.active)) == ([T1], [T1])


def test_topic_is_known_by_the_id_in_the_last_request() -> None:
    sessions = FetchSessions(1)
    session = begin(sessions)
    old, new = TopicId(int=1), TopicId(int=2)
    for topic_id in (old, new):
        sessions.want(session, T0, FetchPartition(partition=0), topic_id)
    assert (session.topic_names.get(old), session.topic_names.get(new)) == (None, "t")


def test_only_registered_broker_gets_a_session() -> None:
    sessions = FetchSessions(10)
    found = sessions.find(ask(0), B2, 0, is_registered=False)
    assert isinstance(found, FollowerSession)
    assert (found.session_id, len(sessions)) == (0, 0)


def test_oldest_session_of_a_broker_is_evicted_at_its_limit() -> None:
    sessions = FetchSessions(1000)
    other = sessions.find(ask(0), Follower(BrokerId(3), -1), 0)
    assert isinstance(other, FollowerSession)
    own = [begin(sessions, now_ms) for now_ms in range(MAX_SESSIONS_PER_BROKER + 1)]
    assert len(sessions) == MAX_SESSIONS_PER_BROKER + 1
    gone = sessions.find(ask(1, own[0].session_id), B2, 0)
    assert gone is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.find(ask(1, own[1].session_id), B2, 0) is own[1]


@pytest.mark.parametrize("epoch", [-1, 0, 1])
def test_broker_neither_ends_nor_takes_over_the_session_of_another(epoch: int) -> None:
    sessions = FetchSessions(10)
    session = begin(sessions)
    stranger = sessions.find(ask(epoch, session.session_id), Follower(BrokerId(3), -1), 0)
    assert stranger is not session
    assert sessions.find(ask(1, session.session_id), B2, 0) is session


def test_session_with_refused_partitions_ends_on_another_connection() -> None:
    sessions = FetchSessions(10)
    session = begin(sessions)
    session.on_request(1)
    for connection, epoch in ((1, 1), (2, 2)):
        found = sessions.find(ask(epoch, session.session_id), B2, 0, connection_number=connection)
        assert found is session, "nothing was refused"
        session.on_request(connection)
    session.has_refused = True
    found = sessions.find(ask(3, session.session_id), B2, 0, connection_number=2)
    assert found is session, "the follower has received the response"
    found = sessions.find(ask(4, session.session_id), B2, 0, connection_number=3)
    assert found is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0

"""Sessions of consumers: requests are expanded, responses trimmed, and memory is bounded."""

import pickle
from typing import Any

import pytest

from broker.handlers.consumer_session import ConsumerSession, ConsumerSessions, SessionHandler
from broker.network.reply import Reply
from broker.network.request import Request
from broker.replication.fetch_session import IDLE_LIMIT_MS, MAX_EPOCH
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicId
from kafkawire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tests.unit.broker.requests import request

NAMED, WITH_IDS = 12, 13
ID = TopicId(int=7)
NOW_MS = 1_000


def message(
    offsets: dict[int, int] | None = None,
    *,
    session: tuple[int, int] = (0, 0),
    forgotten: tuple[int, ...] = (),
    topic: str = "t",
) -> FetchRequest:
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1)
        for index, offset in (offsets or {}).items()
    ]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=topic, partitions=wanted)] if wanted else [],
        forgotten_topics_data=(
            [ForgottenTopic(topic=topic, partitions=forgotten)] if forgotten else []
        ),
    )


def data(index: int, *, marks: int = 5, records: bytes = b"", error: int = 0) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=marks,
        aborted_transactions=None,
        records=records,
    )


def response(*partitions: PartitionData) -> FetchResponse:
    topic = FetchableTopicResponse(topic="t", topic_id=ID, partitions=list(partitions))
    return FetchResponse(responses=[topic])


def begun(sessions: ConsumerSessions, sent: FetchRequest, version: int = NAMED) -> ConsumerSession:
    session = sessions.find(sent, 1, version, NOW_MS)
    assert isinstance(session, ConsumerSession)
    return session


def offsets_of(session: ConsumerSession) -> dict[int, int]:
    return {
        each.partition: each.fetch_offset for topic in session.topics() for each in topic.partitions
    }


def indexes_of(answer: FetchResponse) -> list[int]:
    return [each.partition_index for topic in answer.responses for each in topic.partitions]


def test_requests_add_change_and_forget_partitions() -> None:
    sessions = ConsumerSessions(10)
    session = begun(sessions, message({0: 0, 1: 0}))
    number = session.session_id
    assert begun(sessions, message({1: 8, 2: 3}, session=(number, 1))) is session
    assert offsets_of(session) == {0: 0, 1: 8, 2: 3}
    begun(sessions, message(session=(number, 2), forgotten=(0, 9)))
    assert offsets_of(session) == {1: 8, 2: 3}
    assert session.partition_count == 2
    assert session.topics() is session.topics()


def test_forgotten_and_empty_topics_leave_nothing() -> None:
    """Otherwise a client that changes one topic for another would fill the memory."""
    sessions = ConsumerSessions(10)
    session = begun(sessions, message({0: 0}, topic="topic-0"))
    size_bytes = len(pickle.dumps(session))
    for epoch in range(1, 20):
        changing = message({0: 0}, session=(session.session_id, epoch), topic=f"topic-{epoch}")
        empty = FetchTopic(topic=f"empty-{epoch}", partitions=[])
        changing.topics = [*changing.topics, empty]
        changing.forgotten_topics_data = [
            ForgottenTopic(topic=f"topic-{epoch - 1}", partitions=[0]),
            ForgottenTopic(topic="unknown", partitions=[0]),
        ]
        begun(sessions, changing)
        late = FetchableTopicResponse(topic=f"topic-{epoch - 1}", partitions=[data(0)])
        session.trimmed(FetchResponse(responses=[late]), is_full=False)
    assert session.partition_count == 1
    assert len(pickle.dumps(session)) < size_bytes + 20


def test_topics_are_known_by_id_from_version_13_on() -> None:
    sent = message({0: 0})
    sent.topics = [FetchTopic(topic_id=ID, partitions=sent.topics[0].partitions)]
    session = begun(ConsumerSessions(10), sent, WITH_IDS)
    (topic,) = session.topics()
    assert (topic.topic_id, topic.topic) == (ID, "")
    assert indexes_of(session.trimmed(response(data(0)), is_full=True)) == [0]


def test_a_response_has_only_news() -> None:
    session = begun(ConsumerSessions(10), message({0: 0, 1: 0}))
    first = session.trimmed(response(data(0), data(1)), is_full=True)
    assert (first.session_id, indexes_of(first)) == (session.session_id, [0, 1])
    idle = session.trimmed(response(data(0), data(1)), is_full=False)
    assert (idle.responses, idle.session_id) == ([], session.session_id)
    moved = session.trimmed(response(data(0), data(1, marks=6)), is_full=False)
    assert indexes_of(moved) == [1]
    failed = session.trimmed(response(data(0, error=6), data(1, marks=6)), is_full=False)
    assert indexes_of(failed) == [0]
    # After an error the offsets are news again.
    assert indexes_of(session.trimmed(response(data(0)), is_full=False)) == [0]
    diverging = data(0)
    diverging.diverging_epoch = EpochEndOffset(epoch=0, end_offset=1)
    elsewhere = data(1, marks=6)
    elsewhere.preferred_read_replica = 2
    assert indexes_of(session.trimmed(response(diverging, elsewhere), is_full=False)) == [0, 1]


def test_a_partition_with_records_goes_to_the_end() -> None:
    session = begun(ConsumerSessions(10), message({0: 0, 1: 0}))
    session.trimmed(response(data(0, records=b"r"), data(1), data(9, records=b"r")), is_full=True)
    assert list(offsets_of(session)) == [1, 0]


def test_a_refused_request_stays_as_it_is() -> None:
    session = begun(ConsumerSessions(10), message({0: 0}))
    refused = FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert session.trimmed(refused, is_full=True).session_id == 0


@pytest.mark.parametrize(
    ("connection", "version", "epoch", "code"),
    [
        (1, NAMED, 2, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (2, NAMED, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (1, WITH_IDS, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
def test_a_session_belongs_to_its_connection_and_epoch(
    connection: int, version: int, epoch: int, code: ErrorCode
) -> None:
    sessions = ConsumerSessions(10)
    number = begun(sessions, message({0: 0})).session_id
    sent = message(session=(number, epoch))
    assert sessions.find(sent, connection, version, NOW_MS) is code


def test_a_full_request_ends_the_old_session() -> None:
    sessions = ConsumerSessions(10)
    old = begun(sessions, message({0: 0}))
    new = begun(sessions, message({0: 0}, session=(old.session_id, 0)))
    assert (len(sessions), new.session_id != old.session_id) == (1, True)
    assert sessions.find(message({0: 0}, session=(new.session_id, -1)), 1, NAMED, NOW_MS) is None
    assert len(sessions) == 0
    assert sessions.find(message(), 1, NAMED, NOW_MS) is None


def test_the_number_of_sessions_and_partitions_is_limited() -> None:
    sessions = ConsumerSessions(2, max_partitions=5)
    first = begun(sessions, message({0: 0, 1: 0}))
    begun(sessions, message({0: 0}))
    assert sessions.find(message({0: 0}), 1, NAMED, NOW_MS + IDLE_LIMIT_MS) is None
    grown = message({2: 0, 3: 0, 4: 0}, session=(first.session_id, 1))
    assert sessions.find(grown, 1, NAMED, NOW_MS) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 1
    assert sessions.find(message(dict.fromkeys(range(5), 0)), 1, NAMED, NOW_MS) is None


def test_idle_sessions_make_room() -> None:
    sessions = ConsumerSessions(1)
    old = begun(sessions, message({0: 0}))
    assert sessions.find(message({0: 0}), 2, NAMED, NOW_MS + IDLE_LIMIT_MS) is None
    new = sessions.find(message({0: 0}), 2, NAMED, NOW_MS + IDLE_LIMIT_MS + 1)
    assert isinstance(new, ConsumerSession)
    assert (len(sessions), new.session_id != old.session_id) == (1, True)


class Region:
    """Records in a file."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes


def test_an_empty_region_of_a_file_is_no_news() -> None:
    session = begun(ConsumerSessions(10), message({0: 0}))
    session.trimmed(response(data(0)), is_full=True)
    for size_bytes, expected in ((0, []), (1, [0])):
        found = data(0)
        found.records = Region(size_bytes)
        assert indexes_of(session.trimmed(response(found), is_full=False)) == expected


def test_epochs_and_numbers_start_over_at_1() -> None:
    sessions = ConsumerSessions(10)
    session = begun(sessions, message({0: 0}))
    session.next_epoch = MAX_EPOCH
    begun(sessions, message(session=(session.session_id, MAX_EPOCH)))
    assert session.next_epoch == 1
    sessions._last_id = MAX_EPOCH
    assert begun(sessions, message({0: 0})).session_id == 1


class Handled:
    """A handler that notes requests, and responds with the same partitions."""

    def __init__(self) -> None:
        self.seen: list[FetchRequest] = []

    def __call__(self, _: Request, sent: Any) -> Reply:
        self.seen.append(sent)
        return Reply(
            response(*[data(each.partition) for topic in sent.topics for each in topic.partitions])
        )


def test_the_handler_sees_all_partitions_of_a_session() -> None:
    handled = Handled()
    handle = SessionHandler(ConsumerSessions(1), lambda: NOW_MS, handled).handle

    def ask(sent: FetchRequest) -> FetchResponse:
        reply = handle(request(ApiKey.FETCH, NAMED), sent)
        assert isinstance(reply.message, FetchResponse)
        return reply.message

    first = ask(message({0: 0, 1: 0}))
    assert (first.session_id > 0, indexes_of(first)) == (True, [0, 1])
    assert ask(message({1: 4}, session=(first.session_id, 1))).responses == []
    (topic,) = handled.seen[1].topics
    assert [(each.partition, each.fetch_offset) for each in topic.partitions] == [(0, 0), (1, 4)]
    assert (handled.seen[1].session_id, handled.seen[1].session_epoch) == (0, -1)
    refused = ask(message(session=(first.session_id, 7)))
    assert refused.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert ask(message({0: 0}, session=(0, -1))).session_id == 0
    follower = message({0: 0})
    follower.replica_id = 2
    assert ask(follower).session_id == 0
    # No room for another session.
    assert ask(message({0: 0})).session_id == 0

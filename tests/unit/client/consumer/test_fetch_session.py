"""A fetch session names only changes, and starts over after an error."""

from uuid import uuid4

import pytest

from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID
from kafkawire.messages.fetch import FetchPartition, FetchResponse
from ottla.client.consumer.fetch_session import (
    MAX_EPOCH,
    SESSION_ERRORS,
    FetchKey,
    FetchSession,
    sessionless,
    uses_topic_ids,
)

P0 = FetchKey(ZERO_TOPIC_ID, "t", 0)
P1 = FetchKey(ZERO_TOPIC_ID, "t", 1)


def at(offset: int) -> FetchPartition:
    return FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)


def begun() -> FetchSession:
    """A session 9 in which P0 and P1 were requested at offset 0."""
    session = FetchSession()
    part = session.request({P0: at(0), P1: at(0)})
    assert (part.session_id, part.session_epoch, part.forgotten) == (0, 0, [])
    assert set(part.changed) == {P0, P1}
    session.on_response(FetchResponse(session_id=9))
    return session


def test_later_requests_name_only_changes() -> None:
    session = begun()
    assert session.request({P0: at(5), P1: at(0)}) == (9, 1, {P0: at(5)}, [])
    session.on_response(FetchResponse(session_id=9))
    assert session.request({P0: at(5)}) == (9, 2, {}, [P1])
    session.on_response(FetchResponse(session_id=9))
    assert session.request({P0: at(5), P1: at(0)}) == (9, 3, {P1: at(0)}, [])


@pytest.mark.parametrize("code", sorted(SESSION_ERRORS))
def test_after_an_error_all_partitions_are_named_again(code: ErrorCode) -> None:
    session = begun()
    session.on_response(FetchResponse(error_code=code))
    assert session.request({P0: at(0)}) == (0, 0, {P0: at(0)}, [])


def test_a_broker_without_sessions_gets_all_partitions_each_time() -> None:
    session = begun()
    session.on_response(FetchResponse(session_id=0))
    assert session.request({P0: at(0), P1: at(0)}).session_epoch == 0


def test_after_a_lost_response_the_next_request_ends_the_session_and_begins_another() -> None:
    session = begun()
    session.on_lost()
    assert session.request({P0: at(0)}) == (9, 0, {P0: at(0)}, [])


def test_the_epoch_starts_over_at_1() -> None:
    session = begun()
    session._epoch = MAX_EPOCH
    assert session.request({}).session_epoch == MAX_EPOCH
    session.on_response(FetchResponse(session_id=9))
    assert session.request({}).session_epoch == 1


def test_without_a_session_everything_is_named() -> None:
    assert sessionless({P0: at(0)}) == (0, -1, {P0: at(0)}, [])


def test_a_session_names_topics_in_one_way() -> None:
    by_id = {FetchKey(uuid4(), "", 0): at(0)}
    assert uses_topic_ids(by_id)
    session = begun()
    assert session.request(by_id) == (9, 0, by_id, [])
    session.on_response(FetchResponse(session_id=10))
    assert session.request(by_id) == (10, 1, {}, [])
    session.on_response(FetchResponse(session_id=10))
    assert session.request({P0: at(0)}) == (10, 0, {P0: at(0)}, [])


def test_a_partition_of_a_topic_that_was_created_again_is_another_one() -> None:
    old, new = FetchKey(uuid4(), "", 0), FetchKey(uuid4(), "", 0)
    session = FetchSession()
    session.request({old: at(5)})
    session.on_response(FetchResponse(session_id=9))
    assert session.request({new: at(5)}) == (9, 1, {new: at(5)}, [old])


def test_another_session_begins_if_a_request_would_name_too_many_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.client.consumer.fetch_session.MAX_PARTITIONS_PER_FETCH", 3)
    p2, p3 = P1._replace(partition=2), P1._replace(partition=3)
    session = begun()
    wanted = {p2: at(0), p3: at(0)}
    assert session.request(wanted) == (9, 0, wanted, [])
    session.on_response(FetchResponse(session_id=10))
    assert session.request({p2: at(0), P1: at(0)}) == (10, 1, {P1: at(0)}, [p3])

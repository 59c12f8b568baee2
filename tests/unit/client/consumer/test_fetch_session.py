"""A fetch session names only changes, and starts over after an error."""

import pytest

from kafkawire.errors import ErrorCode
from kafkawire.messages.fetch import FetchPartition, FetchResponse
from ottla.client.consumer.fetch_session import MAX_EPOCH, SESSION_ERRORS, FetchSession, sessionless
from tests.unit.client.client_fakes import T0, T1


def at(offset: int) -> FetchPartition:
    return FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)


def begun() -> FetchSession:
    """A session 9 in which T0 and T1 were requested at offset 0."""
    session = FetchSession()
    part = session.request({T0: at(0), T1: at(0)})
    assert (part.session_id, part.session_epoch, part.forgotten) == (0, 0, [])
    assert set(part.changed) == {T0, T1}
    session.on_response(FetchResponse(session_id=9))
    return session


def test_later_requests_name_only_changes() -> None:
    session = begun()
    assert session.request({T0: at(5), T1: at(0)}) == (9, 1, {T0: at(5)}, [])
    session.on_response(FetchResponse(session_id=9))
    assert session.request({T0: at(5)}) == (9, 2, {}, [T1])
    session.on_response(FetchResponse(session_id=9))
    assert session.request({T0: at(5), T1: at(0)}) == (9, 3, {T1: at(0)}, [])


@pytest.mark.parametrize("code", sorted(SESSION_ERRORS))
def test_after_an_error_all_partitions_are_named_again(code: ErrorCode) -> None:
    session = begun()
    session.on_response(FetchResponse(error_code=code))
    assert session.request({T0: at(0)}) == (0, 0, {T0: at(0)}, [])


def test_a_broker_without_sessions_gets_all_partitions_each_time() -> None:
    session = begun()
    session.on_response(FetchResponse(session_id=0))
    assert session.request({T0: at(0), T1: at(0)}).session_epoch == 0


def test_after_a_lost_response_the_next_request_ends_the_session_and_begins_another() -> None:
    session = begun()
    session.on_lost()
    assert session.request({T0: at(0)}) == (9, 0, {T0: at(0)}, [])


def test_the_epoch_starts_over_at_1() -> None:
    session = begun()
    session._epoch = MAX_EPOCH
    assert session.request({}).session_epoch == MAX_EPOCH
    session.on_response(FetchResponse(session_id=9))
    assert session.request({}).session_epoch == 1


def test_without_a_session_everything_is_named() -> None:
    assert sessionless({T0: at(0)}) == (0, -1, {T0: at(0)}, [])

"""Delegation tokens in znodes: their bytes, their changes and the notifications."""

from dataclasses import replace

import pytest

from clusterstate.change_notifications import NO_CHANGE
from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import Answer, ListChildren, Outcome, Outcomes, Read, Refusal, Write
from clusterstate.token_requests import (
    Change,
    change_token,
    create_token_nodes,
    read_token_ids,
    read_tokens,
    take_token_changes,
)
from clusterstate.znodes.delegation_token import (
    CHANGES,
    DelegationToken,
    decode_change,
    decode_token,
    encode_token,
    token_path,
)
from kafkawire.errors import ApiError, ErrorCode
from tests.plans.driver import Driver, empty_cluster

TOKEN = DelegationToken(
    token_id="t1",
    owner="User:a=b,c",
    requester="User:r",
    renewers=("User:x y", "User:*", "User:~"),
    issue_ms=1,
    max_ms=3,
    expiry_ms=2,
)
DATA = (
    b'{"version":3,"owner":"User%3Aa%3Db%2Cc","tokenRequester":"User%3Ar",'
    b'"renewers":["User%3Ax%20y","User%3A%2A","User%3A%7E"],"issueTimestamp":1,"maxTimestamp":3,'
    b'"expiryTimestamp":2,"tokenId":"t1"}'
)


def cluster(*, repeats: bool = False) -> Driver:
    driver = empty_cluster(1, repeats=repeats)
    driver.run(create_token_nodes())
    return driver


def announced(driver: Driver) -> tuple[str, ...]:
    return driver.run(take_token_changes(NO_CHANGE, now_ms=0)).announced


def to(token: DelegationToken) -> Change:
    return lambda _found: token


def test_znode_has_kafkas_bytes() -> None:
    assert encode_token(TOKEN) == DATA
    assert decode_token(DATA) == TOKEN


def test_an_old_token_was_requested_by_its_owner() -> None:
    old = DATA.replace(b'"version":3', b'"version":1').replace(b'"tokenRequester":"User%3Ar",', b"")
    assert decode_token(old) == replace(TOKEN, requester=TOKEN.owner)


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"broken",
        DATA.replace(b'"version":3', b'"version":4'),
        DATA.replace(b'"version":3', b'"version":0'),
        DATA.replace(b"User%3Ar", b"User"),
        DATA.replace(b"User%3Ar", b"%3Ar"),
        DATA.replace(b'"tokenId":"t1"', b'"tokenId":1'),
        DATA.replace(b'"maxTimestamp":3', b'"maxTimestamp":null'),
    ],
)
def test_malformed_token_is_refused(data: bytes | None) -> None:
    with pytest.raises(MalformedZnodeError):
        decode_token(data)


def test_malformed_notification_is_refused() -> None:
    assert decode_change(b"t1") == "t1"
    with pytest.raises(MalformedZnodeError):
        decode_change(b"\xff")


@pytest.mark.parametrize("repeats", [False, True], ids=["once", "answer lost"])
def test_changes_are_written_and_announced_once(repeats: bool) -> None:
    driver = cluster(repeats=repeats)
    later = replace(TOKEN, expiry_ms=3)
    for change in (TOKEN, later, later):
        assert driver.run(change_token("t1", to(change))) == change
    assert driver.run(read_token_ids()) == ["t1"]
    assert driver.run(read_tokens(["t1", "t2"])) == {"t1": later, "t2": None}
    assert driver.run(change_token("t1", lambda _found: None)) is None
    assert driver.run(read_token_ids()) == []
    assert driver.run(change_token("t1", lambda _found: None)) is None
    assert announced(driver) == ("t1",)
    assert len(driver.coordinator.children(CHANGES)) == 3


def test_a_znode_without_its_token_is_named() -> None:
    driver = cluster()
    driver.coordinator.put(token_path("t1"), b"broken")
    driver.coordinator.put(token_path("t2"), DATA)
    found = driver.run(read_tokens(["t1", "t2"]))
    assert found == {
        "t1": "not JSON, 6 bytes: Expecting value: line 1 column 1 (char 0)",
        "t2": "the znode holds another token",
    }


def test_concurrent_change_is_kept() -> None:
    driver = cluster()
    other = Driver(driver.coordinator)

    def be_outrun() -> None:
        driver.before_write = lambda: None
        other.run(change_token("t1", lambda _found: TOKEN))

    driver.before_write = be_outrun
    seen: list[DelegationToken | None] = []

    def change(found: DelegationToken | None) -> DelegationToken:
        seen.append(found)
        return replace(TOKEN, expiry_ms=3)

    driver.run(change_token("t1", change))
    assert seen == [None, TOKEN]


def test_change_gives_up_on_a_constantly_changing_token() -> None:
    driver = cluster()
    driver.before_write = lambda: driver.coordinator.put(token_path("t1"), DATA)
    with pytest.raises(ApiError) as caught:
        driver.run(change_token("t1", lambda _found: replace(TOKEN, expiry_ms=3)))
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_token_too_large_for_a_znode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = cluster()
    perform = driver.coordinator.perform

    def narrow(session: int, effect: Read | ListChildren | Write) -> Answer:
        if isinstance(effect, Write):
            return Outcomes((Outcome((), Refusal.TOO_LARGE, 0),))
        return perform(session, effect)

    monkeypatch.setattr(driver.coordinator, "perform", narrow)
    with pytest.raises(ApiError, match="does not fit") as caught:
        driver.run(change_token("t1", lambda _found: TOKEN))
    assert caught.value.code is ErrorCode.INVALID_REQUEST

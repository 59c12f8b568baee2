"""Access control lists in znodes: their bytes, their changes and the notifications."""

import pytest

from clusterstate.acl_requests import (
    change_acls,
    create_acl_nodes,
    read_acls,
    read_patterns,
    take_acl_changes,
)
from clusterstate.change_notifications import NO_CHANGE
from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import Answer, ListChildren, Outcome, Outcomes, Read, Refusal, Write
from clusterstate.znodes.acl_entries import (
    PATTERN_TYPES,
    acl_path,
    changes_path,
    decode_acls,
    decode_extended_change,
    decode_literal_change,
    encode_acl_change,
    encode_acls,
)
from kafkawire.acl import (
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from kafkawire.errors import ApiError, ErrorCode
from tests.plans.driver import Driver, empty_cluster

ORDERS = ResourcePattern(ResourceType.TOPIC, "orders")
PREFIX = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "x:y", PatternType.PREFIXED)
READ = AclEntry(principal="User:a", host="*", operation=Operation.READ, permission=Permission.ALLOW)
DENY = AclEntry(
    principal="User:ä", host="h", operation=Operation.DESCRIBE_CONFIGS, permission=Permission.DENY
)
NOTHING = dict.fromkeys(PATTERN_TYPES, NO_CHANGE)


def cluster(*, repeats: bool = False) -> Driver:
    driver = empty_cluster(1, repeats=repeats)
    driver.run(create_acl_nodes())
    return driver


def announced(driver: Driver) -> list[ResourcePattern]:
    taken = driver.run(take_acl_changes(NOTHING, now_ms=0))
    return [pattern for changes in taken.values() for pattern in changes.announced]


def test_znode_has_kafkas_bytes() -> None:
    assert encode_acls([READ]) == (
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow",'
        b'"operation":"Read","host":"*"}]}'
    )
    assert decode_acls(encode_acls([DENY, READ])) == {READ, DENY}
    assert decode_acls(b"") == decode_acls(None) == frozenset()


def test_words_of_a_znode_are_read_in_any_spelling() -> None:
    data = encode_acls([DENY]).replace(b"DescribeConfigs", b"DESCRIBE_CONFIGS")
    assert decode_acls(data.replace(b"Deny", b"DENY")) == {DENY}


@pytest.mark.parametrize(
    "data",
    [
        b"broken",
        b'{"version":2,"acls":[]}',
        encode_acls([READ]).replace(b"Read", b"Peek"),
        encode_acls([READ]).replace(b"Read", b"Any"),
        encode_acls([READ]).replace(b"Allow", b"Maybe"),
        encode_acls([READ]).replace(b"Allow", b"Any"),
        encode_acls([READ]).replace(b'"User:a"', b"1"),
    ],
)
def test_malformed_entries_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedZnodeError):
        decode_acls(data)


def test_notifications_have_kafkas_bytes() -> None:
    assert encode_acl_change(ORDERS) == b"TOPIC:orders"
    assert encode_acl_change(PREFIX) == (
        b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"x:y","patternType":"PREFIXED"}'
    )
    assert decode_extended_change(encode_acl_change(PREFIX)) == PREFIX
    literal = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "x:y")
    assert decode_literal_change(encode_acl_change(literal)) == literal
    assert decode_literal_change(b"TransactionalId:x:y") == literal


@pytest.mark.parametrize("data", [None, b"TOPIC", b"\xff:a", b"ROPE:a", b"ANY:a"])
def test_malformed_literal_notification_is_refused(data: bytes | None) -> None:
    with pytest.raises(MalformedZnodeError):
        decode_literal_change(data)


@pytest.mark.parametrize("kind", [b"LITERAL", b"BESIDE", b"ANY"])
def test_malformed_extended_notification_is_refused(kind: bytes) -> None:
    with pytest.raises(MalformedZnodeError):
        decode_extended_change(encode_acl_change(PREFIX).replace(b"PREFIXED", kind))


@pytest.mark.parametrize("repeats", [False, True], ids=["once", "answer lost"])
def test_change_is_written_and_announced_once(repeats: bool) -> None:
    driver = cluster(repeats=repeats)
    for pattern in (ORDERS, PREFIX):
        assert driver.run(change_acls(pattern, lambda found: found | {READ})) == {READ}
    assert driver.run(read_patterns()) == [ORDERS, PREFIX]
    assert driver.run(read_acls([ORDERS, PREFIX])).entries == {ORDERS: {READ}, PREFIX: {READ}}
    assert announced(driver) == [ORDERS, PREFIX]
    assert all(len(driver.coordinator.children(changes_path(kind))) == 1 for kind in PATTERN_TYPES)


def test_change_without_effect_is_not_announced() -> None:
    driver = cluster()
    driver.run(change_acls(ORDERS, lambda found: found - {READ}))
    assert driver.run(read_patterns()) == announced(driver) == []


def test_last_entry_takes_the_znode_with_it() -> None:
    driver = cluster()
    driver.run(change_acls(ORDERS, lambda found: found | {READ}))
    assert driver.run(change_acls(ORDERS, lambda found: found - {READ})) == frozenset()
    assert driver.coordinator.read(acl_path(ORDERS)) is None
    assert driver.run(read_acls([ORDERS])).entries == {ORDERS: frozenset()}


@pytest.mark.parametrize("is_first", [True, False])
def test_concurrent_change_is_kept(is_first: bool) -> None:
    driver = cluster()
    if not is_first:
        driver.run(change_acls(ORDERS, lambda found: found | {READ}))
    other = Driver(driver.coordinator)

    def be_outrun() -> None:
        driver.before_write = lambda: None
        other.run(change_acls(ORDERS, lambda _found: frozenset({DENY})))

    driver.before_write = be_outrun
    assert driver.run(change_acls(ORDERS, lambda found: found | {READ, DENY})) == {READ, DENY}
    assert driver.run(read_acls([ORDERS])).entries == {ORDERS: {READ, DENY}}


def test_change_gives_up_on_constantly_changing_entries() -> None:
    driver = cluster()
    path = acl_path(ORDERS)
    driver.before_write = lambda: driver.coordinator.put(path, encode_acls([DENY]))
    with pytest.raises(ApiError, match="16 attempts") as caught:
        driver.run(change_acls(ORDERS, lambda found: found | {READ}))
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT


def test_entries_too_large_for_a_znode_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = cluster()
    perform = driver.coordinator.perform

    def narrow(session: int, effect: Read | ListChildren | Write) -> Answer:
        if isinstance(effect, Write):
            return Outcomes((Outcome((), Refusal.TOO_LARGE, 0),))
        return perform(session, effect)

    monkeypatch.setattr(driver.coordinator, "perform", narrow)
    with pytest.raises(ApiError, match="1 entries of Topic:LITERAL:orders do not fit") as caught:
        driver.run(change_acls(ORDERS, lambda found: found | {READ}))
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_entries_whose_znode_is_refused_are_not_taken_for_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = cluster()
    perform = driver.coordinator.perform

    def refuse(session: int, effect: Read | ListChildren | Write) -> Answer:
        if isinstance(effect, Write):
            return Outcomes((Outcome((), Refusal.OTHER, 0),))
        return perform(session, effect)

    monkeypatch.setattr(driver.coordinator, "perform", refuse)
    with pytest.raises(ApiError, match="refuses a znode for the entries of Topic") as caught:
        driver.run(change_acls(ORDERS, lambda found: found | {READ}))
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_malformed_znode_is_named() -> None:
    driver = cluster()
    driver.coordinator.put(acl_path(ORDERS), b"broken")
    driver.run(change_acls(PREFIX, lambda found: found | {READ}))
    found = driver.run(read_acls([ORDERS, PREFIX]))
    assert found.entries == {PREFIX: {READ}}
    reason = "not JSON, 6 bytes: Expecting value: line 1 column 1 (char 0)"
    assert found.malformed == {ORDERS: f"/kafka-acl/Topic/orders: {reason}"}

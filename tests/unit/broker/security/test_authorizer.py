"""Kafka's rules, one by one: `broker.security.authorizer` and `acl_index`."""

import pytest

from broker.security import authorizer as authorizer_module
from broker.security.acl_index import AclIndex, canonical_host
from broker.security.authorizer import MAX_REMEMBERED_NAME, Authorizer
from broker.security.principal import Principal
from kafkawire.acl import (
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
ADMIN = Principal("User", "CN=admin,O=x")
HOST = "10.0.0.1"
TOPIC = ResourceType.TOPIC
ORDERS = ResourcePattern(TOPIC, "orders")
EVERY_TOPIC = ResourcePattern(TOPIC, "*")
OR = ResourcePattern(TOPIC, "or", PatternType.PREFIXED)


def entry(
    operation: Operation,
    *,
    principal: str = "User:alice",
    host: str = "*",
    permission: Permission = Permission.ALLOW,
) -> AclEntry:
    return AclEntry(principal=principal, host=host, operation=operation, permission=permission)


def deny(operation: Operation, principal: str = "User:alice") -> AclEntry:
    return entry(operation, principal=principal, permission=Permission.DENY)


def make(
    acls: dict[ResourcePattern, list[AclEntry]], *, allows_unlisted: bool = False
) -> Authorizer:
    authorizer = Authorizer([ADMIN], allows_unlisted=allows_unlisted)
    for pattern, entries in acls.items():
        authorizer.set(pattern, entries)
    return authorizer


def allowed(
    authorizer: Authorizer, principal: Principal = ALICE, name: str = "orders", host: str = HOST
) -> set[Operation]:
    mask = authorizer.operations(principal, host, TOPIC, name)
    return {each for each in Operation if each > Operation.ALL and mask >> each & 1}


def test_reading_implies_describing_but_not_the_reverse() -> None:
    assert allowed(make({ORDERS: [entry(Operation.READ)]})) == {Operation.READ, Operation.DESCRIBE}
    assert allowed(make({ORDERS: [entry(Operation.DESCRIBE)]})) == {Operation.DESCRIBE}


def test_altering_configs_implies_describing_them() -> None:
    assert allowed(make({ORDERS: [entry(Operation.ALTER_CONFIGS)]})) == {
        Operation.ALTER_CONFIGS,
        Operation.DESCRIBE_CONFIGS,
    }


def test_denied_operation_implies_nothing_but_wins() -> None:
    acls = [entry(Operation.READ), deny(Operation.DESCRIBE)]
    assert allowed(make({ORDERS: acls})) == {Operation.READ}
    acls = [entry(Operation.ALL), deny(Operation.READ)]
    assert Operation.READ not in allowed(make({ORDERS: acls}))
    assert Operation.DESCRIBE in allowed(make({ORDERS: acls}))


def test_denial_by_a_shorter_prefix_or_the_wildcard_wins() -> None:
    for pattern in (OR, EVERY_TOPIC):
        authorizer = make({ORDERS: [entry(Operation.READ)], pattern: [deny(Operation.ALL)]})
        assert allowed(authorizer) == set()


def test_prefix_does_not_cover_a_shorter_name() -> None:
    authorizer = make({OR: [entry(Operation.READ)]})
    assert allowed(authorizer, name="or")
    assert allowed(authorizer, name="orx")
    assert not allowed(authorizer, name="o")


def test_wildcard_user_covers_each_principal() -> None:
    authorizer = make({ORDERS: [entry(Operation.READ, principal="User:*")]})
    assert allowed(authorizer, BOB) == {Operation.READ, Operation.DESCRIBE}


def test_entry_of_anybody_ends_the_openness_of_a_resource() -> None:
    authorizer = make({ORDERS: [entry(Operation.READ)]}, allows_unlisted=True)
    assert allowed(authorizer, BOB) == set()
    assert len(allowed(authorizer, BOB, "payments")) == len(Operation) - 2
    authorizer.set(ORDERS, [])
    assert len(allowed(authorizer, BOB)) == len(Operation) - 2


def test_super_user_may_do_denied_operations() -> None:
    authorizer = make({EVERY_TOPIC: [deny(Operation.ALL, "User:*")]})
    assert Operation.DELETE in allowed(authorizer, ADMIN)
    assert authorizer.allows_on_any(ADMIN, HOST, Operation.WRITE, TOPIC)


@pytest.mark.parametrize(
    ("in_acl", "of_client", "is_same"),
    [
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("::1", "::1", True),
        ("10.0.0.1", "10.0.0.10", False),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80::1%eth0", True),
        ("fe80::1", "fe80::1%eth0", False),
        ("localhost", "127.0.0.1", False),
        ("10.0.0.0/8", "10.0.0.1", False),
    ],
)
def test_address_matches_in_every_spelling(in_acl: str, of_client: str, is_same: bool) -> None:
    authorizer = make({ORDERS: [entry(Operation.READ, host=in_acl)]})
    assert bool(allowed(authorizer, host=of_client)) is is_same
    assert (canonical_host(in_acl) == canonical_host(of_client)) is is_same


def test_right_on_any_topic_counts_only_where_it_is_not_denied() -> None:
    def may_write(acls: dict[ResourcePattern, list[AclEntry]]) -> bool:
        return make(acls).allows_on_any(ALICE, HOST, Operation.WRITE, TOPIC)

    write = [entry(Operation.WRITE)]
    assert all(may_write({pattern: write}) for pattern in (ORDERS, OR, EVERY_TOPIC))
    assert not may_write({})
    assert not may_write({ORDERS: [entry(Operation.READ)]})
    assert not may_write({ORDERS: write, OR: [deny(Operation.WRITE)]})
    assert not may_write({OR: [*write, deny(Operation.WRITE)]})
    assert not may_write({ORDERS: write, EVERY_TOPIC: [deny(Operation.ALL)]})
    assert may_write({EVERY_TOPIC: write, OR: [deny(Operation.WRITE)]})
    assert make({}, allows_unlisted=True).allows_on_any(ALICE, HOST, Operation.WRITE, TOPIC)


def test_memory_of_decisions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizer_module, "MAX_REMEMBERED", 2)
    authorizer = make({ORDERS: [entry(Operation.READ)]})
    for name in ("orders", "a", "b", "c", "orders"):
        assert bool(allowed(authorizer, name=name)) is (name == "orders")
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        assert authorizer.allows_on_any(ALICE, host, Operation.READ, TOPIC)
    assert len(authorizer._operations) <= 2
    assert len(authorizer._on_any) <= 2


def test_invented_long_names_are_not_remembered() -> None:
    authorizer = make({ORDERS: [entry(Operation.READ)]})
    for number in range(100):
        assert not allowed(authorizer, BOB, f"{number}".ljust(MAX_REMEMBERED_NAME + 1, "x"))
    assert not authorizer._operations
    allowed(authorizer, BOB, "x" * MAX_REMEMBERED_NAME)
    assert len(authorizer._operations) == 1


def test_right_on_any_topic_looks_only_at_entries_of_the_principal() -> None:
    index = AclIndex()
    others = [ResourcePattern(TOPIC, f"topic-{number}") for number in range(100)]
    for pattern in others:
        index.set(pattern, [entry(Operation.WRITE, principal="User:bob")])
    index.set(ORDERS, [entry(Operation.READ), entry(Operation.WRITE, principal="User:*")])
    index.set(OR, [entry(Operation.READ)])

    def names(pattern_type: PatternType, principal: Principal) -> set[str]:
        return set(index.rights_by_name(TOPIC, pattern_type, str(principal), HOST))

    assert names(PatternType.LITERAL, ALICE) == {"orders"}
    assert names(PatternType.PREFIXED, ALICE) == {"or"}
    assert names(PatternType.LITERAL, BOB) == {"orders", *(each.name for each in others)}
    index.set(ORDERS, [entry(Operation.READ, principal="User:bob")])
    assert names(PatternType.LITERAL, ALICE) == set()
    assert "orders" in names(PatternType.LITERAL, BOB)
    for pattern in (ORDERS, OR, *others):
        index.set(pattern, [])
    assert not index._of_principal

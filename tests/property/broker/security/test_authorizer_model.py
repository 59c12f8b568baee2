"""Decisions agree with a naive reading of Kafka's rules: `broker.security.authorizer`."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from broker.security.authorizer import Authorizer
from broker.security.principal import Principal
from kafkawire.acl import (
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
SUPER_USER = "super"
NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "*a"])
KINDS = st.sampled_from([TOPIC, GROUP])
OPERATIONS = st.sampled_from([op for op in Operation if op > Operation.ALL])
PATTERNS = st.builds(
    ResourcePattern,
    KINDS,
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
ENTRIES = st.builds(
    AclEntry,
    principal=st.sampled_from(["User:u", "User:v", "User:*", "Group:u"]),
    host=st.sampled_from(["*", "10.0.0.1", "0:0:0:0:0:0:0:1"]),
    operation=st.sampled_from([op for op in Operation if op is not Operation.ANY]),
    permission=st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
)
HOSTS = {"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "::1": "0:0:0:0:0:0:0:1"}
PRINCIPALS = st.builds(Principal, st.sampled_from(["User", "Group"]), st.sampled_from("uvw"))
IMPLIED_BY = {
    Operation.DESCRIBE: {
        Operation.DESCRIBE,
        Operation.READ,
        Operation.WRITE,
        Operation.DELETE,
        Operation.ALTER,
    },
    Operation.DESCRIBE_CONFIGS: {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS},
}
Acls = set[tuple[ResourcePattern, AclEntry]]


def covers(pattern: ResourcePattern, name: str) -> bool:
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in ("*", name)


def concerns(entry: AclEntry, principal: Principal, host: str, operations: set[Operation]) -> bool:
    return (
        entry.principal in (str(principal), "User:*")
        and entry.host in ("*", HOSTS[host])
        and entry.operation in operations | {Operation.ALL}
    )


def naive(
    acls: Acls,
    principal: Principal,
    host: str,
    operation: Operation,
    resource: tuple[ResourceType, str],
    *,
    allows_unlisted: bool,
) -> bool:
    kind, name = resource
    found = [e for p, e in acls if p.resource_type is kind and covers(p, name)]
    if not found:
        return allows_unlisted
    allowing = IMPLIED_BY.get(operation, {operation})
    return not any(
        entry.permission is Permission.DENY and concerns(entry, principal, host, {operation})
        for entry in found
    ) and any(
        entry.permission is Permission.ALLOW and concerns(entry, principal, host, allowing)
        for entry in found
    )


def naive_on_any(
    acls: Acls, principal: Principal, host: str, operation: Operation, kind: ResourceType
) -> bool:
    """Ask for every name that could make a difference, of existing resources or not."""

    def matching(permission: Permission) -> list[ResourcePattern]:
        return [
            pattern
            for pattern, entry in acls
            if pattern.resource_type is kind
            and entry.permission is permission
            and concerns(entry, principal, host, {operation})
        ]

    denied = matching(Permission.DENY)
    literals = {p.name for p in denied if p.pattern_type is PatternType.LITERAL}
    prefixes = {p.name for p in denied if p.pattern_type is PatternType.PREFIXED}
    if "*" in literals:
        return False
    for pattern in matching(Permission.ALLOW):
        is_literal = pattern.pattern_type is PatternType.LITERAL
        if is_literal and pattern.name == "*":
            return True
        if is_literal and pattern.name in literals:
            continue
        if not any(pattern.name.startswith(prefix) for prefix in prefixes):
            return True
    return False


class AuthorizerMachine(RuleBasedStateMachine):
    """Changes entries between decisions, so that a remembered decision would be found out."""

    def __init__(self) -> None:
        super().__init__()
        users = [Principal("User", SUPER_USER)]
        self.closed = Authorizer(users, allows_unlisted=False)
        self.open = Authorizer(users, allows_unlisted=True)
        self.acls: Acls = set()

    @rule(pattern=PATTERNS, entries=st.sets(ENTRIES, max_size=4))
    def replace(self, pattern: ResourcePattern, entries: set[AclEntry]) -> None:
        for authorizer in (self.closed, self.open):
            authorizer.set(pattern, entries)
        self.acls = {each for each in self.acls if each[0] != pattern}
        self.acls |= {(pattern, entry) for entry in entries}
        assert self.closed.acls.get(pattern) == entries
        assert {p: {e for q, e in self.acls if p == q} for p, _ in self.acls} == (
            self.closed.acls.entries
        )

    @rule(
        principal=PRINCIPALS,
        host=st.sampled_from([*HOSTS]),
        operation=OPERATIONS,
        kind=KINDS,
        name=NAMES,
    )
    def ask(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        kind: ResourceType,
        name: str,
    ) -> None:
        for authorizer, is_open in ((self.closed, False), (self.open, True)):
            operations = authorizer.operations(principal, host, kind, name)
            assert bool(operations >> operation & 1) is naive(
                self.acls, principal, host, operation, (kind, name), allows_unlisted=is_open
            )
        assert self.closed.allows_on_any(principal, host, operation, kind) is naive_on_any(
            self.acls, principal, host, operation, kind
        )

    @rule(host=st.sampled_from([*HOSTS]), operation=OPERATIONS, kind=KINDS, name=NAMES)
    def ask_for_super_user(
        self, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> None:
        for authorizer in (self.closed, self.open):
            user = Principal("User", SUPER_USER)
            assert authorizer.operations(user, host, kind, name) >> operation & 1
            assert authorizer.allows_on_any(user, host, operation, kind)


TestAuthorizer = AuthorizerMachine.TestCase


@given(
    PATTERNS,
    st.sampled_from([*ResourceType]),
    st.none() | NAMES,
    st.sampled_from([*PatternType]),
)
def test_filter_agrees_with_the_table_of_pattern_types(
    pattern: ResourcePattern, kind: ResourceType, name: str | None, wanted: PatternType
) -> None:
    is_named = name in (None, pattern.name)
    expected = {
        PatternType.ANY: is_named,
        PatternType.LITERAL: pattern.pattern_type is PatternType.LITERAL and is_named,
        PatternType.PREFIXED: pattern.pattern_type is PatternType.PREFIXED and is_named,
        PatternType.MATCH: name is None or covers(pattern, name),
    }[wanted] and kind in (ResourceType.ANY, pattern.resource_type)
    found = AclFilter(resource_type=kind, name=name, pattern_type=wanted)
    assert found.matches_pattern(pattern) is expected

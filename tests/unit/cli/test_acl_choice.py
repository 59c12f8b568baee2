"""Entries from the options of `ottla acls`: `ottla.cli.acl_choice`."""

from dataclasses import replace

import pytest

from kafkawire.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from ottla.cli.acl_choice import Resources, Role, Subjects, bindings, exact_filter, filters

ALICE = Subjects(allowed=["User:a"])
TOPIC = Resources(topics=["t"])
NO_ROLE = Role()
Named = tuple[str, str, str]


def named(found: list[AclBinding]) -> set[Named]:
    return {
        (pattern.resource_type.title, pattern.name, entry.operation.title)
        for pattern, entry in found
    }


def test_every_combination_becomes_an_entry() -> None:
    resources = Resources(
        topics=["t", "u"], groups=["g"], transactional_ids=["x"], pattern_type=PatternType.PREFIXED
    )
    subjects = Subjects(allowed=["User:a", "User:b"], allowed_hosts=["h", "i"], denied=["User:c"])
    found = bindings(resources, subjects, [Operation.READ, Operation.WRITE], NO_ROLE)
    assert len(found) == 4 * (2 * 2 + 1) * 2
    assert {pattern.pattern_type for pattern, _ in found} == {PatternType.PREFIXED}
    denied = [entry for _, entry in found if entry.permission is Permission.DENY]
    assert {(entry.principal, entry.host) for entry in denied} == {("User:c", "*")}


def test_operation_is_all_unless_one_is_named() -> None:
    assert named(bindings(TOPIC, ALICE, [], NO_ROLE)) == {("Topic", "t", "All")}


def test_cluster_has_one_name_and_no_prefix() -> None:
    resources = Resources(is_cluster=True, pattern_type=PatternType.PREFIXED)
    [(pattern, _)] = bindings(resources, ALICE, [Operation.CREATE], NO_ROLE)
    assert (pattern.name, pattern.pattern_type) == (CLUSTER_NAME, PatternType.LITERAL)
    [found] = filters(resources, ())
    assert found.pattern_type is PatternType.LITERAL


def test_producer_and_consumer_get_the_operations_of_kafkas_tool() -> None:
    producer = Role(is_producer=True, is_idempotent=True)
    resources = Resources(topics=["t"], transactional_ids=["x"])
    assert named(bindings(resources, ALICE, [], producer)) == {
        ("Topic", "t", "Write"),
        ("Topic", "t", "Describe"),
        ("Topic", "t", "Create"),
        ("TransactionalId", "x", "Write"),
        ("TransactionalId", "x", "Describe"),
        ("Cluster", CLUSTER_NAME, "IdempotentWrite"),
    }
    resources = Resources(topics=["t"], groups=["g"])
    assert named(bindings(resources, ALICE, [], Role(is_consumer=True))) == {
        ("Topic", "t", "Read"),
        ("Topic", "t", "Describe"),
        ("Group", "g", "Read"),
    }


@pytest.mark.parametrize(
    ("resources", "subjects", "operations", "role", "reason"),
    [
        (Resources(), ALICE, [], NO_ROLE, "name a resource"),
        (replace(TOPIC, pattern_type=PatternType.ANY), ALICE, [], NO_ROLE, "literal or prefixed"),
        (TOPIC, Subjects(), [], NO_ROLE, "name a principal"),
        (TOPIC, replace(ALICE, denied_hosts=["h"]), [], NO_ROLE, "--deny-host needs --deny-pr"),
        (
            TOPIC,
            Subjects(denied=["User:a"], allowed_hosts=["h"]),
            [],
            NO_ROLE,
            "--allow-host needs --allow-principal",
        ),
        (TOPIC, ALICE, [Operation.READ], Role(is_producer=True), "take no --operation"),
        (TOPIC, ALICE, [], Role(is_consumer=True, is_idempotent=True), "--idempotent needs"),
        (TOPIC, ALICE, [Operation.READ], Role(is_idempotent=True), "--idempotent needs"),
        (TOPIC, Subjects(), [], Role(is_idempotent=True), "--idempotent needs"),
        (Resources(groups=["g"]), ALICE, [], Role(is_producer=True), "--producer needs --topic"),
        (TOPIC, ALICE, [], Role(is_consumer=True), "--consumer needs --topic and --group"),
        (
            Resources(topics=["t"], groups=["g"]),
            ALICE,
            [],
            Role(is_producer=True),
            "--producer takes no --group",
        ),
    ],
)
def test_contradiction_is_refused_with_its_reason(
    resources: Resources,
    subjects: Subjects,
    operations: list[Operation],
    role: Role,
    reason: str,
) -> None:
    with pytest.raises(ValueError, match=reason):
        bindings(resources, subjects, operations, role)


def test_filter_of_an_entry_matches_no_other() -> None:
    found = bindings(
        Resources(topics=["t", "u"]), ALICE, [Operation.READ, Operation.WRITE], NO_ROLE
    )
    for binding in found:
        wanted = exact_filter(binding)
        matching = [
            each
            for each in found
            if wanted.matches_pattern(each.pattern) and wanted.matches_entry(each.entry)
        ]
        assert matching == [binding]


def test_filters_select_resources_and_principals() -> None:
    assert filters(Resources(pattern_type=PatternType.ANY), ()) == [AclFilter()]
    found = filters(Resources(topics=["t"], groups=["g"]), ["User:a", "User:b"])
    assert [(each.resource_type, each.name, each.principal) for each in found] == [
        (ResourceType.TOPIC, "t", "User:a"),
        (ResourceType.TOPIC, "t", "User:b"),
        (ResourceType.GROUP, "g", "User:a"),
        (ResourceType.GROUP, "g", "User:b"),
    ]

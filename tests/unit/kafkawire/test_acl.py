"""Names and filters of access control lists: `kafkawire.acl`."""

from dataclasses import replace

import pytest

from kafkawire.acl import (
    OPERATIONS,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

ENTRY = AclEntry(
    principal="User:a", host="*", operation=Operation.READ, permission=Permission.ALLOW
)


def test_names_are_those_of_kafkas_tools() -> None:
    assert ResourceType.TRANSACTIONAL_ID.title == "TransactionalId"
    assert Operation.DESCRIBE_CONFIGS.title == "DescribeConfigs"
    assert str(ResourcePattern(ResourceType.TOPIC, "a", PatternType.PREFIXED)) == "Topic:PREFIXED:a"


@pytest.mark.parametrize("text", ["DescribeConfigs", "DESCRIBE_CONFIGS", "describeconfigs"])
def test_name_is_read_in_every_spelling(text: str) -> None:
    assert Operation.parse(text) is Operation.DESCRIBE_CONFIGS


def test_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'Permit' is none of Any, Deny, Allow"):
        Permission.parse("Permit")


def test_members_hash_like_their_numbers() -> None:
    assert {Operation.READ: 1}[3] == 1  # type: ignore[index]


def test_every_type_of_resource_knows_its_operations() -> None:
    assert OPERATIONS.keys() == set(ResourceType) - {ResourceType.ANY}
    assert all(Operation.ALL not in known for known in OPERATIONS.values())


@pytest.mark.parametrize(
    ("wanted", "is_match"),
    [
        (AclFilter(), True),
        (AclFilter(principal="User:a", host="*", operation=Operation.READ), True),
        (AclFilter(permission=Permission.ALLOW), True),
        (AclFilter(principal="User:*"), False),
        (AclFilter(host="10.0.0.1"), False),
        (AclFilter(operation=Operation.ALL), False),
        (AclFilter(permission=Permission.DENY), False),
    ],
)
def test_filter_compares_each_field_of_an_entry(wanted: AclFilter, is_match: bool) -> None:
    assert wanted.matches_entry(ENTRY) is is_match
    assert wanted.matches_entry(replace(ENTRY)) is is_match


@pytest.mark.parametrize(
    ("pattern_type", "name", "expected"),
    [
        (PatternType.ANY, None, {"orders", "ord", "*", "other"}),
        (PatternType.ANY, "orders", {"orders"}),
        (PatternType.LITERAL, "orders", {"orders"}),
        (PatternType.LITERAL, None, {"orders", "*", "other"}),
        (PatternType.PREFIXED, "ord", {"ord"}),
        (PatternType.PREFIXED, "orders", set()),
        (PatternType.MATCH, "orders", {"orders", "ord", "*"}),
        (PatternType.MATCH, None, {"orders", "ord", "*", "other"}),
    ],
)
def test_filter_finds_patterns(
    pattern_type: PatternType, name: str | None, expected: set[str]
) -> None:
    topic, prefixed = ResourceType.TOPIC, PatternType.PREFIXED
    patterns = [ResourcePattern(topic, each) for each in ("orders", "*", "other")]
    patterns.append(ResourcePattern(topic, "ord", prefixed))
    wanted = AclFilter(resource_type=topic, name=name, pattern_type=pattern_type)
    assert {each.name for each in patterns if wanted.matches_pattern(each)} == expected
    elsewhere = AclFilter(resource_type=ResourceType.GROUP)
    assert not any(map(elsewhere.matches_pattern, patterns))

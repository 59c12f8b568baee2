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

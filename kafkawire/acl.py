"""Access control lists: resources, operations, entries and filters (decision).

An entry allows or denies a principal an operation on the resources that a pattern names. Numbers
are Kafka's on the wire, names are Kafka's in znodes and tools.

Source: org.apache.kafka.common.acl and org.apache.kafka.common.resource of Kafka 3.9; KIP-290.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, Self


class AclEnum(IntEnum):
    """A number of the protocol with Kafka's name, such as `TransactionalId`."""

    # The hash of an enum's member runs Python code, which would slow down each decision.
    __hash__ = int.__hash__

    @property
    def title(self) -> str:
        """The name in znodes and tools."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the member with a name, in any letter case and with or without underscores.

        Raises:
            ValueError: there is none.
        """
        folded = _folded(text)
        for member in cls:
            if _folded(member.name) == folded:
                return member
        names = ", ".join(member.title for member in cls)
        raise ValueError(f"{text!r} is none of {names}")


class ResourceType(AclEnum):
    """Kinds of resources; a filter's ANY matches each."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(AclEnum):
    """Kinds of patterns; a filter's ANY matches both, its MATCH all that apply to a name."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(AclEnum):
    """Operations on resources; a filter's ANY matches each, an entry's ALL covers each."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(AclEnum):
    """Effect of an entry; a filter's ANY matches both."""

    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME: Final = "kafka-cluster"
"""Name of the only resource of type CLUSTER."""
WILDCARD: Final = "*"
"""As the name of a literal pattern: every resource of its type. As a host: every host."""
WILDCARD_PRINCIPAL: Final = "User:*"


@dataclass(frozen=True, slots=True)
class ResourcePattern:
    """The resources of one type with a name, or with a prefix of the name."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return f"{self.resource_type.title}:{self.pattern_type.name}:{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AclEntry:
    """Allows or denies an operation to a principal that connects from a host."""

    principal: str
    host: str
    operation: Operation
    permission: Permission


class AclBinding(NamedTuple):
    """An entry with its pattern."""

    pattern: ResourcePattern
    entry: AclEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Selects entries and their patterns; None matches every text.

    Source: ResourcePatternFilter.matches, AccessControlEntryFilter.matches.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches_pattern(self, pattern: ResourcePattern) -> bool:
        """Whether entries of `pattern` may match."""
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            if self.pattern_type is not pattern.pattern_type:
                return False
        elif self.pattern_type is PatternType.MATCH and self.name is not None:
            return applies(pattern, self.name)
        return self.name in (None, pattern.name)

    def matches_entry(self, entry: AclEntry) -> bool:
        """Whether `entry` matches, if its pattern does."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


OPERATIONS: Final[Mapping[ResourceType, frozenset[Operation]]] = {
    ResourceType.TOPIC: frozenset(
        {
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    ResourceType.GROUP: frozenset({Operation.READ, Operation.DELETE, Operation.DESCRIBE}),
    ResourceType.CLUSTER: frozenset(
        {
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        }
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset({Operation.WRITE, Operation.DESCRIBE}),
    ResourceType.DELEGATION_TOKEN: frozenset({Operation.DESCRIBE}),
    ResourceType.USER: frozenset({Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}),
}
"""The operations that each type of resource knows. Source: AclEntry.supportedOperations."""
OPERATION_BITS: Final[Mapping[ResourceType, int]] = {
    kind: sum(1 << operation for operation in operations) for kind, operations in OPERATIONS.items()
}
"""The same as bits, in the form in which responses list them."""


def applies(pattern: ResourcePattern, name: str) -> bool:
    """Whether `pattern` covers the resource `name` of its type."""
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, WILDCARD)


def _folded(text: str) -> str:
    return text.replace("_", "").lower()

"""The access control entries that the options of `ottla acls` name (decision).

The options have the names and the meaning that they have in Kafka's kafka-acls.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from kafkawire.acl import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

TOPIC_OF_PRODUCER: Final = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
ID_OF_PRODUCER: Final = (Operation.WRITE, Operation.DESCRIBE)
TOPIC_OF_CONSUMER: Final = (Operation.READ, Operation.DESCRIBE)
GROUP_OF_CONSUMER: Final = (Operation.READ,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The named resources, by type."""

    topics: Sequence[str] = ()
    groups: Sequence[str] = ()
    transactional_ids: Sequence[str] = ()
    is_cluster: bool = False
    pattern_type: PatternType = PatternType.LITERAL

    def named(self) -> Iterator[tuple[ResourceType, str]]:
        """Yield the type and name of each resource."""
        yield from product([ResourceType.TOPIC], self.topics)
        yield from product([ResourceType.GROUP], self.groups)
        yield from product([ResourceType.TRANSACTIONAL_ID], self.transactional_ids)
        if self.is_cluster:
            yield ResourceType.CLUSTER, CLUSTER_NAME

    def pattern(self, kind: ResourceType, name: str) -> ResourcePattern:
        """Return the pattern of a resource; the cluster has only one name."""
        is_cluster = kind is ResourceType.CLUSTER
        return ResourcePattern(kind, name, PatternType.LITERAL if is_cluster else self.pattern_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """The principals and hosts that entries allow or deny."""

    allowed: Sequence[str] = ()
    denied: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    denied_hosts: Sequence[str] = ()

    def entries(self, operation: Operation) -> Iterator[AclEntry]:
        """Yield the entries for one operation; without a host they apply to every host."""
        for principals, hosts, permission in (
            (self.allowed, self.allowed_hosts, Permission.ALLOW),
            (self.denied, self.denied_hosts, Permission.DENY),
        ):
            for principal, host in product(principals, hosts or [WILDCARD]):
                yield AclEntry(
                    principal=principal, host=host, operation=operation, permission=permission
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Operations of a producer, a consumer, or both, instead of single operations."""

    is_producer: bool = False
    is_consumer: bool = False
    is_idempotent: bool = False

    def __bool__(self) -> bool:
        return self.is_producer or self.is_consumer or self.is_idempotent


def bindings(
    resources: Resources, subjects: Subjects, operations: Sequence[Operation], role: Role
) -> list[AclBinding]:
    """Return the entries to add or remove.

    Raises:
        ValueError: the options contradict each other, or something is missing; the text says what.
    """
    _check(resources, subjects, operations, role)
    pairs = _of_role(resources, role) if role else _of_operations(resources, operations)
    found = {
        AclBinding(resources.pattern(kind, name), entry): None
        for kind, name, operation in pairs
        for entry in subjects.entries(operation)
    }
    return list(found)


def filters(resources: Resources, principals: Sequence[str]) -> list[AclFilter]:
    """Return filters for all entries of the named resources, or of all without a name."""
    named: list[tuple[ResourceType, str | None]] = [*resources.named()]
    wanted: list[str | None] = [*principals]
    return [
        AclFilter(
            resource_type=kind,
            name=name,
            pattern_type=(
                PatternType.LITERAL if kind is ResourceType.CLUSTER else resources.pattern_type
            ),
            principal=principal,
        )
        for kind, name in named or [(ResourceType.ANY, None)]
        for principal in wanted or [None]
    ]


def exact_filter(binding: AclBinding) -> AclFilter:
    """Return the filter that matches one entry only."""
    pattern, entry = binding
    return AclFilter(
        resource_type=pattern.resource_type,
        name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission=entry.permission,
    )


Triple = tuple[ResourceType, str, Operation]


def _of_operations(resources: Resources, operations: Sequence[Operation]) -> Iterator[Triple]:
    for kind, name in resources.named():
        for operation in operations or [Operation.ALL]:
            yield kind, name, operation


def _of_role(resources: Resources, role: Role) -> Iterator[Triple]:
    kinds: list[tuple[ResourceType, Sequence[str], Sequence[Operation]]] = []
    if role.is_producer:
        kinds += [
            (ResourceType.TOPIC, resources.topics, TOPIC_OF_PRODUCER),
            (ResourceType.TRANSACTIONAL_ID, resources.transactional_ids, ID_OF_PRODUCER),
        ]
    if role.is_idempotent:
        kinds.append((ResourceType.CLUSTER, [CLUSTER_NAME], [Operation.IDEMPOTENT_WRITE]))
    if role.is_consumer:
        kinds += [
            (ResourceType.TOPIC, resources.topics, TOPIC_OF_CONSUMER),
            (ResourceType.GROUP, resources.groups, GROUP_OF_CONSUMER),
        ]
    for kind, names, operations in kinds:
        for name, operation in product(names, operations):
            yield kind, name, operation


def _check(
    resources: Resources, subjects: Subjects, operations: Sequence[Operation], role: Role
) -> None:
    if role.is_idempotent and not role.is_producer:
        raise ValueError("--idempotent needs --producer")
    if not any(resources.named()):
        raise ValueError("name a resource: --topic, --group, --transactional-id or --cluster")
    if resources.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise ValueError("an entry has a literal or prefixed pattern")
    if not (subjects.allowed or subjects.denied):
        raise ValueError("name a principal: --allow-principal or --deny-principal")
    hosts = (subjects.allowed_hosts and not subjects.allowed, "--allow-host")
    denied_hosts = (subjects.denied_hosts and not subjects.denied, "--deny-host")
    for is_alone, option in (hosts, denied_hosts):
        if is_alone:
            raise ValueError(f"{option} needs {option.replace('host', 'principal')}")
    if role and (operations or subjects.denied or resources.is_cluster):
        text = "--producer and --consumer choose operations to allow"
        raise ValueError(f"{text}: they take no --operation, --deny-principal or --cluster")
    if role.is_producer and not (resources.topics or resources.transactional_ids):
        raise ValueError("--producer needs --topic")
    if role.is_consumer and not (resources.topics and resources.groups):
        raise ValueError("--consumer needs --topic and --group")
    if resources.groups and role and not role.is_consumer:
        raise ValueError("--producer takes no --group")

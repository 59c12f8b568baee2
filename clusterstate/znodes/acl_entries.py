"""The znodes of access control lists, and the notifications of their changes (decision).

There is a znode for each pattern with entries. Literal and prefixed patterns have separate trees,
because older brokers know only the literal ones.

Source: kafka.zk.ZkAclStore, kafka.security.authorizer.AclEntry of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes.json_object import JsonObject, encode_json
from kafkawire.acl import (
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)
RESOURCE_TYPES: Final = tuple(each for each in ResourceType if each is not ResourceType.ANY)

_VERSION: Final = 1
_TREES: Final = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
_CHANGES: Final = {
    PatternType.LITERAL: "/kafka-acl-changes",
    PatternType.PREFIXED: "/kafka-acl-extended-changes",
}


def parent_path(resource_type: ResourceType, pattern_type: PatternType) -> str:
    """Return the parent of the znodes of one type of resource."""
    return f"{_TREES[pattern_type]}/{resource_type.title}"


def acl_path(pattern: ResourcePattern) -> str:
    """Return the path of a pattern's entries."""
    return f"{parent_path(pattern.resource_type, pattern.pattern_type)}/{pattern.name}"


def changes_path(pattern_type: PatternType) -> str:
    """Return the parent of the notifications."""
    return _CHANGES[pattern_type]


def change_prefix(pattern_type: PatternType) -> str:
    """Return the path of a notification without its number."""
    return f"{_CHANGES[pattern_type]}/acl_changes_"


def encode_acls(entries: Collection[AclEntry]) -> bytes:
    """Return the data of a pattern's znode, with the entries in a fixed order."""
    acls = [
        {
            "principal": entry.principal,
            "permissionType": entry.permission.title,
            "operation": entry.operation.title,
            "host": entry.host,
        }
        for entry in sorted(entries, key=_order)
    ]
    return encode_json({"version": _VERSION, "acls": acls})


def decode_acls(data: bytes | None) -> frozenset[AclEntry]:
    """Return the entries of a pattern; a znode without data has none.

    Raises:
        MalformedZnodeError: not a list of entries, or with an unknown operation or permission.
    """
    if not data:
        return frozenset()
    fields = JsonObject.decode(data)
    if (version := fields.integer("version")) != _VERSION:
        raise MalformedZnodeError(f"access control list has version {version}, not {_VERSION}")
    return frozenset(_entries(fields.objects("acls")))


def encode_acl_change(pattern: ResourcePattern) -> bytes:
    """Return the data of the notification that a pattern's entries have changed."""
    if pattern.pattern_type is PatternType.LITERAL:
        return f"{pattern.resource_type.name}:{pattern.name}".encode()
    return encode_json(
        {
            "version": _VERSION,
            "resourceType": pattern.resource_type.name,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
        }
    )


def decode_literal_change(data: bytes | None) -> ResourcePattern:
    """Return the literal pattern whose entries have changed.

    Raises:
        MalformedZnodeError: not a notification.
    """
    try:
        kind, colon, name = (data or b"").decode().partition(":")
    except UnicodeDecodeError as error:
        raise MalformedZnodeError(f"not text: {data!r}") from error
    if not colon:
        raise MalformedZnodeError(f"not a resource type, a colon and a name: {data!r}")
    return ResourcePattern(_resource_type(kind), name)


def decode_extended_change(data: bytes | None) -> ResourcePattern:
    """Return the pattern of another type whose entries have changed.

    Raises:
        MalformedZnodeError: not a notification.
    """
    fields = JsonObject.decode(data)
    try:
        pattern_type = PatternType.parse(fields.text("patternType"))
    except ValueError as error:
        raise MalformedZnodeError(str(error)) from error
    if pattern_type is not PatternType.PREFIXED:
        raise MalformedZnodeError(f"{pattern_type.name} patterns have another notification")
    kind = _resource_type(fields.text("resourceType"))
    return ResourcePattern(kind, fields.text("name"), pattern_type)


def _entries(objects: Iterable[JsonObject]) -> Iterable[AclEntry]:
    for fields in objects:
        try:
            operation = Operation.parse(fields.text("operation"))
            permission = Permission.parse(fields.text("permissionType"))
        except ValueError as error:
            raise MalformedZnodeError(str(error)) from error
        if Operation.ANY is operation or Permission.ANY is permission:
            raise MalformedZnodeError("an entry cannot have any operation or any permission")
        yield AclEntry(
            principal=fields.text("principal"),
            host=fields.text("host"),
            operation=operation,
            permission=permission,
        )


def _resource_type(text: str) -> ResourceType:
    try:
        found = ResourceType.parse(text)
    except ValueError as error:
        raise MalformedZnodeError(str(error)) from error
    if found is ResourceType.ANY:
        raise MalformedZnodeError("no resource has the type ANY")
    return found


def _order(entry: AclEntry) -> tuple[str, str, int, int]:
    return (entry.principal, entry.host, entry.operation, entry.permission)

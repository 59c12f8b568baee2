"""Reads and changes of the znodes of access control lists (decision).

Source: kafka.security.authorizer.AclAuthorizer, kafka.zk.KafkaZkClient of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from clusterstate.change_notifications import Changes, take_changes
from clusterstate.errors import MalformedZnodeError
from clusterstate.plans import (
    MAX_ATTEMPTS,
    Create,
    Delete,
    Op,
    Plan,
    Refusal,
    SetData,
    list_children,
    read,
    write,
)
from clusterstate.znodes import paths
from clusterstate.znodes.acl_entries import (
    PATTERN_TYPES,
    RESOURCE_TYPES,
    acl_path,
    change_prefix,
    changes_path,
    decode_acls,
    decode_extended_change,
    decode_literal_change,
    encode_acl_change,
    encode_acls,
    parent_path,
)
from kafkawire.acl import AclEntry, PatternType, ResourcePattern
from kafkawire.errors import ApiError, ErrorCode

Entries = frozenset[AclEntry]


def create_acl_nodes() -> Plan[None]:
    """Create the parents of entries and notifications; existing ones are kept."""
    wanted: dict[str, None] = {}
    for pattern_type in PATTERN_TYPES:
        wanted[changes_path(pattern_type)] = None
        for resource_type in RESOURCE_TYPES:
            path = parent_path(resource_type, pattern_type)
            wanted |= dict.fromkeys((*paths.parents(path), path))
    yield from write([(Create(path, None),) for path in wanted])


class FoundAcls(NamedTuple):
    """Entries as read, and the reason for each pattern whose znode does not hold entries."""

    entries: dict[ResourcePattern, Entries]
    malformed: dict[ResourcePattern, str]


def read_acls(patterns: Iterable[ResourcePattern]) -> Plan[FoundAcls]:
    """Return the entries of each pattern; none for a pattern without a znode."""
    asked = list(patterns)
    nodes = yield from read([acl_path(pattern) for pattern in asked])
    found = FoundAcls({}, {})
    for pattern, node in zip(asked, nodes, strict=True):
        try:
            found.entries[pattern] = decode_acls(node.data) if node else frozenset()
        except MalformedZnodeError as error:
            found.malformed[pattern] = f"{acl_path(pattern)}: {error}"
    return found


def read_patterns() -> Plan[list[ResourcePattern]]:
    """Return every pattern with a znode."""
    found = []
    for pattern_type in PATTERN_TYPES:
        for resource_type in RESOURCE_TYPES:
            names = yield from list_children(parent_path(resource_type, pattern_type))
            found += [ResourcePattern(resource_type, name, pattern_type) for name in sorted(names)]
    return found


def change_acls(pattern: ResourcePattern, change: Callable[[Entries], Entries]) -> Plan[Entries]:
    """Apply `change` to the entries of a pattern, announce it, and return the new entries.

    The change and its notification are one transaction: no broker misses a change whose author
    stops in between.

    Raises:
        ApiError: INVALID_REQUEST if the entries exceed the size of a znode; UNKNOWN_SERVER_ERROR,
            as in Kafka, if the coordinator refuses the znode itself, such as one with too long a
            name; REQUEST_TIMED_OUT after `MAX_ATTEMPTS` conflicts. The entries are unchanged.
        MalformedZnodeError: the znode does not hold entries.
    """
    path = acl_path(pattern)
    prefix = change_prefix(pattern.pattern_type)
    notify = Create(prefix, encode_acl_change(pattern), sequential=True)
    for _ in range(MAX_ATTEMPTS):
        [node] = yield from read((path,))
        current = decode_acls(node.data) if node else frozenset()
        changed = change(current)
        if changed == current:
            return current
        op: Op
        if node is None:
            op = Create(path, encode_acls(changed))
        elif changed:
            op = SetData(path, encode_acls(changed), node.version)
        else:
            op = Delete(path, node.version)
        [outcome] = yield from write([(op, notify)])
        if outcome.refusal is None:
            return changed
        if outcome.refusal is Refusal.TOO_LARGE:
            text = f"{len(changed)} entries of {pattern} do not fit into a znode"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
        if outcome.refusal is Refusal.OTHER:
            text = f"the coordinator refuses a znode for the entries of {pattern}"
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    text = f"the entries of {pattern} were changed concurrently in {MAX_ATTEMPTS} attempts"
    raise ApiError(ErrorCode.REQUEST_TIMED_OUT, text)


def take_acl_changes(
    last_numbers: Mapping[PatternType, int], now_ms: int
) -> Plan[dict[PatternType, Changes[ResourcePattern]]]:
    """Return the patterns announced after the notifications with these numbers, by their type.

    Deletes expired notifications, and sets watches for the next ones.
    """
    decoders = {
        PatternType.LITERAL: decode_literal_change,
        PatternType.PREFIXED: decode_extended_change,
    }
    found = {}
    for kind, decode in decoders.items():
        found[kind] = yield from take_changes(
            change_prefix(kind), decode, last_numbers[kind], now_ms
        )
    return found

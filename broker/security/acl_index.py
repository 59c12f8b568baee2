"""Rights by principal and host, for the resources that patterns name (decision).

A right is a bit mask with one bit per operation. The index holds the masks of each pattern, so that
one lookup decides over all operations of a principal on a resource: its cost depends on the length
of the name, not on the number of entries.

Source: kafka.security.authorizer.AclAuthorizer of Kafka 3.9.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from kafkawire.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

ALL_OPERATIONS: Final = -1
NO_OPERATION: Final = 0


Owner = tuple[ResourceType, PatternType, str]


class Rights(NamedTuple):
    """Masks of the operations that entries deny and allow, as stated: nothing is implied."""

    denied: int = NO_OPERATION
    allowed: int = NO_OPERATION


class Grants:
    """The entries of one pattern, with their masks by principal and host."""

    __slots__ = ("_rights", "entries")

    def __init__(self, entries: frozenset[AclEntry]) -> None:
        self.entries = entries
        self._rights: dict[tuple[str, str], Rights] = {}
        for entry in entries:
            key = (entry.principal, canonical_host(entry.host))
            denied, allowed = self._rights.get(key, Rights())
            bits = _bits(entry.operation)
            if entry.permission is Permission.DENY:
                denied |= bits
            else:
                allowed |= bits
            self._rights[key] = Rights(denied, allowed)

    @property
    def principals(self) -> set[str]:
        """The principals that the entries name."""
        return {principal for principal, _ in self._rights}

    def rights(self, principal: str, host: str) -> Rights:
        """Return the rights of a principal from a host with a canonical text."""
        denied = allowed = NO_OPERATION
        for user in (principal, WILDCARD_PRINCIPAL):
            for origin in (host, WILDCARD):
                found = self._rights.get((user, origin))
                if found is not None:
                    denied |= found.denied
                    allowed |= found.allowed
        return Rights(denied, allowed)


class AclIndex:
    """All patterns with entries."""

    def __init__(self) -> None:
        self._grants: dict[ResourcePattern, Grants] = {}
        self._literals: dict[ResourceType, dict[str, Grants]] = {}
        # By type and length of the prefix.
        self._prefixes: dict[ResourceType, dict[int, dict[str, Grants]]] = {}
        # By name, for each type, type of pattern, and principal that an entry names.
        self._of_principal: dict[Owner, dict[str, Grants]] = {}

    @property
    def entries(self) -> Mapping[ResourcePattern, frozenset[AclEntry]]:
        """A copy of the entries of every pattern that has any."""
        return {pattern: grants.entries for pattern, grants in self._grants.items()}

    def get(self, pattern: ResourcePattern) -> frozenset[AclEntry]:
        """Return the entries of a pattern."""
        found = self._grants.get(pattern)
        return frozenset() if found is None else found.entries

    def set(self, pattern: ResourcePattern, entries: Iterable[AclEntry]) -> None:
        """Replace the entries of a pattern; without entries it counts as absent."""
        grants = Grants(frozenset(entries))
        self._replace_of_principals(pattern, grants)
        if grants.entries:
            self._grants[pattern] = grants
            self._shelf(pattern)[pattern.name] = grants
        elif self._grants.pop(pattern, None) is not None:
            del self._shelf(pattern)[pattern.name]
            if pattern.pattern_type is PatternType.PREFIXED:
                self._drop_empty(pattern)

    def covering(self, kind: ResourceType, name: str) -> Iterator[Grants]:
        """Yield the grants of each pattern that covers a resource."""
        literals = self._literals.get(kind, {})
        for literal in {name, WILDCARD}:
            if literal in literals:
                yield literals[literal]
        for length, prefixes in self._prefixes.get(kind, {}).items():
            found = prefixes.get(name[:length])
            if found is not None:
                yield found

    def rights_by_name(
        self, kind: ResourceType, pattern_type: PatternType, principal: str, host: str
    ) -> dict[str, Rights]:
        """Return the rights by the name of each pattern whose entries name the principal."""
        return {
            name: grants.rights(principal, host)
            for user in (principal, WILDCARD_PRINCIPAL)
            for name, grants in self._of_principal.get((kind, pattern_type, user), {}).items()
        }

    def _replace_of_principals(self, pattern: ResourcePattern, grants: Grants) -> None:
        kind, pattern_type, name = pattern.resource_type, pattern.pattern_type, pattern.name
        before = self._grants.get(pattern)
        for user in set() if before is None else before.principals - grants.principals:
            owner = (kind, pattern_type, user)
            del self._of_principal[owner][name]
            if not self._of_principal[owner]:
                del self._of_principal[owner]
        for user in grants.principals:
            self._of_principal.setdefault((kind, pattern_type, user), {})[name] = grants

    def _shelf(self, pattern: ResourcePattern) -> dict[str, Grants]:
        kind = pattern.resource_type
        if pattern.pattern_type is PatternType.LITERAL:
            return self._literals.setdefault(kind, {})
        return self._prefixes.setdefault(kind, {}).setdefault(len(pattern.name), {})

    def _drop_empty(self, pattern: ResourcePattern) -> None:
        by_length = self._prefixes[pattern.resource_type]
        if not by_length[len(pattern.name)]:
            del by_length[len(pattern.name)]


@lru_cache(maxsize=1024)
def canonical_host(text: str) -> str:
    """Return one text for all spellings of an address; other texts stay as they are.

    Kafka compares Java's spelling, such as `0:0:0:0:0:0:0:1`, where Python writes `::1`. An IPv4
    address inside an IPv6 one counts as the IPv4 address.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)


def _bits(operation: Operation) -> int:
    return ALL_OPERATIONS if operation is Operation.ALL else 1 << operation

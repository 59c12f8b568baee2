"""Decides whether a principal may do an operation on a resource (decision).

The rules come from Kafka's AclAuthorizer. A super user may do everything. For others, an entry
that denies wins over all that allow. An allowed READ, WRITE, DELETE or ALTER implies DESCRIBE, and
ALTER_CONFIGS implies DESCRIBE_CONFIGS; a denied operation implies nothing. A resource without any
entry is closed, or open to everybody if the configuration says so.

Invariant: a change of entries counts for the next decision. Decisions are remembered until then.

Source: kafka.security.authorizer.AclAuthorizer of Kafka 3.9; KIP-679 for `allows_on_any`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from broker.security.acl_index import (
    ALL_OPERATIONS,
    NO_OPERATION,
    AclIndex,
    Rights,
    canonical_host,
)
from broker.security.principal import Principal
from kafkawire.acl import (
    WILDCARD,
    AclEntry,
    Operation,
    PatternType,
    ResourcePattern,
    ResourceType,
)

MAX_REMEMBERED: Final = 20_000
"""Limit of remembered decisions, a few megabytes. Beyond it, all are forgotten."""
MAX_REMEMBERED_NAME: Final = 255
"""Decisions about longer names are not remembered: clients invent names of up to 32 KiB, and no
topic has one of these."""

_IMPLY_DESCRIBE: Final = sum(
    1 << operation
    for operation in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
)


class Authorizer:
    """Holds all entries, and decides."""

    def __init__(self, super_users: Collection[Principal], *, allows_unlisted: bool) -> None:
        """With `allows_unlisted`, everybody may use a resource that no entry covers."""
        self.acls = AclIndex()
        self._super_users = frozenset(super_users)
        self._allows_unlisted = allows_unlisted
        self._operations: dict[tuple[str, str, str, ResourceType, str], int] = {}
        self._on_any: dict[tuple[Principal, str, Operation, ResourceType], bool] = {}

    def set(self, pattern: ResourcePattern, entries: Iterable[AclEntry]) -> None:
        """Replace the entries of a pattern."""
        self.acls.set(pattern, entries)
        self._operations.clear()
        self._on_any.clear()

    def operations(self, principal: Principal, host: str, kind: ResourceType, name: str) -> int:
        """Return the mask of the operations that are allowed on a resource."""
        key = (principal.name, principal.kind, host, kind, name)
        found = self._operations.get(key)
        if found is None:
            found = self._decide(principal, host, kind, name)
            if len(self._operations) >= MAX_REMEMBERED:
                self._operations.clear()
            if len(name) <= MAX_REMEMBERED_NAME:
                self._operations[key] = found
        return found

    def allows_on_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Whether an operation is allowed on at least one resource of a type, existing or not.

        Entries count as stated: nothing is implied.
        """
        key = (principal, host, operation, kind)
        found = self._on_any.get(key)
        if found is None:
            found = self._decide_on_any(principal, host, operation, kind)
            if len(self._on_any) >= MAX_REMEMBERED:
                self._on_any.clear()
            self._on_any[key] = found
        return found

    def _decide(self, principal: Principal, host: str, kind: ResourceType, name: str) -> int:
        if principal in self._super_users:
            return ALL_OPERATIONS
        grants = list(self.acls.covering(kind, name))
        if not grants:
            return ALL_OPERATIONS if self._allows_unlisted else NO_OPERATION
        text, host = str(principal), canonical_host(host)
        denied = allowed = NO_OPERATION
        for each in grants:
            rights = each.rights(text, host)
            denied |= rights.denied
            allowed |= rights.allowed
        return _with_implied(allowed) & ~denied

    def _decide_on_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        if principal in self._super_users:
            return True
        text, host, bit = str(principal), canonical_host(host), 1 << operation

        def rights(pattern_type: PatternType) -> dict[str, Rights]:
            return self.acls.rights_by_name(kind, pattern_type, text, host)

        literals, prefixes = rights(PatternType.LITERAL), rights(PatternType.PREFIXED)
        if literals.get(WILDCARD, Rights()).denied & bit:
            return False
        if self._allows_unlisted:
            return True
        denied_prefixes = {name for name, found in prefixes.items() if found.denied & bit}
        lengths = {len(prefix) for prefix in denied_prefixes}

        def is_denied(name: str) -> bool:
            return any(name[:length] in denied_prefixes for length in lengths)

        return any(
            found.allowed & bit
            and (name == WILDCARD or not (found.denied & bit or is_denied(name)))
            for name, found in literals.items()
        ) or any(found.allowed & bit and not is_denied(name) for name, found in prefixes.items())


def _with_implied(allowed: int) -> int:
    if allowed & _IMPLY_DESCRIBE:
        allowed |= 1 << Operation.DESCRIBE
    if allowed >> Operation.ALTER_CONFIGS & 1:
        allowed |= 1 << Operation.DESCRIBE_CONFIGS
    return allowed

"""The filter of a DescribeClientQuotas request (decision)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from broker.quotas.entity import CLIENT_ID, IP, USER, QuotaEntity
from kafkawire.errors import ApiError, ErrorCode

EXACT: Final = 0
DEFAULT: Final = 1
ANY: Final = 2


@dataclass(frozen=True, slots=True)
class Component:
    """A required kind of entity, matched by exact name, by default, or by any name."""

    kind: str
    match_type: int
    match: str | None


class QuotaFilter:
    """Matches entities; a strict filter rejects entities with kinds that it does not name."""

    def __init__(self, components: Sequence[Component], *, is_strict: bool) -> None:
        """Make the filter from the components of a request.

        Raises:
            ApiError: the components contradict each other, or name an unknown kind.
        """
        self._wanted = {each.kind: each for each in components}
        self._is_strict = is_strict
        if len(self._wanted) < len(components) or "" in self._wanted:
            text = "each kind of entity may be named once, and must have a name"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
        if unknown := sorted(self._wanted.keys() - {USER, CLIENT_ID, IP}):
            text = f"entities of kind {unknown[0]} have no quotas"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
        if IP in self._wanted and len(self._wanted) > 1:
            text = "addresses have no quotas together with users or clients"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
        if any(each.match_type not in (EXACT, DEFAULT, ANY) for each in components):
            text = "a match type must be exact (0), default (1) or any (2)"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)

    def accepts(self, entity: QuotaEntity) -> bool:
        """Whether an entity matches."""
        names = dict(entity.names)
        if IP in names and self._wanted.keys() & {USER, CLIENT_ID}:
            return False
        if self._is_strict and names.keys() - self._wanted.keys():
            return False
        return all(_fits(wanted, names.get(kind)) for kind, wanted in self._wanted.items())


def _fits(wanted: Component, name: str | None) -> bool:
    if name is None:
        return False
    if wanted.match_type == ANY:
        return True
    # The default has no name, so that no exact name is its own, not even an empty one.
    return name == ("" if wanted.match_type == DEFAULT else wanted.match or None)

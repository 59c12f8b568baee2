"""Which quotas a DescribeClientQuotas asks for (decision)."""

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
    """A kind of entity that must be named: exactly so, by default, or anyhow."""

    kind: str
    match_type: int
    match: str | None


class QuotaFilter:
    """Matches entities; a strict one none that are more specific than it says."""

    def __init__(self, components: Sequence[Component], *, is_strict: bool) -> None:
        """Take what a request says.

        Raises:
            ApiError: it makes no sense, or names kinds that do not exist.
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
            raise ApiError(ErrorCode.INVALID_REQUEST, "a match is exact (0), default (1), any (2)")

    def accepts(self, entity: QuotaEntity) -> bool:
        """Whether an entity is asked for."""
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
    return name == ("" if wanted.match_type == DEFAULT else wanted.match)

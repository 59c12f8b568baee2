"""The list of planted bugs, and the way they replace attributes of the product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pytest

Bug = Callable[..., Any]


class Mutant(NamedTuple):
    """A bug and its places: attributes of classes or modules."""

    bug: Bug
    places: tuple[tuple[Any, str], ...]

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Replace the attributes by the bug."""
        for owner, name in self.places:
            real = vars(owner)[name]
            if isinstance(real, property):
                patch.setattr(owner, name, property(_bound(self.bug, real.fget)))
            else:
                patch.setattr(owner, name, _bound(self.bug, getattr(owner, name)))


def _bound(bug: Bug, real: Any) -> Bug:
    def replacement(*arguments: Any, **options: Any) -> Any:
        return bug(real, *arguments, **options)

    return replacement


_MUTANTS: dict[str, Mutant] = {}
MUTANTS: Final[Mapping[str, Mutant]] = _MUTANTS


def replaces(*places: tuple[Any, str]) -> Callable[[Bug], Bug]:
    """Add a mutant, which replaces attributes of classes or modules.

    Raises:
        AttributeError: one of them has got another name since.
    """
    for owner, name in places:
        if name not in vars(owner):
            raise AttributeError(f"{owner.__name__} has no {name} to replace")

    def add(bug: Bug) -> Bug:
        _MUTANTS[bug.__name__] = Mutant(bug, places)
        return bug

    return add

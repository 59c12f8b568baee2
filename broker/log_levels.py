"""The levels of this process's loggers, which may change while it runs (decision).

Loggers are named after their modules, and inherit the level of the nearest logger above them that
has one: `broker.network.processor`, `broker.network`, `broker`, `root`.
Source: kafka.utils.Log4jController of Kafka 3.9; KIP-412.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from broker.config.config_change import ConfigChange, ConfigOperation
from kafkawire.errors import ApiError, ErrorCode

ROOT: Final = "root"
LEVELS: Final[Mapping[str, int]] = {
    "TRACE": 5,
    "DEBUG": 10,
    "INFO": 20,
    "WARN": 30,
    "ERROR": 40,
    "FATAL": 50,
}
"""Kafka's levels, as numbers of Python's `logging`. There are no events below DEBUG."""


class Level:
    """The level in force for one logger; events below `number` are dropped."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class LogLevels:
    """The levels that are set, and the loggers that read them."""

    def __init__(self, root: str = "INFO", known: Callable[[], Iterable[str]] = lambda: ()) -> None:
        """Begin with the level `root` for all; `known` returns the names of existing loggers."""
        self._known = known
        self._set: dict[str, str] = {ROOT: root}
        self._in_force: dict[str, Level] = {}

    def level(self, name: str) -> Level:
        """Return the level of a logger; it is the same object after every change."""
        found = self._in_force.get(name)
        if found is None:
            found = self._in_force[name] = Level(LEVELS[self._text(name)])
        return found

    def described(self) -> dict[str, str]:
        """Return the level in force of each logger that exists, in the order of their names."""
        return {name: self._text(name) for name in sorted(self._names())}

    def change(self, changes: Sequence[ConfigChange], *, validate_only: bool) -> None:
        """Set and unset levels: all of `changes`, or none.

        Raises:
            ApiError: a logger, a level or an operation does not exist, or `root` would be unset.
        """
        names, seen = self._names(), set[str]()
        for each in changes:
            if each.name in seen:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"{each.name} is named twice")
            seen.add(each.name)
            _check(each, names)
        if validate_only:
            return
        for each in changes:
            if each.operation == ConfigOperation.DELETE:
                self._set.pop(each.name, None)
            else:
                self._set[each.name] = str(each.value)
        for name, level in self._in_force.items():
            level.number = LEVELS[self._text(name)]

    def _text(self, name: str) -> str:
        while name:
            if name in self._set:
                return self._set[name]
            name = name.rpartition(".")[0]
        return self._set[ROOT]

    def _names(self) -> set[str]:
        """Return the names of all loggers, and of the packages that they are in."""
        names = {ROOT}
        for name in (*self._known(), *self._in_force):
            above = name
            while above:
                names.add(above)
                above = above.rpartition(".")[0]
        return names


def _check(change: ConfigChange, names: set[str]) -> None:
    if change.name not in names:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"logger {change.name} does not exist")
    if change.operation == ConfigOperation.DELETE:
        if change.name == ROOT:
            text = "the level of the root logger cannot be removed"
            raise ApiError(ErrorCode.INVALID_REQUEST, text)
    elif change.operation != ConfigOperation.SET:
        text = f"operation {change.operation} is not allowed for loggers; use SET or DELETE"
        raise ApiError(ErrorCode.INVALID_REQUEST, text)
    elif change.value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{change.name} has no value")
    elif change.value not in LEVELS:
        text = f"{change.name}={change.value}: must be one of {', '.join(LEVELS)}"
        raise ApiError(ErrorCode.INVALID_CONFIG, text)

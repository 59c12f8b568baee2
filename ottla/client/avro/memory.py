"""A limited number of remembered answers (decision)."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memory(Generic[K, V]):
    """Values by key; a new one replaces the value that was used least recently."""

    def __init__(self, max_count: int) -> None:
        self._max_count = max_count
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value of `key`, None if there is none."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Remember `value`."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._max_count:
            self._values.popitem(last=False)

"""Holds requests that wait for a condition or a deadline.

`Waiting` is the decision: it maps keys to waiting operations, without a clock or a loop.
`Purgatory` is the edge: it has a timer per operation, and checks woken operations in a later turn
of the loop. Invariants: an operation completes once; a completed, expired or cancelled operation is
watched nowhere; no operation runs inside the call stack of the code that woke it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Hashable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

Key = TypeVar("Key", bound=Hashable)
KeyIn = TypeVar("KeyIn", bound=Hashable, contravariant=True)


class Operation(Protocol[KeyIn]):
    """A request that waits."""

    def is_satisfied(self, changed: KeyIn | None) -> bool:
        """Whether to stop waiting; `changed` is the changed key, None means "check all keys"."""

    def complete(self) -> None:
        """Respond with the data available now. Called once, also after the timeout."""


class Waiting(Generic[Key]):
    """The waiting operations, by the keys that can satisfy them."""

    def __init__(self) -> None:
        self._watchers: dict[Key, dict[Operation[Key], None]] = {}
        self._keys: dict[Operation[Key], Sequence[Key]] = {}

    @property
    def operation_count(self) -> int:
        """Number of waiting operations."""
        return len(self._keys)

    @property
    def watcher_count(self) -> int:
        """Number of pairs of an operation and a key that it waits for."""
        return sum(len(operations) for operations in self._watchers.values())

    @property
    def watched_keys(self) -> Container[Key]:
        """Keys with a waiting operation: a live view for the hot path."""
        return self._watchers

    def add(self, operation: Operation[Key], keys: Iterable[Key]) -> bool:
        """Let `operation` wait for any of `keys`; return False if it need not wait.

        The operation is checked before and after it is watched, so that no change is missed.
        """
        assert operation not in self._keys, "the operation waits already"
        if operation.is_satisfied(None):
            return False
        self._keys[operation] = tuple(dict.fromkeys(keys))
        for key in self._keys[operation]:
            self._watchers.setdefault(key, {})[operation] = None
        if operation.is_satisfied(None):
            self.remove(operation)
            return False
        return True

    def satisfied_by(self, key: Key) -> list[Operation[Key]]:
        """Remove and return the operations satisfied by the change of `key`, oldest first."""
        satisfied = [
            operation for operation in self._watchers.get(key, ()) if operation.is_satisfied(key)
        ]
        for operation in satisfied:
            self.remove(operation)
        return satisfied

    def remove(self, operation: Operation[Key]) -> bool:
        """Remove `operation`; return False if it does not wait."""
        keys = self._keys.pop(operation, None)
        if keys is None:
            return False
        for key in keys:
            operations = self._watchers[key]
            del operations[operation]
            if not operations:
                del self._watchers[key]
        return True


class Purgatory(Generic[Key]):
    """Operations that wait for a change, at most until their deadline."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: Waiting[Key] = Waiting()
        self._timers: dict[Operation[Key], asyncio.TimerHandle] = {}
        self._watched_keys = self._waiting.watched_keys
        self._changed: dict[Key, None] = {}
        self._is_closed = False

    @property
    def waiting(self) -> Waiting[Key]:
        """The waiting operations and their keys."""
        return self._waiting

    def hold(self, operation: Operation[Key], keys: Iterable[Key], timeout_ms: int) -> None:
        """Complete `operation` once it is satisfied, now or later, or after `timeout_ms`."""
        if self._is_closed or not self._waiting.add(operation, keys):
            operation.complete()
            return
        delay_s = max(timeout_ms, 0) / 1000
        self._timers[operation] = self._loop.call_later(delay_s, self._expire, operation)

    def on_change(self, key: Key) -> None:
        """Check the operations that wait for `key`, in a later turn of the loop."""
        if key not in self._watched_keys:
            return
        if not self._changed:
            self._loop.call_soon(self._wake)
        self._changed[key] = None

    def cancel(self, operation: Operation[Key]) -> None:
        """Remove `operation` without completing it, because its client is gone."""
        if self._waiting.remove(operation):
            self._timers.pop(operation).cancel()

    def close(self) -> None:
        """Complete all operations now, and every later one at once: the broker stops."""
        self._is_closed = True
        for operation in list(self._timers):
            self._timers[operation].cancel()
            self._expire(operation)

    def _wake(self) -> None:
        changed, self._changed = self._changed, {}
        for key in changed:
            for operation in self._waiting.satisfied_by(key):
                self._timers.pop(operation).cancel()
                # Each gets its own callback: the failure of one must not stop the others.
                self._loop.call_soon(operation.complete)

    def _expire(self, operation: Operation[Key]) -> None:
        del self._timers[operation]
        self._waiting.remove(operation)
        operation.complete()

"""A queue of deadlines (decision).

Moving a deadline later, as each heartbeat does, costs one assignment: `next_ms` is a lower bound,
corrected only when that time has come. Everything else takes time logarithmic in the number of
deadlines.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

MAX_STALE_ENTRIES: Final = 64
"""Limit for heap entries of cancelled or moved deadlines, beyond one per set deadline."""

D = TypeVar("D", bound=Hashable)


class Deadlines(Generic[D]):
    """Deadlines by key, each set at most once at a time."""

    def __init__(self) -> None:
        self._due_ms: dict[D, int] = {}
        # Each set deadline has one valid entry, at its time or before, which `_queued_ms` names.
        # The number in the middle keeps the order of equal times.
        self._heap: list[tuple[int, int, D]] = []
        self._queued_ms: dict[D, int] = {}
        self._entry_count = 0

    def __contains__(self, due: D) -> bool:
        return due in self._due_ms

    @property
    def next_ms(self) -> int | None:
        """Lower bound of the next deadline; None while none is set."""
        return self._heap[0][0] if self._due_ms else None

    def set(self, due: D, at_ms: int) -> None:
        """Set a deadline, or move it."""
        self._due_ms[due] = at_ms
        queued_ms = self._queued_ms.get(due)
        if queued_ms is None or at_ms < queued_ms:
            self._push(due, at_ms)

    def cancel(self, due: D) -> None:
        """Cancel a deadline, if it is set."""
        self._due_ms.pop(due, None)
        if len(self._heap) > 2 * len(self._due_ms) + MAX_STALE_ENTRIES:
            self._drop_stale()

    def cancel_all(self) -> None:
        """Cancel every deadline."""
        self._due_ms.clear()
        self._drop_stale()

    def take_expired(self, now_ms: int) -> list[D]:
        """Remove and return the expired deadlines, the earliest first."""
        expired: list[D] = []
        while self._heap and self._heap[0][0] <= now_ms:
            entry_ms, _, due = heappop(self._heap)
            if self._queued_ms.get(due) != entry_ms:
                continue
            del self._queued_ms[due]
            at_ms = self._due_ms.get(due)
            if at_ms is None:
                continue
            if at_ms > entry_ms:
                self._push(due, at_ms)
            else:
                del self._due_ms[due]
                expired.append(due)
        return expired

    def _push(self, due: D, at_ms: int) -> None:
        self._queued_ms[due] = at_ms
        self._entry_count += 1
        heappush(self._heap, (at_ms, self._entry_count, due))

    def _drop_stale(self) -> None:
        self._queued_ms = dict(self._due_ms)
        self._heap = [
            (at_ms, index, due) for index, (due, at_ms) in enumerate(self._due_ms.items())
        ]
        heapify(self._heap)

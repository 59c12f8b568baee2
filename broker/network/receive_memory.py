"""Accounting of the memory held by incomplete and waiting requests (decision).

There are two budgets of the same size. The first is for reservations: a large frame reserves memory
in steps as its bytes arrive, regardless of its announced size. Small frames may use a larger share
of this budget than large ones, and frames of the control plane all of it, so that no large frame
keeps them out. The oldest reservation may always grow, so that two frames never wait for each
other. The second budget is for kept bytes, which were read but cannot be handled yet. A connection
that exceeds it must be closed. Requests that wait for the long request of their own connection may
use a share of it, so that they do not close other connections. `limits.receive_memory_bytes` sets
the size; `processor` pauses and closes connections.

Invariant: `reserved_bytes` exceeds the limit by one frame at most, `kept_bytes` never.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkawire.units import MIB

# Frames up to this size, almost all, get memory while larger ones have to wait.
SMALL_FRAME_BYTES: Final = 1 * MIB
# Shares of the budget for large and for small frames; the remainder is for the control plane.
LARGE_FRAMES_SHARE: Final = 0.5
SMALL_FRAMES_SHARE: Final = 0.75
# Share of the second budget for requests behind a long one; the remainder is for partial frames.
BLOCKED_REQUESTS_SHARE: Final = 0.75
# Share of either budget for clients that are not authenticated yet.
UNAUTHENTICATED_SHARE: Final = 0.25


class ReceiveMemoryExhaustedError(Exception):
    """The input of a connection cannot be kept: close the connection."""


class Reservation:
    """The memory of one large frame, from its first bytes to the return of its handler."""

    __slots__ = ("ceiling_bytes", "frame_bytes", "size_bytes")

    def __init__(self, frame_bytes: int, ceiling_bytes: int) -> None:
        self.frame_bytes = frame_bytes
        # It may grow while the total of all reservations stays within this limit.
        self.ceiling_bytes = ceiling_bytes
        self.size_bytes = 0


class ReceiveMemory:
    """Both budgets of all connections of a broker, and the waiters for reservations."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.reserved_bytes = 0
        self.kept_bytes = 0
        # Oldest first.
        self._reservations: dict[Reservation, None] = {}
        self._waiters: dict[Callable[[], None], tuple[Reservation, int]] = {}
        self._on_wakeable: Callable[[], None] | None = None

    @property
    def is_contended(self) -> bool:
        """Whether a frame waits for memory, or kept bytes fill more than half of their budget."""
        return bool(self._waiters) or self.kept_bytes > self.limit_bytes // 2

    def call_when_wakeable(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when `wake` may find a waiter to call.

        The callback must not call `wake` itself: it runs inside `release`.
        """
        self._on_wakeable = callback

    def reservation(
        self, frame_bytes: int, *, is_control_plane: bool, share: float = 1.0
    ) -> Reservation:
        """Return a reservation, still empty, for a frame of `frame_bytes`, in `share` at most."""
        own = SMALL_FRAMES_SHARE if frame_bytes <= SMALL_FRAME_BYTES else LARGE_FRAMES_SHARE
        share = min(share, 1.0 if is_control_plane else own)
        return Reservation(frame_bytes, int(self.limit_bytes * share))

    def try_grow(self, reservation: Reservation, size_bytes: int) -> bool:
        """Grow a reservation to `size_bytes`; return False if the budget does not allow it."""
        if not self._fits(reservation, size_bytes):
            return False
        self._reservations[reservation] = None
        self.reserved_bytes += size_bytes - reservation.size_bytes
        reservation.size_bytes = size_bytes
        return True

    def release(self, reservation: Reservation) -> None:
        """Give back the memory of a reservation."""
        del self._reservations[reservation]
        self.reserved_bytes -= reservation.size_bytes
        if self._waiters and self._on_wakeable is not None:
            self._on_wakeable()

    def keep(self, size_bytes: int, share: float = 1.0) -> None:
        """Charge `size_bytes` of kept input, which may use `share` of the budget.

        Raises:
            ReceiveMemoryExhaustedError: they do not fit; nothing is charged.
        """
        limit_bytes = int(self.limit_bytes * share)
        if self.kept_bytes + size_bytes > limit_bytes:
            raise ReceiveMemoryExhaustedError(
                f"{size_bytes} bytes in addition to {self.kept_bytes} exceed {limit_bytes}"
            )
        self.kept_bytes += size_bytes

    def drop(self, size_bytes: int) -> None:
        """Release `size_bytes` of kept input."""
        self.kept_bytes -= size_bytes
        assert self.kept_bytes >= 0, "more was given back than kept"

    def wait(self, waiter: Callable[[], None], reservation: Reservation, size_bytes: int) -> None:
        """Let `wake` call `waiter` once, when the reservation can grow to `size_bytes`."""
        self._waiters[waiter] = (reservation, size_bytes)

    def stop_waiting(self, waiter: Callable[[], None]) -> None:
        """Remove `waiter`, if it waits."""
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Call the waiters whose reservations can grow, small frames first.

        Each waiter is expected to take its memory at once.
        """
        waiting = sorted(self._waiters.items(), key=lambda each: each[1][0].frame_bytes)
        for waiter, (reservation, size_bytes) in waiting:
            if waiter in self._waiters and self._fits(reservation, size_bytes):
                del self._waiters[waiter]
                waiter()

    def _fits(self, reservation: Reservation, size_bytes: int) -> bool:
        if next(iter(self._reservations), reservation) is reservation:
            return True
        more_bytes = size_bytes - reservation.size_bytes
        return self.reserved_bytes + more_bytes <= reservation.ceiling_bytes

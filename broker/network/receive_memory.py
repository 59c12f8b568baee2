"""Accounting of the bytes that half-received and waiting requests hold (decision).

Two budgets of the same size. A large frame reserves what has arrived of it, in steps, whatever
size it announces. Small frames may use more of the budget than large ones, and those of the control
plane all of it, so that no large frame keeps them out. The oldest reservation always may grow, so
that two frames never wait for each other. What has been read already and cannot be handled yet is
kept; beyond that budget its connection must be closed.
Invariant: `reserved_bytes` exceeds the limit by one frame at most, `kept_bytes` never.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.network.limits import MIB

# Frames up to this size, as almost all are, find memory where larger ones have to wait.
SMALL_FRAME_BYTES: Final = 1 * MIB
# Shares of the budget for all frames and for small ones. The rest is for the control plane.
LARGE_FRAMES_SHARE: Final = 0.5
SMALL_FRAMES_SHARE: Final = 0.75


class ReceiveMemoryExhaustedError(Exception):
    """The bytes that a connection has sent cannot be kept: close it."""


class Reservation:
    """The memory of one large frame, from its first bytes until its handler has returned."""

    __slots__ = ("ceiling_bytes", "frame_bytes", "size_bytes")

    def __init__(self, frame_bytes: int, ceiling_bytes: int) -> None:
        self.frame_bytes = frame_bytes
        # It may grow as long as all reservations together stay below this.
        self.ceiling_bytes = ceiling_bytes
        self.size_bytes = 0


class ReceiveMemory:
    """The budgets of all connections of a broker, and who waits for the first one."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.reserved_bytes = 0
        self.kept_bytes = 0
        # In the order of their beginnings.
        self._reservations: dict[Reservation, None] = {}
        self._waiters: dict[Callable[[], None], tuple[Reservation, int]] = {}
        self._on_wakeable: Callable[[], None] | None = None

    @property
    def is_contended(self) -> bool:
        """Whether somebody waits, or what is kept leaves too little room for others."""
        return bool(self._waiters) or self.kept_bytes > self.limit_bytes // 2

    def call_when_wakeable(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when `wake` may have something to do.

        It must not call `wake` itself: it runs inside the one who gives memory back.
        """
        self._on_wakeable = callback

    def reservation(self, frame_bytes: int, *, is_control_plane: bool) -> Reservation:
        """Return the reservation of a frame of that size, which holds nothing yet."""
        share = SMALL_FRAMES_SHARE if frame_bytes <= SMALL_FRAME_BYTES else LARGE_FRAMES_SHARE
        return Reservation(
            frame_bytes, self.limit_bytes if is_control_plane else int(self.limit_bytes * share)
        )

    def try_grow(self, reservation: Reservation, size_bytes: int) -> bool:
        """Let a reservation hold `size_bytes`, if they fit."""
        if not self._fits(reservation, size_bytes):
            return False
        self._reservations[reservation] = None
        self.reserved_bytes += size_bytes - reservation.size_bytes
        reservation.size_bytes = size_bytes
        return True

    def release(self, reservation: Reservation) -> None:
        """Give back what was reserved."""
        del self._reservations[reservation]
        self.reserved_bytes -= reservation.size_bytes
        if self._waiters and self._on_wakeable is not None:
            self._on_wakeable()

    def keep(self, size_bytes: int) -> None:
        """Take `size_bytes` for what has been read already.

        Raises:
            ReceiveMemoryExhaustedError: they do not fit; nothing is taken.
        """
        if self.kept_bytes + size_bytes > self.limit_bytes:
            raise ReceiveMemoryExhaustedError(
                f"{size_bytes} bytes on top of {self.kept_bytes} exceed {self.limit_bytes}"
            )
        self.kept_bytes += size_bytes

    def drop(self, size_bytes: int) -> None:
        """Give back what was kept."""
        self.kept_bytes -= size_bytes
        assert self.kept_bytes >= 0, "more was given back than kept"

    def wait(self, waiter: Callable[[], None], reservation: Reservation, size_bytes: int) -> None:
        """Have `wake` call `waiter`, once, when its reservation can grow to `size_bytes`."""
        self._waiters[waiter] = (reservation, size_bytes)

    def stop_waiting(self, waiter: Callable[[], None]) -> None:
        """Forget `waiter`, if it waits."""
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Call those who can have what they wait for, small frames first.

        Each is expected to take at once what it waited for.
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

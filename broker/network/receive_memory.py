"""Accounting of the bytes that half-received and waiting requests hold (decision).

Two budgets of the same size. A large frame reserves its whole size before it is assembled, and
waits in line if it cannot, so that two of them never wait for each other. What has been read
already and cannot be handled yet is kept; beyond that budget its connection must be closed.
Invariant: `reserved_bytes` exceeds the limit only for one frame alone, `kept_bytes` never.
"""

from __future__ import annotations

from collections.abc import Callable


class ReceiveMemoryExhaustedError(Exception):
    """The bytes that a connection has sent cannot be kept: close it."""


class ReceiveMemory:
    """The budgets of all connections of a broker, and who waits for the first one."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.reserved_bytes = 0
        self.kept_bytes = 0
        self._waiters: dict[Callable[[], None], int] = {}
        self._on_wakeable: Callable[[], None] | None = None
        self._is_waking = False

    @property
    def is_contended(self) -> bool:
        """Whether somebody waits, or what is kept leaves too little room for others."""
        return bool(self._waiters) or self.kept_bytes > self.limit_bytes // 2

    def call_when_wakeable(self, callback: Callable[[], None]) -> None:
        """Have `callback` called when `wake` may have something to do.

        It must not call `wake` itself: it runs inside the one who gives memory back.
        """
        self._on_wakeable = callback

    def try_reserve(self, size_bytes: int) -> bool:
        """Take `size_bytes`, unless they do not fit or others wait for theirs."""
        if not self._fits(size_bytes) or (self._waiters and not self._is_waking):
            return False
        self.reserved_bytes += size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        """Give back what was reserved."""
        self.reserved_bytes -= size_bytes
        assert self.reserved_bytes >= 0, "more was given back than reserved"
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

    def wait(self, waiter: Callable[[], None], size_bytes: int) -> None:
        """Have `wake` call `waiter`, once, when `size_bytes` can be reserved."""
        self._waiters[waiter] = size_bytes

    def stop_waiting(self, waiter: Callable[[], None]) -> None:
        """Forget `waiter`, if it waits; whoever stood behind it may be next."""
        if self._waiters.pop(waiter, None) is not None and self._on_wakeable is not None:
            self._on_wakeable()

    def wake(self) -> None:
        """Call those who can have what they wait for, first come first served.

        Each is expected to reserve at once what it waited for.
        """
        self._is_waking = True
        try:
            for waiter, size_bytes in list(self._waiters.items()):
                if not self._fits(size_bytes):
                    return
                del self._waiters[waiter]
                waiter()
        finally:
            self._is_waking = False

    def _fits(self, size_bytes: int) -> bool:
        return not self.reserved_bytes or self.reserved_bytes + size_bytes <= self.limit_bytes

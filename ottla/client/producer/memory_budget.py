"""A limit on the memory of waiting records, granted first come, first served (decision).

Invariants: granted memory never exceeds the budget, and no claim overtakes an older one.
"""

from collections import deque
from collections.abc import Callable


class Claim:
    """A claim to memory that waits in the queue, or was granted."""

    __slots__ = ("is_granted", "on_granted", "size_bytes")

    def __init__(self, size_bytes: int, on_granted: Callable[[], None]) -> None:
        self.size_bytes = size_bytes
        self.on_granted = on_granted
        self.is_granted = False


class MemoryBudget:
    """A number of bytes that batches reserve and release."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.free_bytes = total_bytes
        self._claims: deque[Claim] = deque()

    @property
    def is_exhausted(self) -> bool:
        """Whether a claim waits for memory, so that all batches should be sent at once."""
        return bool(self._claims)

    def try_reserve(self, size_bytes: int) -> bool:
        """Reserve `size_bytes` if they are free and no claim waits; return whether it worked."""
        if self._claims or size_bytes > self.free_bytes:
            return False
        self.free_bytes -= size_bytes
        return True

    def claim(self, size_bytes: int, on_granted: Callable[[], None]) -> Claim:
        """Queue a claim to `size_bytes`; `on_granted` is called once they are reserved for it."""
        assert size_bytes <= self.total_bytes
        claim = Claim(size_bytes, on_granted)
        self._claims.append(claim)
        self._grant()
        return claim

    def withdraw(self, claim: Claim) -> None:
        """Withdraw `claim`, whether it was granted or still waits."""
        if claim.is_granted:
            self.release(claim.size_bytes)
        else:
            self._claims.remove(claim)
            self._grant()

    def release(self, size_bytes: int) -> None:
        """Release reserved bytes; the oldest claim gets them first."""
        self.free_bytes += size_bytes
        assert self.free_bytes <= self.total_bytes
        self._grant()

    def _grant(self) -> None:
        while self._claims and self._claims[0].size_bytes <= self.free_bytes:
            claim = self._claims.popleft()
            self.free_bytes -= claim.size_bytes
            claim.is_granted = True
            claim.on_granted()

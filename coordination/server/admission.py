"""Limits on connections (decision): in total, and per address.

A connection counts from the moment it is accepted, including its TLS handshake.
"""

from collections import Counter
from typing import Final

UNLIMITED: Final = 0


class Admission:
    """Counts admitted connections until they leave."""

    def __init__(self, max_connections: int, max_per_address: int) -> None:
        """Set both limits; `max_per_address` may be `UNLIMITED`."""
        self._max_connections = max_connections
        self._max_per_address = max_per_address
        self._count = 0
        self._counts: Counter[str] = Counter()

    def admit(self, address: str) -> str | None:
        """Admit a connection and return None, or return the reason to reject it."""
        if self._count >= self._max_connections:
            return f"more than {self._max_connections} connections"
        if self._max_per_address != UNLIMITED and self._counts[address] >= self._max_per_address:
            return f"more than {self._max_per_address} connections from {address}"
        self._count += 1
        self._counts[address] += 1
        return None

    def leave(self, address: str) -> None:
        """Stop counting an admitted connection."""
        self._count -= 1
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

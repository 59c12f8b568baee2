"""Lets a client wait that takes more than its quota (edge).

It is answered at once, and told for how long nothing more will be read from it (KIP-219).
"""

from __future__ import annotations

from collections.abc import Callable

from broker.network.request_channel import Request
from broker.quotas.client_quotas import ClientQuotas


class Throttle:
    """Charges clients for one kind of use."""

    def __init__(self, quotas: ClientQuotas, key: str, now_ms: Callable[[], int]) -> None:
        self._quotas = quotas
        self._key = key
        self._now_ms = now_ms

    @property
    def is_needed(self) -> bool:
        """Whether anybody has such a quota; where nobody has, nothing need be counted."""
        return self._key in self._quotas.is_set

    def burst(self, request: Request, most: int) -> int:
        """Return how much the sender may take at once, `most` at most."""
        user, client_id = request.connection.user_name, request.header.client_id or ""
        burst = self._quotas.burst(self._key, user, client_id)
        return most if burst is None else min(most, int(burst))

    def charge(self, request: Request, amount: int) -> int:
        """Count what the sender takes; return for how many ms nothing is read from it any more."""
        user, client_id = request.connection.user_name, request.header.client_id or ""
        wait_ms = self._quotas.take(self._key, user, client_id, amount, self._now_ms())
        if wait_ms > 0:
            request.connection.mute(wait_ms / 1000)
        return wait_ms

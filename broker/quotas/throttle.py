"""Throttles clients that exceed their quota (edge).

The broker responds at once with the throttle time, and reads nothing from the connection for that
time (KIP-219). `client_quotas` finds the quota, and `rate` computes the time.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.network.request import Request
from broker.quotas.client_quotas import ClientQuotas


class Throttle:
    """Charges clients for their use of one quota."""

    def __init__(self, quotas: ClientQuotas, key: str, clock_ms: Callable[[], int]) -> None:
        """Measure rates by `clock_ms`, which must not decrease."""
        self._quotas = quotas
        self._key = key
        self._clock_ms = clock_ms

    @property
    def is_needed(self) -> bool:
        """Whether any such quota is set; otherwise nothing needs to be counted."""
        return self._key in self._quotas.is_set

    def burst(self, request: Request, most: int) -> int:
        """Return the amount that the sender may take at once, limited to `most`."""
        user, client_id = request.principal.name, request.header.client_id or ""
        burst = self._quotas.burst(self._key, user, client_id)
        return most if burst is None else min(most, int(burst))

    def charge(self, request: Request, amount: int) -> int:
        """Count `amount` for the sender; return its throttle time in ms and mute it that long."""
        user, client_id = request.principal.name, request.header.client_id or ""
        wait_ms = self._quotas.take(self._key, user, client_id, amount, self._clock_ms())
        if wait_ms > 0:
            request.connection.mute(wait_ms / 1000)
        return wait_ms

"""Limits the number of connections, in total and per address (decision)."""

from __future__ import annotations

from collections import Counter

from broker.network.limits import NetworkLimits


class ConnectionQuota:
    """Counts connections, and refuses those above the limits."""

    def __init__(self, limits: NetworkLimits) -> None:
        self._limits = limits
        self._by_host: Counter[str] = Counter()
        self.total = 0

    def set_limits(self, limits: NetworkLimits) -> None:
        """Apply `limits` to new connections; open connections stay, even above the limits."""
        self._limits = limits

    def try_add(self, host: str, *, is_exempt: bool = False) -> str | None:
        """Count a connection from `host`, or return the reason to refuse it.

        An exempt connection is counted, but never refused.
        """
        if not is_exempt and (refusal := self._refusal(host)) is not None:
            return refusal
        self._by_host[host] += 1
        self.total += 1
        return None

    def _refusal(self, host: str) -> str | None:
        limits = self._limits
        if limits.max_connections is not None and self.total >= limits.max_connections:
            return f"max.connections={limits.max_connections} are open"
        overrides = limits.max_connections_per_ip_overrides
        limit = overrides.get(host, limits.max_connections_per_ip)
        if limit is not None and self._by_host[host] >= limit:
            return f"max.connections.per.ip={limit} are open"
        return None

    def remove(self, host: str) -> None:
        """Remove one connection from `host` from the count."""
        self.total -= 1
        self._by_host[host] -= 1
        assert self._by_host[host] >= 0, f"no connection from {host} was counted"
        if not self._by_host[host]:
            # An address without connections must not stay in memory.
            del self._by_host[host]

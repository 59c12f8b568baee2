"""Limits of connections, requests and receive memory (decision).

Fields are Kafka's keys with dots as underscores, unless a comment says otherwise; None means no
limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from broker.config.network_keys import NetworkKeys
from kafkawire.apis import ApiKey
from kafkawire.units import MIB
from storage.config.config_key import INT_MAX

# Memory for incomplete and waiting requests when queued.max.request.bytes sets no limit.
DEFAULT_RECEIVE_MEMORY_BYTES: Final = 256 * MIB
# Requests of the controller: they must not wait behind requests of clients.
CONTROL_PLANE_APIS: Final = frozenset(
    {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA}
)
# Requests limited only by `socket.request.max.bytes`: they hold records, or name all partitions of
# a broker.
BROKER_APIS: Final = CONTROL_PLANE_APIS | {ApiKey.ALTER_PARTITION}
LARGE_REQUEST_APIS: Final = BROKER_APIS | {ApiKey.PRODUCE}
# Limit of all other requests: room for 100,000 names of 40 bytes.
MAX_CLIENT_REQUEST_BYTES: Final = 4 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkLimits:
    """Limits of connections, requests and their memory."""

    queued_max_requests: int = 500
    queued_max_request_bytes: int | None = None
    socket_request_max_bytes: int = 100 * MIB
    socket_send_buffer_bytes: int | None = None
    socket_receive_buffer_bytes: int | None = None
    socket_listen_backlog_size: int = 50
    max_connections: int | None = None
    max_connections_per_ip: int | None = None
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    connections_max_idle_ms: int | None = 600_000
    # Not a key of Kafka, which handles one request of a connection at a time.
    max_in_flight_requests_per_connection: int = 100

    def __post_init__(self) -> None:
        self._check_at_least("queued_max_requests", self.queued_max_requests, 1)
        self._check_at_least("socket_request_max_bytes", self.socket_request_max_bytes, 1)
        self._check_at_least(
            "max_in_flight_requests_per_connection", self.max_in_flight_requests_per_connection, 1
        )
        limit = self.queued_max_request_bytes
        if limit is not None and limit < self.socket_request_max_bytes:
            raise ValueError(
                "queued_max_request_bytes must be at least socket_request_max_bytes "
                f"({self.socket_request_max_bytes}), got {limit}"
            )

    @property
    def client_request_max_bytes(self) -> int:
        """Maximum size of requests of APIs outside `LARGE_REQUEST_APIS`."""
        return min(self.socket_request_max_bytes, MAX_CLIENT_REQUEST_BYTES)

    @property
    def receive_memory_bytes(self) -> int:
        """Total memory for incomplete and waiting requests."""
        if self.queued_max_request_bytes is not None:
            return self.queued_max_request_bytes
        return max(DEFAULT_RECEIVE_MEMORY_BYTES, self.socket_request_max_bytes)

    @staticmethod
    def _check_at_least(name: str, value: int, minimum: int) -> None:
        if value < minimum:
            raise ValueError(f"{name} must be at least {minimum}, got {value}")


def network_limits_of(config: NetworkKeys) -> NetworkLimits:
    """Return the network limits in `config`; Kafka's values for "no limit" become None."""
    return NetworkLimits(
        queued_max_requests=config.queued_max_requests,
        queued_max_request_bytes=_positive(config.queued_max_request_bytes),
        socket_request_max_bytes=config.socket_request_max_bytes,
        socket_send_buffer_bytes=_positive(config.socket_send_buffer_bytes),
        socket_receive_buffer_bytes=_positive(config.socket_receive_buffer_bytes),
        socket_listen_backlog_size=config.socket_listen_backlog_size,
        max_connections=_limit(config.max_connections),
        max_connections_per_ip=_limit(config.max_connections_per_ip),
        max_connections_per_ip_overrides=config.connection_limits_by_ip,
        connections_max_idle_ms=_positive(config.connections_max_idle_ms),
    )


def _positive(value: int) -> int | None:
    return value if value > 0 else None


def _limit(value: int) -> int | None:
    return value if value < INT_MAX else None

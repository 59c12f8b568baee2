"""Invalid limits are refused by name."""

from __future__ import annotations

import pytest

from broker.config.network_keys import NetworkKeys
from broker.network.limits import DEFAULT_RECEIVE_MEMORY_BYTES, NetworkLimits, network_limits_of


def test_the_defaults_are_kafkas() -> None:
    limits = NetworkLimits()
    assert limits.queued_max_requests == 500
    assert limits.socket_request_max_bytes == 104_857_600
    assert limits.connections_max_idle_ms == 600_000


def test_the_system_sizes_buffers_by_default() -> None:
    limits = network_limits_of(NetworkKeys())
    assert limits.socket_receive_buffer_bytes is None
    assert limits.socket_send_buffer_bytes is None


def test_receive_memory_is_bounded_even_without_a_configured_limit() -> None:
    assert NetworkLimits().receive_memory_bytes == DEFAULT_RECEIVE_MEMORY_BYTES
    huge = 2 * DEFAULT_RECEIVE_MEMORY_BYTES
    assert NetworkLimits(socket_request_max_bytes=huge).receive_memory_bytes == huge


def test_receive_memory_has_the_configured_size() -> None:
    limits = NetworkLimits(queued_max_request_bytes=2000, socket_request_max_bytes=1000)
    assert limits.receive_memory_bytes == 2000


@pytest.mark.parametrize(
    "name",
    ["queued_max_requests", "socket_request_max_bytes", "max_in_flight_requests_per_connection"],
)
def test_a_limit_of_zero_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        NetworkLimits(**{name: 0})  # type: ignore[arg-type]


def test_memory_that_cannot_hold_one_request_is_refused() -> None:
    with pytest.raises(ValueError, match="queued_max_request_bytes must be at least"):
        NetworkLimits(queued_max_request_bytes=999, socket_request_max_bytes=1000)

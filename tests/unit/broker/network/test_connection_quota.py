"""Limits of connections, in total and per address."""

from __future__ import annotations

import pytest

from broker.network.connection_quota import ConnectionQuota
from broker.network.limits import NetworkLimits


def test_without_limits_no_connection_is_refused() -> None:
    quota = ConnectionQuota(NetworkLimits())
    assert [quota.try_add("a") for _ in range(1000)] == [None] * 1000
    assert quota.total == 1000


def test_connections_above_the_total_limit_are_refused() -> None:
    quota = ConnectionQuota(NetworkLimits(max_connections=2))
    assert (quota.try_add("a"), quota.try_add("b")) == (None, None)
    assert quota.try_add("c") == "max.connections=2 are open"
    quota.remove("a")
    assert quota.try_add("c") is None


def test_an_exempt_connection_is_counted_and_never_refused() -> None:
    quota = ConnectionQuota(NetworkLimits(max_connections=1, max_connections_per_ip=1))
    assert [quota.try_add("a", is_exempt=True) for _ in range(3)] == [None] * 3
    assert quota.try_add("b") == "max.connections=1 are open"
    assert quota.total == 3


def test_connections_above_the_limit_of_an_address_are_refused() -> None:
    quota = ConnectionQuota(NetworkLimits(max_connections_per_ip=1))
    assert (quota.try_add("a"), quota.try_add("b")) == (None, None)
    assert quota.try_add("a") == "max.connections.per.ip=1 are open"
    assert quota.total == 2


def test_an_override_replaces_the_limit_of_its_address() -> None:
    limits = NetworkLimits(
        max_connections_per_ip=1, max_connections_per_ip_overrides={"a": 2, "b": 0}
    )
    quota = ConnectionQuota(limits)
    assert [quota.try_add("a") for _ in range(3)] == [
        None,
        None,
        "max.connections.per.ip=2 are open",
    ]
    assert quota.try_add("b") is not None


def test_an_address_without_connections_is_forgotten() -> None:
    quota = ConnectionQuota(NetworkLimits(max_connections_per_ip=1))
    for number in range(100):
        assert quota.try_add(f"10.0.0.{number}") is None
        quota.remove(f"10.0.0.{number}")
    assert quota.total == 0
    assert not quota._by_host


def test_removing_an_uncounted_connection_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="was counted"):
        ConnectionQuota(NetworkLimits()).remove("a")

"""The advertised endpoints: `broker.serving`."""

import socket

import pytest

from broker.cluster.metadata_cache import Endpoint
from broker.config.listener import Listener
from broker.serving import advertised_endpoints, machine_name


def test_missing_host_and_port_are_the_machines_name_and_the_bound_port() -> None:
    listeners = [Listener("A", "", 0), Listener("B", "h", 0), Listener("C", "", 5)]
    assert advertised_endpoints(listeners, {"A": 1, "B": 2, "C": 3}, lambda: "me") == {
        "A": Endpoint("me", 1),
        "B": Endpoint("h", 2),
        "C": Endpoint("me", 5),
    }


def test_the_machines_name_is_read_only_if_it_is_needed() -> None:
    def unknown() -> str:
        raise AssertionError("the name is not needed")

    assert advertised_endpoints([Listener("A", "h", 1)], {}, unknown) == {"A": Endpoint("h", 1)}


def test_an_unresolvable_machine_name_is_replaced_by_localhost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resolve(host: str, _port: None) -> list[object]:
        if host != "known":
            raise socket.gaierror(host)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    for name, expected in (("known", "known"), ("unknown", "localhost")):
        monkeypatch.setattr(socket, "gethostname", lambda name=name: name)
        assert machine_name() == expected

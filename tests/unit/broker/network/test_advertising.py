"""What clients are told to connect to: `broker.network.advertising`."""

import socket

import pytest

from broker.cluster.metadata_cache import Endpoint
from broker.network.advertising import advertise, machine_name
from broker.network.listener import Listener


def test_what_is_not_said_is_this_machine_and_the_port_that_was_chosen() -> None:
    listeners = [Listener("A", "", 0), Listener("B", "h", 0), Listener("C", "", 5)]
    assert advertise(listeners, {"A": 1, "B": 2, "C": 3}, lambda: "me") == {
        "A": Endpoint("me", 1),
        "B": Endpoint("h", 2),
        "C": Endpoint("me", 5),
    }


def test_the_machine_is_not_named_unless_it_has_to_be() -> None:
    def unknown() -> str:
        raise AssertionError("nobody asked")

    assert advertise([Listener("A", "h", 1)], {}, unknown) == {"A": Endpoint("h", 1)}


def test_a_name_that_nobody_can_resolve_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, _port: None) -> list[object]:
        if host != "known":
            raise socket.gaierror(host)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    for name, told in (("known", "known"), ("unknown", "localhost")):
        monkeypatch.setattr(socket, "gethostname", lambda name=name: name)
        assert machine_name() == told

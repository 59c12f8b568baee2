"""The listeners and the advertised endpoints: `broker.serving`."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, cast

import pytest

from broker.cluster.metadata_cache import Endpoint, MetadataCache
from broker.config.listener import Listener
from broker.config.network_keys import NetworkKeys
from broker.network.limits import NetworkLimits
from broker.network.metrics import NetworkMetrics
from broker.serving import Serving, advertised_endpoints, machine_name


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


class Server:
    """Notes the names of the listeners that it would treat specially."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        *_: object,
        control_plane_listener_name: str | None,
        inter_broker_listener_name: str,
        **__: object,
    ) -> None:
        self.listeners = {each.name for each in listeners}
        self.special = {control_plane_listener_name, inter_broker_listener_name}

    async def start(self) -> None:
        pass


class Unsecured:
    def make(self, *_: object) -> dict[str, object]:
        return {}


@pytest.mark.parametrize("written", ["CONTROL", "control"])
async def test_the_control_plane_is_known_in_small_letters_too(
    monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setattr("broker.serving.SocketServer", Server)
    serving = Serving(MetadataCache(), asyncio.get_running_loop())
    config = NetworkKeys(
        listeners="PLAINTEXT://:1,CONTROL://:2", control_plane_listener_name=written
    )
    refuse, unsecured = cast(Any, None), cast(Any, Unsecured())
    await serving.listen(refuse, config, NetworkLimits(), NetworkMetrics(), unsecured)
    server = cast(Any, serving.server)
    assert server.special == server.listeners == {"PLAINTEXT", "CONTROL"}

"""Chooses the endpoints that a broker advertises (decision, except for the machine's name).

An empty host denotes this machine, port 0 the port that the system has chosen.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping

from broker.cluster.metadata_cache import Endpoint
from broker.config.listener import Listener

FALLBACK_HOST = "localhost"


def advertise(
    advertised: Iterable[Listener],
    bound_ports: Mapping[str, int],
    host_name: Callable[[], str],
) -> dict[str, Endpoint]:
    """Return the endpoint of this broker for the clients of each listener."""
    return {
        listener.name: Endpoint(
            listener.host or host_name(), listener.port or bound_ports[listener.name]
        )
        for listener in advertised
    }


def machine_name() -> str:
    """Return the name of this machine; "localhost" if the name cannot be resolved."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return FALLBACK_HOST
    return name

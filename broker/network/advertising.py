"""What clients are told to connect to (decision, but for the name of this machine).

An empty host stands for this machine, port 0 for the port that the system has chosen.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping

from broker.cluster.metadata_cache import Endpoint
from broker.network.listener import Listener

FALLBACK_HOST = "localhost"


def advertise(
    advertised: Iterable[Listener],
    bound_ports: Mapping[str, int],
    host_name: Callable[[], str],
) -> dict[str, Endpoint]:
    """Return where clients of each listener find this broker."""
    return {
        listener.name: Endpoint(
            listener.host or host_name(), listener.port or bound_ports[listener.name]
        )
        for listener in advertised
    }


def machine_name() -> str:
    """Return the name of this machine, "localhost" if nobody could resolve it."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return FALLBACK_HOST
    return name

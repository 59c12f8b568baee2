"""Ports for servers that cannot be given port 0, because others must know theirs beforehand."""

import random
import socket

SERVER_PORTS = (15_000, 32_000)


def free_port() -> int:
    """Return a port of this host that is free now, below those that outgoing connections get."""
    while True:
        port = random.randrange(*SERVER_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port

"""Ports for servers that cannot be given port 0, because others must know theirs beforehand."""

import random
import socket
import time

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


def wait_until_listening(port: int, timeout_s: float) -> None:
    """Return when something on this host accepts connections at `port`.

    Raises:
        TimeoutError: nothing does in time.
    """
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"nobody listens on port {port}")

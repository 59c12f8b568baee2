"""Ports for servers that cannot use port 0, because other processes must know the port before."""

import random
import socket
import time

SERVER_PORTS = (15_000, 32_000)


def free_port() -> int:
    """Return a free port of this host, below the range of outgoing connections."""
    while True:
        port = random.randrange(*SERVER_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def wait_until_listening(port: int, timeout_s: float) -> None:
    """Wait until a server on this host accepts connections at `port`.

    Raises:
        TimeoutError: no server does so within the timeout.
    """
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"no server listens on port {port} after {timeout_s} s")

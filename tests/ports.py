"""Ports for servers that cannot use port 0, because other processes must know the port before."""

import random
import socket
import time

SERVER_PORTS = (15_000, 32_000)


def free_port() -> int:
    """Return a port of this host for a server, below the range of outgoing connections.

    No other process gets it until this one ends: a bound socket that does not listen reserves it.
    A server can listen beside it, as all servers set SO_REUSEADDR.
    """
    while True:
        port = random.randrange(*SERVER_PORTS)
        holder = socket.socket()
        try:
            holder.bind(("127.0.0.1", port))
        except OSError:
            holder.close()
            continue
        # After the bind, which must fail if another process has reserved the port.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.detach()
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

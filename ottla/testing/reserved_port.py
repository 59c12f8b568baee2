"""A port of this machine that stays reserved while its server is down (edge).

The reservation is a bound socket that does not listen. Servers, which set SO_REUSEADDR, can listen
on the port beside it; the system gives the port neither to another program that asks for any free
port nor to an outgoing connection. So tests that run in parallel cannot take it from each other.
"""

import socket
from typing import Final

HOST: Final = "127.0.0.1"


class ReservedPort:
    """A reserved port; `close` ends the reservation."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((HOST, 0))
        self.number: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        """The port as HOST:PORT."""
        return f"{HOST}:{self.number}"

    def close(self) -> None:
        """End the reservation."""
        self._socket.close()

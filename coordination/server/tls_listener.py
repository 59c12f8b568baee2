"""TLS listener (edge): a connection counts from the moment it is accepted.

`create_server` with a TLS context reports a connection only after its handshake, so sockets that
never complete it would escape every limit.
"""

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, Final

import structlog

from coordination.server.server_connection import Connection

if TYPE_CHECKING:
    from coordination.server.server import Server

SHUTDOWN_TIMEOUT_S: Final = 1.0
"""Timeout for the TLS shutdown of a closed connection."""
ACCEPT_BACKOFF_S: Final = 0.1
"""Back-off after a failed accept, for example without free file descriptors."""

log = structlog.get_logger()


class TlsListener:
    """Accepts connections on `listening` and performs their TLS handshakes."""

    def __init__(self, server: "Server", listening: socket.socket, context: ssl.SSLContext) -> None:
        self._server = server
        self._listening = listening
        self._context = context
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept(), name="tls-accept")

    def close(self) -> None:
        """Stop accepting, and cancel pending handshakes."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()
        self._listening.close()

    async def _accept(self) -> None:
        while True:
            try:
                accepted, name = await self._server.loop.sock_accept(self._listening)
            except OSError as error:
                log.warning("connection.not_accepted", error=str(error))
                await asyncio.sleep(ACCEPT_BACKOFF_S)
                continue
            connection = Connection(self._server)
            if not self._server.admit(connection, name):
                accepted.close()
                continue
            task = asyncio.create_task(self._negotiate(connection, accepted), name="tls-handshake")
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _negotiate(self, connection: Connection, accepted: socket.socket) -> None:
        try:
            await self._server.loop.connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._server.config.handshake_timeout_ms / 1000,
                ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            )
        except OSError as error:
            self._server.on_violation(connection, f"TLS handshake failed: {error}")
        finally:
            if not connection.is_made and connection.address is not None:
                self._server.admission.leave(connection.address)

"""Listeners of a coordinator and their limits (edge), plain and with TLS.

A connection counts from the moment it is accepted. `create_server` with a TLS context reports a
connection only after its handshake, so sockets that never complete it would escape every limit:
the TLS listener accepts by itself.
"""

import asyncio
import os
import socket
from collections import Counter
from typing import Final

import structlog

from coordination.server.coordinator_config import Address
from coordination.server.server_connection import Connection, Owner
from coordination.server.tls import ServerTls
from trust.tls_alert import sending_alert

LISTEN_BACKLOG: Final = 4096
SHUTDOWN_TIMEOUT_S: Final = 1.0
"""Timeout for the TLS shutdown of a closed connection."""
ACCEPT_BACKOFF_S: Final = 0.1
"""Back-off after a failed accept, for example without free file descriptors."""

UNLIMITED: Final = 0

log = structlog.get_logger(__name__)


class Admission:
    """Counts admitted connections until they leave, in total and per address."""

    def __init__(self, max_connections: int, max_per_address: int) -> None:
        """Set both limits; `max_per_address` may be `UNLIMITED`."""
        self._max_connections = max_connections
        self._max_per_address = max_per_address
        self._count = 0
        self._counts: Counter[str] = Counter()

    def admit(self, address: str) -> str | None:
        """Admit a connection and return None, or return the reason to reject it."""
        if self._count >= self._max_connections:
            return f"more than {self._max_connections} connections"
        if self._max_per_address != UNLIMITED and self._counts[address] >= self._max_per_address:
            return f"more than {self._max_per_address} connections from {address}"
        self._count += 1
        self._counts[address] += 1
        return None

    def leave(self, address: str) -> None:
        """Stop counting an admitted connection."""
        self._count -= 1
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]


class Listeners:
    """The plain listener of a server, and its TLS listener if `tls` is given."""

    def __init__(self, server: Owner, tls: ServerTls | None) -> None:
        config = server.config
        self.admission = Admission(config.max_connections, config.max_connections_per_address)
        self._server = server
        self._tls = tls
        self._plain: asyncio.Server
        self._tls_listener: TlsListener | None = None

    async def open(self) -> None:
        """Listen on the addresses of the server's config.

        Raises:
            OSError: an address cannot be used.
        """
        server, listen = self._server, self._server.config.listen
        try:
            self._plain = await server.loop.create_server(
                lambda: Connection(server), listen.host or None, listen.port, backlog=LISTEN_BACKLOG
            )
        except (OSError, UnicodeError) as error:
            # A name that IDNA cannot encode is a UnicodeError.
            raise _not_listening(listen, error) from error
        if server.config.tls is not None:
            assert self._tls is not None, "a TLS listener needs a context"
            self._tls_listener = self._listen_for_tls(server.config.tls.listen, self._tls)

    def _listen_for_tls(self, address: Address, tls: ServerTls) -> "TlsListener":
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            listening = socket.create_server(
                (address.host, address.port), family=family, backlog=LISTEN_BACKLOG
            )
        except (OSError, UnicodeError) as error:
            self._plain.close()
            raise _not_listening(address, error) from error
        listening.setblocking(False)
        return TlsListener(self._server, self.admission, listening, tls)

    @property
    def bound_port(self) -> int:
        """Port of the plain listener."""
        port: int = self._plain.sockets[0].getsockname()[1]
        return port

    @property
    def bound_tls_port(self) -> int | None:
        """Port of the TLS listener, if there is one."""
        return None if self._tls_listener is None else self._tls_listener.bound_port

    def close(self) -> None:
        """Stop accepting."""
        self._plain.close()
        if self._tls_listener is not None:
            self._tls_listener.close()


def _not_listening(address: Address, error: OSError | UnicodeError) -> OSError:
    number = error.errno if isinstance(error, OSError) else None
    reason = os.strerror(number).lower() if number else str(error)
    if isinstance(error, socket.gaierror):
        # `os.strerror` does not know the numbers of this error.
        reason = error.strerror or str(error)
    return OSError(f"cannot listen on {address.host}:{address.port}: {reason}")


class TlsListener:
    """Accepts connections on `listening` and performs their TLS handshakes."""

    def __init__(
        self,
        server: Owner,
        admission: Admission,
        listening: socket.socket,
        tls: ServerTls,
    ) -> None:
        self._server = server
        self._admission = admission
        self._listening = listening
        self._tls = tls
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept(), name="tls-accept")

    @property
    def bound_port(self) -> int:
        """Port of the listening socket."""
        port: int = self._listening.getsockname()[1]
        return port

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
            with sending_alert(accepted):
                await self._server.loop.connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=self._tls.context(),
                    ssl_handshake_timeout=self._server.config.handshake_timeout_ms / 1000,
                    ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
                )
        except OSError as error:
            self._server.on_violation(connection, f"TLS handshake failed: {error}")
        finally:
            if not connection.is_made and connection.address is not None:
                self._admission.leave(connection.address)

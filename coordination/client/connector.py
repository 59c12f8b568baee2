"""Finds a server that responds (edge): tries one at a time, each for a share of the timeout."""

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import Final

from coordination.client.client_connection import ClientConnection
from coordination.client.hosts import Host, Rotation
from coordination.errors import OUT_OF_THREADS, CoordinationError, is_out_of_threads
from coordination.protocol.messages import ConnectResponse
from kafkawire.address import check_address

MIN_ATTEMPT_S: Final = 0.1

Adopt = Callable[[ClientConnection, ConnectResponse], Awaitable[bool]]
"""Takes over a connection after its handshake; returns False to reject it."""

Tls = ssl.SSLContext | Callable[[], ssl.SSLContext]
"""A context, or a function that returns the one for the next connection."""


class Connector:
    """Tries the servers of `rotation`, over TLS if a context is given."""

    def __init__(self, rotation: Rotation, tls: Tls | None) -> None:
        self.failure: str | None = None
        """Reason of the last failed attempt since there was a connection."""
        self._rotation = rotation
        self._tls = tls

    def on_connected(self) -> None:
        """Record that a session is established; the first attempt after a loss needs no delay."""
        self.failure = None
        self._rotation.on_connected()

    async def attempt(
        self, new_connection: Callable[[], ClientConnection], adopt: Adopt, round_ms: float
    ) -> bool:
        """Try the next server after its back-off; return whether its connection was adopted.

        Each server gets an equal share of `round_ms`. A connection that is not adopted is closed.
        """
        attempt = self._rotation.next()
        if attempt.delay_ms:
            await asyncio.sleep(attempt.delay_ms / 1000)
        budget_s = max(MIN_ATTEMPT_S, round_ms / 1000 / self._rotation.host_count)
        return await self._try(attempt.host, new_connection, adopt, budget_s)

    async def _try(
        self,
        host: Host,
        new_connection: Callable[[], ClientConnection],
        adopt: Adopt,
        budget_s: float,
    ) -> bool:
        connection: ClientConnection | None = None
        is_adopted = False
        try:
            async with asyncio.timeout(budget_s):
                connection = await self._connect(host, new_connection)
                response = await connection.handshake
            is_adopted = await adopt(connection, response)
        except TimeoutError:
            self.failure = f"{host.name}:{host.port}: no answer within {budget_s:.1f} s"
            return False
        except (OSError, CoordinationError, struct.error) as error:
            self.failure = f"{host.name}:{host.port}: {_reason(error)}"
            return False
        except RuntimeError as error:
            # The look-up of a name may need a thread.
            if not is_out_of_threads(error):
                raise
            self.failure = OUT_OF_THREADS
            return False
        finally:
            # Also when this attempt is cancelled: packets of this connection must not arrive.
            if connection is not None and not is_adopted:
                connection.abort()
        return is_adopted

    async def _connect(
        self, host: Host, new_connection: Callable[[], ClientConnection]
    ) -> ClientConnection:
        check_address(host.name, host.port)
        tls = self._tls() if callable(self._tls) else self._tls
        _, connection = await asyncio.get_running_loop().create_connection(
            new_connection, host.name, host.port, ssl=tls
        )
        return connection


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the server's certificate is not valid: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or str(error)).lower().replace('_', ' ')}"
    if isinstance(error, socket.gaierror):
        # `os.strerror` does not know the numbers of this error.
        return error.strerror or str(error)
    number = getattr(error, "errno", None)
    return os.strerror(number).lower() if number else str(error)

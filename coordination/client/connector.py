"""Finds a server that answers (edge): one after the other, each for a share of the timeout."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Final

from coordination.client.connection import ClientConnection
from coordination.client.hosts import Host, Rotation
from coordination.messages import ConnectResponse

MIN_ATTEMPT_S: Final = 0.1

Adopt = Callable[[ClientConnection, ConnectResponse], Awaitable[bool]]
"""Takes over a connection whose server has answered; False if it is not wanted."""


class Connector:
    """Tries the servers of `rotation`, over TLS if there is a context for that."""

    def __init__(self, rotation: Rotation, tls: ssl.SSLContext | None) -> None:
        self._rotation = rotation
        self._tls = tls

    def on_connected(self) -> None:
        """A session is established: a loss may be followed by an attempt at once."""
        self._rotation.on_connected()

    async def attempt(
        self, new_connection: Callable[[], ClientConnection], adopt: Adopt, round_ms: float
    ) -> bool:
        """Try the next server when its turn has come; return whether its connection was adopted.

        In `round_ms` each server has its turn. A connection that is not adopted is closed.
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
        loop = asyncio.get_running_loop()
        connection: ClientConnection | None = None
        is_adopted = False
        try:
            async with asyncio.timeout(budget_s):
                _, connection = await loop.create_connection(
                    new_connection, host.name, host.port, ssl=self._tls
                )
                response = await connection.handshake
            is_adopted = await adopt(connection, response)
        except (OSError, TimeoutError):
            return False
        finally:
            # Also when this attempt is cancelled: what comes from it must not be heard any more.
            if connection is not None and not is_adopted:
                connection.abort()
        return is_adopted

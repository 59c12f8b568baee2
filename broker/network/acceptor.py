"""One listener: binds its address and creates a processor for each connection (edge)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from typing import Final

from broker.config.listener import Listener
from broker.network.processor import ConnectionOwner, Network, Processor
from storage.config.config_key import INT_MAX

TLS_HANDSHAKE_TIMEOUT_S: Final = 10.0
# Time for a client to confirm the end of TLS: shorter than the stop of a broker.
TLS_SHUTDOWN_TIMEOUT_S: Final = 1.0
CLOSE_TIMEOUT_S: Final = 1.0
# These probes detect clients that vanished silently. If connections.max.idle.ms sets a limit, it
# also bounds the time that probes and sent data may stay unacknowledged.
KEEPALIVE_IDLE_S: Final = 60
KEEPALIVE_INTERVAL_S: Final = 15
KEEPALIVE_PROBES: Final = 4


class Acceptor:
    """The listening socket of one listener."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        network: Network,
        owner: ConnectionOwner,
        *,
        is_control_plane: bool,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self.listener = listener
        self._loop = loop
        self._network = network
        self._owner = owner
        self._is_control_plane = is_control_plane
        self._ssl_context = ssl_context
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Bind the address and accept connections.

        Raises:
            OSError: the address cannot be bound.
        """
        host, port = self.listener.host, self.listener.port
        try:
            self._server = server = await self._loop.create_server(
                self._make_processor,
                host or None,
                port,
                backlog=self._network.limits.socket_listen_backlog_size,
                ssl=self._ssl_context,
                ssl_handshake_timeout=TLS_HANDSHAKE_TIMEOUT_S if self._ssl_context else None,
                ssl_shutdown_timeout=TLS_SHUTDOWN_TIMEOUT_S if self._ssl_context else None,
                start_serving=False,
            )
        except OSError as error:
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise OSError(f"cannot listen on {host}:{port}: {reason}") from error
        # Must precede listening: the receive buffer determines the window offered to clients.
        for listening in server.sockets:
            self._set_options(listening)
        await server.start_serving()

    @property
    def bound_address(self) -> tuple[str, int]:
        """Host and port; port 0 is replaced by the port that the system chose."""
        assert self._server is not None, "start comes first"
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    def stop(self) -> None:
        """Stop accepting connections."""
        if self._server is not None:
            self._server.close()

    async def wait_closed(self) -> None:
        """Wait until the listening socket and connections without a processor are closed.

        Connections in a TLS handshake have no processor yet; the wait for them has a timeout.
        """
        if self._server is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._server.wait_closed(), CLOSE_TIMEOUT_S)

    def _make_processor(self) -> Processor:
        return Processor(
            self._network, self._owner, self.listener.name, is_control_plane=self._is_control_plane
        )

    def _set_options(self, listening: socket.socket) -> None:
        """Set the socket options that accepted connections inherit."""
        limits = self._network.limits
        for option, size_bytes in (
            (socket.SO_SNDBUF, limits.socket_send_buffer_bytes),
            (socket.SO_RCVBUF, limits.socket_receive_buffer_bytes),
        ):
            if size_bytes is not None:
                listening.setsockopt(socket.SOL_SOCKET, option, size_bytes)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
            ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
            ("TCP_KEEPCNT", KEEPALIVE_PROBES),
            ("TCP_USER_TIMEOUT", min(limits.connections_max_idle_ms or 0, INT_MAX)),
        ):
            # Some systems lack some of these options.
            if (number := getattr(socket, name, None)) is not None:
                listening.setsockopt(socket.IPPROTO_TCP, number, value)

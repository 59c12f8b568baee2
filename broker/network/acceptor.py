"""One listener: binds its address and creates a processor for each connection (edge)."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, Protocol

from broker.config.listener import Listener
from broker.network.connection_gate import ListenerSecurity
from broker.network.processor import ConnectionOwner, Network, Processor
from broker.network.tls_acceptor import Admission, TlsAcceptor
from storage.config.config_key import INT_MAX

CLOSE_TIMEOUT_S: Final = 1.0
# These probes detect clients that vanished silently. If connections.max.idle.ms sets a limit, it
# also bounds the time that probes and sent data may stay unacknowledged.
KEEPALIVE_IDLE_S: Final = 60
KEEPALIVE_INTERVAL_S: Final = 15
KEEPALIVE_PROBES: Final = 4


class SocketOwner(ConnectionOwner, Admission, Protocol):
    """The keeper of the list of connections, and of their number."""


class Acceptor:
    """The listening sockets of one listener."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        network: Network,
        owner: SocketOwner,
        *,
        is_control_plane: bool,
        security: ListenerSecurity,
    ) -> None:
        self.listener = listener
        self._loop = loop
        self._network = network
        self._owner = owner
        self._is_control_plane = is_control_plane
        self._security = security
        self._server: asyncio.Server | None = None
        self._tls: TlsAcceptor | None = None
        self._bound_address = ("", 0)

    async def start(self) -> None:
        """Bind the address and accept connections.

        Raises:
            OSError: the address cannot be bound.
        """
        host, port = self.listener.host, self.listener.port
        try:
            if self._security.tls is None:
                await self._serve(host, port)
            else:
                await self._serve_tls(host, port, self._security.tls)
        except socket.gaierror as error:
            # `os.strerror` does not know the numbers of this error.
            raise OSError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        except OSError as error:
            reason = os.strerror(error.errno).lower() if error.errno else str(error)
            raise OSError(f"cannot listen on {host}:{port}: {reason}") from error

    @property
    def bound_address(self) -> tuple[str, int]:
        """Host and port; port 0 is replaced by the port that the system chose."""
        assert self._bound_address[1], "start comes first"
        return self._bound_address

    def stop(self) -> None:
        """Stop accepting connections."""
        if self._server is not None:
            self._server.close()
        if self._tls is not None:
            self._tls.stop()

    async def wait_closed(self) -> None:
        """Wait until the listening sockets are closed, and no handshake is pending."""
        if self._tls is not None:
            await self._tls.wait_closed()
        if self._server is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await self._server.wait_closed()

    async def _serve(self, host: str, port: int) -> None:
        self._server = server = await self._loop.create_server(
            self._make_processor,
            host or None,
            port,
            backlog=self._network.limits.socket_listen_backlog_size,
            start_serving=False,
        )
        # Must precede listening: the receive buffer determines the window offered to clients.
        for listening in server.sockets:
            self._set_options(listening)
        self._note_bound(server.sockets[0])
        await server.start_serving()

    async def _serve_tls(self, host: str, port: int, context: Callable[[], ssl.SSLContext]) -> None:
        found = await self._loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        families = {each[0] for each in found}
        with contextlib.ExitStack() as opened:
            sockets = []
            for family, _, _, _, address in dict.fromkeys(found):
                try:
                    listening = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
                except OSError as error:
                    # A system without IPv6 finds an address of it for every interface.
                    if error.errno == errno.EAFNOSUPPORT and len(families) > 1:
                        continue
                    raise
                listening.setblocking(False)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listening.bind(address)
                self._set_options(listening)
                listening.listen(self._network.limits.socket_listen_backlog_size)
                sockets.append(listening)
            opened.pop_all()
        self._note_bound(sockets[0])
        self._tls = TlsAcceptor(
            self._loop, self._owner, self.listener.name, context, self._make_counted_processor
        )
        self._tls.start(sockets)

    def _note_bound(self, listening: socket.socket) -> None:
        host, port = listening.getsockname()[:2]
        self._bound_address = (str(host), int(port))

    def _make_processor(self, *, is_counted: bool = False) -> Processor:
        return Processor(
            self._network,
            self._owner,
            self.listener.name,
            is_control_plane=self._is_control_plane,
            security=self._security,
            is_counted=is_counted,
        )

    def _make_counted_processor(self) -> Processor:
        return self._make_processor(is_counted=True)

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

"""Client side of one connection (edge): sends packets and delivers received ones, in order.

Its handshake includes the login, if there is one. It has no notion of sessions. It calls its owner
for every packet in the order of arrival, and once when the connection is lost. Packets of one loop
iteration are written together.
"""

import asyncio
import socket
import struct
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, cast

import structlog

from coordination.client.login import LoginExchange
from coordination.errors import JuteError, PacketLengthError, SaslError
from coordination.protocol import frames
from coordination.protocol.frames import FrameSplitter, Handshake
from coordination.protocol.messages import ConnectRequest, ConnectResponse

_REPLY = struct.Struct(">iqi")
_XID = struct.Struct(">i")
# Replies may be larger than requests, for example the names of very many children.
MAX_REPLY_BYTES: Final = 16 * 1024 * 1024

log = structlog.get_logger(__name__)


class Owner(Protocol):
    """User of a connection."""

    def on_reply(self, xid: int, zxid: int, err: int, payload: bytes) -> None:
        """Handle a reply; its body begins at `frames.REPLY_HEADER_BYTES` of `payload`."""

    def on_too_large(self, xid: int, size_bytes: int) -> None:
        """Handle a reply above `MAX_REPLY_BYTES`, which costs the connection."""

    def on_lost(self, connection: "ClientConnection") -> None:
        """Handle the loss of the connection; no more packets will arrive."""


class ClientConnection(asyncio.Protocol):
    """Connection to a server, from its handshake to its end."""

    def __init__(
        self,
        owner: Owner,
        request: ConnectRequest,
        timeout_ms: float,
        login: LoginExchange | None = None,
    ) -> None:
        self._owner = owner
        self._request = request
        self._timeout_ms = timeout_ms
        self._login = login
        self._granted: ConnectResponse | None = None
        self._loop = asyncio.get_running_loop()
        self._splitter = FrameSplitter(MAX_REPLY_BYTES, max_first_bytes=frames.MAX_HANDSHAKE_BYTES)
        self._out: list[bytes] = []
        self._is_lost = False
        # Held while the transport is written to; see `heartbeat`.
        self.write_lock: AbstractContextManager[object] = nullcontext()
        self.transport: asyncio.Transport
        self.handshake: asyncio.Future[ConnectResponse] = self._loop.create_future()
        """Done once the server has responded, and has accepted the login."""

    @property
    def is_lost(self) -> bool:
        """Whether the connection is lost or closed."""
        return self._is_lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake (asyncio calls this)."""
        self.transport = cast(asyncio.Transport, transport)
        raw = transport.get_extra_info("socket")
        if raw is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            # The kernel gives up on unacknowledged data when this client would.
            timeout_ms = max(1, int(self._timeout_ms * 2 / 3))
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
        self.send(frames.encode_handshake(Handshake(self._request, read_only=False)))

    def connection_lost(self, _exc: Exception | None) -> None:
        """Fail a pending handshake, and notify the owner (asyncio calls this)."""
        self._is_lost = True
        self._fail_handshake(ConnectionResetError("closed before the end of the handshake"))
        self._owner.on_lost(self)

    def _fail_handshake(self, error: Exception) -> None:
        if not self.handshake.done():
            self.handshake.set_exception(error)
            # The attempt may have been cancelled: mark the exception as retrieved.
            self.handshake.exception()

    def data_received(self, data: bytes) -> None:
        """Deliver every complete packet; abort on malformed data (asyncio calls this)."""
        try:
            payloads = self._splitter.feed(data)
            for payload in payloads:
                if not self.handshake.done():
                    if self._granted is None:
                        self._on_handshake(payload)
                    else:
                        self._on_login(self._granted, payload)
                elif not self.handshake.cancelled():
                    self._on_packet(payload)
        except (JuteError, SaslError, struct.error) as error:
            # The server does not speak the protocol or refuses the login; the owner tries another.
            if self.handshake.done():
                log.warning("packet.refused", error=str(error))
                if isinstance(error, PacketLengthError):
                    self._on_length(error)
            self._fail_handshake(error)
            self.abort()

    def _on_length(self, refused: PacketLengthError) -> None:
        # A retry of the request would lose every further connection, and all other requests.
        if refused.size_bytes > MAX_REPLY_BYTES and len(refused.head) == _XID.size:
            self._owner.on_too_large(_XID.unpack(refused.head)[0], refused.size_bytes)

    def _on_handshake(self, payload: bytes) -> None:
        record = frames.decode_handshake(ConnectResponse, payload).record
        assert isinstance(record, ConnectResponse), "decoded as one"
        if record.session_id and record.time_out <= 0:
            raise JuteError(f"session timeout must be positive, got {record.time_out} ms")
        if self._login is None or not record.session_id:
            self.handshake.set_result(record)
            return
        self._granted = record
        self.send(self._login.first())

    def _on_login(self, granted: ConnectResponse, payload: bytes) -> None:
        assert self._login is not None, "else the handshake is over"
        packet = self._login.answer(payload)
        if packet is None:
            self.handshake.set_result(granted)
        else:
            self.send(packet)

    def _on_packet(self, payload: bytes) -> None:
        if self._is_lost:
            return
        xid, zxid, err = _REPLY.unpack_from(payload)
        self._owner.on_reply(xid, zxid, err, payload)

    def send(self, packet: bytes) -> None:
        """Send a packet, together with all others of this loop iteration."""
        if not self._out:
            self._loop.call_soon(self.flush)
        self._out.append(packet)

    def flush(self) -> None:
        """Send the queued packets now."""
        if self._out and not self._is_lost:
            with self.write_lock:
                self.transport.write(b"".join(self._out))
        self._out.clear()

    def abort(self) -> None:
        """Close at once; the owner is notified."""
        self.transport.abort()

"""Server side of one connection (edge): parses requests and sends outputs in order."""

import asyncio
import ssl
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Final, Protocol, cast

from coordination.errors import JuteError
from coordination.protocol import frames
from coordination.protocol.digest_md5 import DigestServer
from coordination.protocol.frames import FrameSplitter
from coordination.server.connection_outputs import Outputs
from coordination.server.coordinator_config import CoordinatorConfig
from coordination.server.four_letter import COMMANDS, Metrics
from coordination.server.state.acl import Identity
from coordination.server.state.sessions import Session

_HEADER = struct.Struct(">ii")
_COMMAND_BYTES: Final = 4
WRITE_HIGH_WATER_BYTES: Final = 1024 * 1024
WRITE_LOW_WATER_BYTES: Final = 256 * 1024
# Limits of one turn of a connection. A request of 30 bytes may produce a megabyte of output or walk
# over all nodes, so requests, bytes and time all count.
TURN_REQUESTS: Final = 256
TURN_OUTPUT_BYTES: Final = 1024 * 1024
TURN_S: Final = 0.005
MAX_LOGIN_BYTES: Final = 65_536
"""Limit of a request from a client that has not logged in yet; credentials are much smaller."""


class ConnectionState(IntEnum):
    """State of a connection, which only moves forward; requests run in FRESH and OPEN."""

    NEW = 0
    """Accepted; its TLS handshake may be incomplete."""
    FRESH = 1
    """The first bytes, which may be a four-letter word, are incomplete."""
    OPEN = 2
    ENDING = 3
    """Runs no further requests; closes once its outputs are sent."""
    CLOSED = 4


# Bound once, because member lookup in an enum runs Python code.
_FRESH: Final = ConnectionState.FRESH
_OPEN: Final = ConnectionState.OPEN
_ENDING: Final = ConnectionState.ENDING
_CLOSED: Final = ConnectionState.CLOSED


class Owner(Protocol):
    """Server of a connection."""

    config: CoordinatorConfig
    loop: asyncio.AbstractEventLoop
    metrics: Metrics
    wall_clock_ms: Callable[[], int]
    is_stopping: bool
    synced_zxid: int
    unsynced_bytes: int
    """Size of the requests whose transactions are not on disk yet."""
    ready: dict["Connection", None]
    """Connections with outputs that can be sent now."""
    holding: dict["Connection", None]
    """Connections with outputs that wait for a sync."""

    def admit(self, connection: "Connection", peer: object) -> bool:
        """Admit a client with socket address `peer`, unless it has left or a limit is reached."""

    def on_connected(self, connection: "Connection", certificate: bytes | None) -> None:
        """Record the connection of an admitted client, which may have shown a certificate."""

    def on_disconnected(self, connection: "Connection", *, by_peer: bool) -> None:
        """Forget a lost connection; its session is kept."""

    def on_violation(self, connection: "Connection", reason: str) -> None:
        """Record that a client violated the protocol or a limit."""

    def touch(self, session: Session, now_ms: int) -> None:
        """Record the arrival of a packet of a session, at time `now_ms` of the loop."""

    def shake_hands(self, connection: "Connection", payload: bytes) -> None:
        """Start or resume a session."""

    def run_request(
        self, connection: "Connection", xid: int, op: int, payload: bytes, wall_ms: int
    ) -> None:
        """Run one request, at time `wall_ms`, and queue its reply."""

    def run_command(self, command: str) -> Iterator[bytes]:
        """Yield the parts of the response to a four-letter word, or its refusal if disabled."""

    def after_input(self) -> None:
        """Send the outputs that are ready, and start a sync for the others."""


class Connection(asyncio.Protocol):
    """Server side of one connection; satisfies `service.Peer`."""

    def __init__(self, server: Owner) -> None:
        self._server = server
        self._splitter = FrameSplitter(
            server.config.max_request_bytes, max_first_bytes=frames.MAX_HANDSHAKE_BYTES
        )
        self._head = b""
        self._inbox: deque[bytes] = deque()
        self._is_turn_scheduled = False
        self._outputs = Outputs()
        self._held_since_s = 0.0
        self._response: Iterator[bytes] | None = None
        """Parts of the response to a four-letter word that are left."""
        self._abort_timer: asyncio.TimerHandle | None = None
        """Aborts a closed connection whose peer does not read the rest of the outputs."""
        self._last_zxid = 0
        self._state = ConnectionState.NEW
        self._is_reading = True
        self._is_writable = True
        self._transport: asyncio.Transport
        self.session: Session | None = None
        self.session_id = 0
        self.identities: Sequence[Identity] = ()
        self.is_authenticated = False
        """Whether the identities suffice to use the coordinator."""
        self.exchange: DigestServer | None = None
        self.opened_at_s = 0.0
        self.received_count = 0
        self.sent_count = 0
        self.last_op = "NA"
        self.address: str | None = None
        """Address of the peer, set once the connection is admitted."""
        self.peer_name = "?"

    @property
    def is_made(self) -> bool:
        """Whether asyncio has reported the connection."""
        return self._state is not ConnectionState.NEW

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the peer and notify the server (asyncio calls this)."""
        self._move_to(_FRESH)
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(
            high=WRITE_HIGH_WATER_BYTES, low=WRITE_LOW_WATER_BYTES
        )
        self.opened_at_s = self._server.loop.time()
        # TLS connections were admitted before their handshake.
        if self.address is not None or self._server.admit(
            self, transport.get_extra_info("peername")
        ):
            tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
            self._server.on_connected(self, tls.getpeercert(binary_form=True) if tls else None)
        else:
            self.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Drop pending requests and outputs, and notify the server (asyncio calls this)."""
        by_peer = self._move_to(_CLOSED)
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        self._inbox.clear()
        self._outputs = Outputs()
        self._server.on_disconnected(self, by_peer=by_peer)

    def eof_received(self) -> bool:
        """Close the connection, but not within a command's response (asyncio calls this)."""
        # A half-closed client cannot send pings: treat it as gone. TLS has no half-closed state.
        return self._response is not None and self._transport.can_write_eof()

    def pause_writing(self) -> None:
        """Stop reading while the peer does not read its replies (asyncio calls this)."""
        self._is_writable = False
        self._update_reading()

    def resume_writing(self) -> None:
        """Continue with the pending requests (asyncio calls this)."""
        self._is_writable = True
        self._take_turn()

    def data_received(self, data: bytes) -> None:
        """Split bytes into requests and run them (asyncio calls this)."""
        if self._state is _CLOSED:
            return
        if self._state is _FRESH:
            data = self._first_bytes(data)
        self._take_turn(data)

    def _first_bytes(self, data: bytes) -> bytes:
        # Four letters at the start are a command; as a frame length they would exceed the limit.
        self._head += data
        if len(self._head) < _COMMAND_BYTES:
            return b""
        self._move_to(_OPEN)
        head, self._head = self._head, b""
        if head[:_COMMAND_BYTES] not in COMMANDS:
            return head
        self._move_to(_ENDING)
        self._response = self._server.run_command(head[:_COMMAND_BYTES].decode())
        return b""

    def _move_to(self, state: ConnectionState) -> bool:
        """Change the state if this is a move forward; return whether it is."""
        source, self._state = self._state, max(self._state, state)
        return source < state

    # -- requests

    def _take_turn(self, data: bytes = b"") -> None:
        """Run the waiting requests and the ones in `data`, and send their outputs."""
        if self._response is not None:
            self._continue_response(self._response)
            return
        now_s = self._server.loop.time()
        if self.session is not None and (data or self._inbox):
            # A request that waits shows that the client is alive: its pings may be unread.
            self._server.touch(self.session, int(now_s * 1000))
        try:
            payloads = self._splitter.feed(data)
            self.received_count += len(payloads)
            self._server.metrics.received_count += len(payloads)
            self._inbox.extend(payloads)
            self._work(now_s + TURN_S)
            self._check_login()
        except JuteError as error:
            self._server.on_violation(self, str(error))
            self.close()
        self._server.after_input()

    def _check_login(self) -> None:
        """Close the connection if the client fills memory before it has logged in.

        A client may send its login and a large request together.
        """
        is_waiting = self.is_authenticated or self._inbox
        if not is_waiting and self._splitter.buffered_bytes > MAX_LOGIN_BYTES:
            text = f"a request of more than {MAX_LOGIN_BYTES} bytes before the login"
            self._server.on_violation(self, text)
            self.close()

    def _work(self, ends_s: float) -> None:
        """Run requests until the inbox is empty, the turn is over, or outputs pile up."""
        server, inbox, left = self._server, self._inbox, TURN_REQUESTS
        wall_ms = server.wall_clock_ms()
        while inbox and left and self._has_room():
            left -= 1
            self._run(inbox.popleft(), wall_ms)
            if self._outputs.ready_bytes >= TURN_OUTPUT_BYTES:
                self.flush()
                left = 0
            elif inbox and server.loop.time() >= ends_s:
                left = 0
        if inbox and not left and not self._is_turn_scheduled:
            self._schedule_turn()
        self._update_reading()

    def _continue_response(self, response: Iterator[bytes]) -> None:
        """Send the next part of a command's response, or close after the last one."""
        if self._is_turn_scheduled or not self._is_writable or self._state is _CLOSED:
            return
        part = next(response, None)
        if part is None:
            self.close()
            return
        if part:
            self.deliver(part, 0)
            self.flush()
        self._schedule_turn()

    def _schedule_turn(self) -> None:
        self._is_turn_scheduled = True
        self._server.loop.call_soon(self._take_scheduled_turn)

    def _take_scheduled_turn(self) -> None:
        self._is_turn_scheduled = False
        self._take_turn()

    def _has_room(self) -> bool:
        return (
            self._is_writable
            and self._state < _ENDING
            and not self._server.is_stopping
            and not (self._outputs.held and self._holds_too_much())
        )

    def _holds_too_much(self) -> bool:
        config, outputs = self._server.config, self._outputs
        # The limit of unsynced bytes is the server's, but stops only connections that hold outputs:
        # the end of a sync lets each of them continue.
        return (
            len(outputs.held) >= config.max_held_replies
            or outputs.held_bytes >= config.max_unsent_bytes
            or self._server.unsynced_bytes >= config.max_unsynced_bytes
        )

    def _run(self, payload: bytes, wall_ms: int) -> None:
        server = self._server
        if self.session is None:
            server.shake_hands(self, payload)
            return
        if len(payload) < frames.REQUEST_HEADER_BYTES:
            raise JuteError(
                f"a request has at least {frames.REQUEST_HEADER_BYTES} bytes, got {len(payload)}"
            )
        xid, op = _HEADER.unpack_from(payload)
        server.run_request(self, xid, op, payload, wall_ms)

    # -- outputs

    @property
    def is_command(self) -> bool:
        """Whether the peer has sent a four-letter word."""
        return self._response is not None

    @property
    def held_count(self) -> int:
        """Number of outputs that wait for a sync."""
        return len(self._outputs.held)

    @property
    def is_held_up(self) -> bool:
        """Whether packets stay unread because writes wait for a sync, not for the peer."""
        return not self._is_reading and self._is_writable and self.held_count > 0

    def deliver(self, packet: bytes | None, tag: int) -> None:
        """Send a packet once transaction `tag` is on disk; with None, end the outputs."""
        if self._state is _CLOSED:
            return
        server, outputs = self._server, self._outputs
        outputs.add(packet, tag, server.synced_zxid)
        if not outputs.held:
            server.ready[self] = None
        elif self not in server.holding:
            server.holding[self] = None
            self._held_since_s = server.loop.time()

    def reply(self, xid: int, err: int, body: bytes, tag: int) -> None:
        """Send the reply to a request once transaction `tag` is on disk."""
        # Never a zxid that is not on disk: after a crash, a client that has seen it would be
        # refused. Never a smaller one than before.
        self._last_zxid = zxid = max(self._last_zxid, tag, self._server.synced_zxid)
        self.deliver(frames.encode_reply(xid, zxid, err, body), tag)

    def close_after_outputs(self, tag: int) -> None:
        """Close once all queued outputs are sent; run no further requests."""
        self._move_to(_ENDING)
        self._inbox.clear()
        self.deliver(None, tag)
        if self._outputs.is_ended:
            self.close()

    def release(self, synced_zxid: int) -> None:
        """Send the outputs of transactions up to `synced_zxid`."""
        self._outputs.release(synced_zxid)
        if self._outputs.is_ended:
            self.close()
            return
        now_s = self._server.loop.time()
        self._server.metrics.on_latency((now_s - self._held_since_s) * 1000)
        self._held_since_s = now_s
        self.flush()
        if self._inbox:
            self._take_turn()
        elif not self._is_reading:
            # Reading stops while too many outputs are held, also if the last request caused that.
            self._update_reading()

    def flush(self) -> None:
        """Write all sendable outputs to the transport at once."""
        if not self._outputs.ready_bytes or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > self._server.config.max_unsent_bytes:
            # A client that does not read would fill our memory; its session stays alive. Only
            # earlier output counts, because a single reply may exceed the limit.
            self._server.on_violation(self, "the client does not read its replies")
            self.abort()
            return
        packets = self._outputs.take()
        self.sent_count += len(packets)
        self._server.metrics.sent_count += len(packets)
        self._transport.write(packets[0] if len(packets) == 1 else b"".join(packets))

    def _update_reading(self) -> None:
        wanted = not self._inbox and self._has_room()
        if wanted is self._is_reading or self._transport.is_closing():
            return
        self._is_reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # -- the end

    def close(self) -> None:
        """Send the sendable outputs, then close, within the time that a handshake may take.

        Without that limit, a peer that never reads would keep the connection open without end.
        """
        self.flush()
        if not self._move_to(_CLOSED):
            return
        self._inbox.clear()
        self._outputs = Outputs()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            server = self._server
            timeout_s = server.config.handshake_timeout_ms / 1000
            self._abort_timer = server.loop.call_later(timeout_s, self._transport.abort)

    def abort(self) -> None:
        """Close at once."""
        self._move_to(_CLOSED)
        self._outputs = Outputs()
        self._transport.abort()

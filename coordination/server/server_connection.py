"""Server side of one connection (edge): parses requests and sends outputs in order.

Outputs are sent in the order in which they were queued, and none before its transaction is on disk.
Invariant: `_held` is empty, or its head waits for a sync.
"""

import asyncio
import struct
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol, cast

from coordination.errors import JuteError
from coordination.protocol import frames
from coordination.protocol.frames import FrameSplitter
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


class Owner(Protocol):
    """Server of a connection."""

    config: CoordinatorConfig
    loop: asyncio.AbstractEventLoop
    metrics: Metrics
    is_stopping: bool
    synced_zxid: int
    ready: list["Connection"]
    """Connections with outputs that can be sent now."""
    holding: dict["Connection", None]
    """Connections with outputs that wait for a sync."""

    def admit(self, connection: "Connection", peer: object) -> bool:
        """Admit a client with socket address `peer`, unless a limit is reached."""

    def on_connected(self, connection: "Connection") -> None:
        """Record the connection of an admitted client."""

    def on_disconnected(self, connection: "Connection", *, by_peer: bool) -> None:
        """Forget a lost connection; its session is kept."""

    def on_violation(self, connection: "Connection", reason: str) -> None:
        """Record that a client violated the protocol or a limit."""

    def touch(self, session: Session) -> None:
        """Record the arrival of a packet of a session."""

    def shake_hands(self, connection: "Connection", payload: bytes) -> None:
        """Start or resume a session."""

    def run_request(self, connection: "Connection", xid: int, op: int, payload: bytes) -> None:
        """Run one request and queue its reply."""

    def run_command(self, command: str) -> bytes:
        """Return the response to a four-letter word, or its refusal if it is disabled."""

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
        self._is_work_scheduled = False
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._held_bytes = 0
        self._held: deque[tuple[int, bytes | None]] = deque()
        self._held_since_s = 0.0
        self._last_zxid = 0
        self._is_closed = False
        self._is_finished = False
        self._is_fresh = True
        self._is_reading = True
        self._is_writable = True
        self._transport: asyncio.Transport
        self.session: Session | None = None
        self.session_id = 0
        self.identities: Sequence[Identity] = ()
        self.opened_at_s = 0.0
        self.received_count = 0
        self.sent_count = 0
        self.last_op = "NA"
        self.address: str | None = None
        """Address of the peer, set once the connection is admitted."""
        self.peer_name = "?"
        self.is_made = False

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the peer and notify the server (asyncio calls this)."""
        self.is_made = True
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(
            high=WRITE_HIGH_WATER_BYTES, low=WRITE_LOW_WATER_BYTES
        )
        self.opened_at_s = self._server.loop.time()
        # TLS connections were admitted before their handshake.
        if self.address is not None or self._server.admit(
            self, transport.get_extra_info("peername")
        ):
            self._server.on_connected(self)
        else:
            self.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Drop pending requests and outputs, and notify the server (asyncio calls this)."""
        was_closed_here = self._is_closed
        self._is_closed = True
        self._inbox.clear()
        self._held.clear()
        self._out.clear()
        self._server.on_disconnected(self, by_peer=not was_closed_here)

    def eof_received(self) -> bool:
        """Close the connection (asyncio calls this)."""
        # A half-closed client cannot send pings: treat it as gone.
        return False

    def pause_writing(self) -> None:
        """Stop reading while the peer does not read its replies (asyncio calls this)."""
        self._is_writable = False
        self._update_reading()

    def resume_writing(self) -> None:
        """Continue with the pending requests (asyncio calls this)."""
        self._is_writable = True
        self._continue_work()

    def data_received(self, data: bytes) -> None:
        """Split bytes into requests and run them (asyncio calls this)."""
        if self._is_closed:
            return
        if self._is_fresh:
            data = self._first_bytes(data)
        try:
            self._take(self._splitter.feed(data))
        except JuteError as error:
            self._server.on_violation(self, str(error))
            self.close()
        self._server.after_input()

    def _first_bytes(self, data: bytes) -> bytes:
        # Four letters at the start are a command; as a frame length they would exceed the limit.
        self._head += data
        if len(self._head) < _COMMAND_BYTES:
            return b""
        self._is_fresh = False
        head, self._head = self._head, b""
        if head[:_COMMAND_BYTES] not in COMMANDS:
            return head
        self._out.append(self._server.run_command(head[:_COMMAND_BYTES].decode()))
        self.close()
        return b""

    # -- requests

    def _take(self, payloads: list[bytes]) -> None:
        if self.session is not None:
            self._server.touch(self.session)
        self._inbox.extend(payloads)
        self._work()

    def _work(self) -> None:
        """Run requests until the inbox is empty, the turn is over, or outputs pile up."""
        inbox, left, time = self._inbox, TURN_REQUESTS, self._server.loop.time
        ends_s = time() + TURN_S
        while inbox and left and self._has_room():
            left -= 1
            self._run(inbox.popleft())
            if self._out_bytes >= TURN_OUTPUT_BYTES:
                self.flush()
                left = 0
            elif time() >= ends_s:
                left = 0
        if inbox and not left and not self._is_work_scheduled:
            self._is_work_scheduled = True
            self._server.loop.call_soon(self._continue_work)
        self._update_reading()

    def _continue_work(self) -> None:
        self._is_work_scheduled = False
        if self.session is not None and self._inbox:
            # Its pings may be unread, but this request shows that the client is alive.
            self._server.touch(self.session)
        try:
            self._work()
        except JuteError as error:
            self._server.on_violation(self, str(error))
            self.close()
        self._server.after_input()

    def _has_room(self) -> bool:
        config = self._server.config
        return (
            self._is_writable
            and not self._is_closed
            and not self._is_finished
            and not self._server.is_stopping
            and len(self._held) < config.max_held_replies
            and self._held_bytes < config.max_unsent_bytes
        )

    def _run(self, payload: bytes) -> None:
        server = self._server
        self.received_count += 1
        server.metrics.received_count += 1
        if self.session is None:
            server.shake_hands(self, payload)
            return
        if len(payload) < frames.REQUEST_HEADER_BYTES:
            raise JuteError(
                f"a request has at least {frames.REQUEST_HEADER_BYTES} bytes, got {len(payload)}"
            )
        xid, op = _HEADER.unpack_from(payload)
        server.run_request(self, xid, op, payload)

    # -- outputs

    @property
    def held_count(self) -> int:
        """Number of outputs that wait for a sync."""
        return len(self._held)

    def deliver(self, event: bytes, tag: int) -> None:
        """Queue an event packet."""
        self._send(event, tag)

    def reply(self, xid: int, err: int, body: bytes, tag: int) -> None:
        """Queue the reply to a request."""
        # Never a zxid that is not on disk: after a crash, a client that has seen it would be
        # refused. Never a smaller one than before.
        self._last_zxid = zxid = max(self._last_zxid, tag, self._server.synced_zxid)
        self._send(frames.encode_reply(xid, zxid, err, body), tag)

    def send_handshake(self, packet: bytes, tag: int) -> None:
        """Queue the response to the handshake."""
        self._send(packet, tag)

    def close_after_outputs(self, tag: int) -> None:
        """Close once all queued outputs are sent; run no further requests."""
        self._is_finished = True
        self._inbox.clear()
        if self._held or tag > self._server.synced_zxid:
            self._hold(tag, None)
        else:
            self.close()

    def _send(self, packet: bytes, tag: int) -> None:
        if self._is_closed:
            return
        if self._held or tag > self._server.synced_zxid:
            self._hold(tag, packet)
            return
        if not self._out:
            self._server.ready.append(self)
        self._out.append(packet)
        self._out_bytes += len(packet)

    def _hold(self, tag: int, packet: bytes | None) -> None:
        if not self._held:
            self._held_since_s = self._server.loop.time()
            self._server.holding[self] = None
        self._held.append((tag, packet))
        self._held_bytes += len(packet or b"")

    def release(self, synced_zxid: int) -> None:
        """Send the outputs of transactions up to `synced_zxid`."""
        held, out = self._held, self._out
        while held and held[0][0] <= synced_zxid:
            packet = held.popleft()[1]
            if packet is None:
                self.close()
                return
            out.append(packet)
            self._held_bytes -= len(packet)
        now_s = self._server.loop.time()
        self._server.metrics.on_latency((now_s - self._held_since_s) * 1000)
        self._held_since_s = now_s
        self.flush()
        if self._inbox:
            self._continue_work()

    def flush(self) -> None:
        """Write all sendable outputs to the transport at once."""
        out = self._out
        if not out or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > self._server.config.max_unsent_bytes:
            # A client that does not read would fill our memory; its session stays alive. Only
            # earlier output counts, because a single reply may exceed the limit.
            self._server.on_violation(self, "the client does not read its replies")
            self.abort()
            return
        self.sent_count += len(out)
        self._server.metrics.sent_count += len(out)
        self._transport.write(out[0] if len(out) == 1 else b"".join(out))
        out.clear()
        self._out_bytes = 0

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
        """Send the sendable outputs, then close."""
        if self._is_closed:
            return
        self.flush()
        self._is_closed = True
        self._inbox.clear()
        self._held.clear()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._is_closed = True
        self._held.clear()
        self._out.clear()
        self._transport.abort()

"""One connection: requests in, responses out (edge).

The processor parses frames in place and submits them to the request channel, several at a time. It
sends responses in request order; one write per turn of the loop holds all complete ones.

`connection_state` holds the states of a connection and the reasons to pause reading. Invariants: at
most `max_in_flight_requests_per_connection` requests are in flight. After `connection_lost` the
processor holds nothing, and pending replies are cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, cast

import structlog

from broker.network.buffer_pool import BufferPool
from broker.network.connection_gate import NO_SECURITY, Gate, ListenerSecurity
from broker.network.connection_state import (
    PREDECESSORS,
    PROLONGED_BY_CLIENT,
    WAITS_FOR_BROKER,
    ConnectionState,
    Pause,
    Progress,
    reason_to_pause,
)
from broker.network.file_range import TruncatedRegionError
from broker.network.frame_receiver import FrameReceiver
from broker.network.limits import NetworkLimits
from broker.network.metrics import NetworkMetrics
from broker.network.receive_memory import BLOCKED_REQUESTS_SHARE, ReceiveMemory
from broker.network.request import ConnectionQueue, Request
from broker.network.request_channel import EARLY_APIS, RequestChannel
from broker.network.response_sender import ReadAhead, ResponseSender
from broker.network.socket_state import has_gone
from broker.security.principal import ANONYMOUS, Principal
from kafkawire.apis import ApiKey
from kafkawire.errors import DecodeError
from kafkawire.native import decode_request_header
from kafkawire.units import MIB

if TYPE_CHECKING:
    from broker.security.sasl_exchange import SaslExchange

# With more than `MAX_LARGE_IN_FLIGHT` requests in flight, the processor stops reading while their
# total size exceeds `MAX_IN_FLIGHT_BYTES`: decoded requests and unsent responses take several times
# as much memory.
MAX_LARGE_IN_FLIGHT: Final = 8
MAX_IN_FLIGHT_BYTES: Final = 4 * MIB
# The requests that an expired session is served: they renew it.
RENEWAL_APIS: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
# Bound once, because member lookup in an enum runs Python code.
_OPEN: Final = ConnectionState.OPEN
_CLOSED: Final = ConnectionState.CLOSED

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The objects shared by all listeners and connections of one broker."""

    channel: RequestChannel
    pool: BufferPool
    memory: ReceiveMemory
    limits: NetworkLimits
    metrics: NetworkMetrics
    clock: Callable[[], float]
    read_ahead: ReadAhead


class ConnectionOwner(Protocol):
    """The keeper of the list of connections."""

    def on_opened(self, connection: Processor) -> str | None:
        """Add the connection to the list, or return the reason to refuse it."""

    def on_closed(self, connection: Processor) -> None:
        """Remove the connection from the list."""


class Processor(asyncio.BufferedProtocol):
    """The protocol of one connection."""

    def __init__(
        self,
        network: Network,
        owner: ConnectionOwner,
        listener_name: str,
        is_control_plane: bool,
        security: ListenerSecurity = NO_SECURITY,
        is_counted: bool = False,
    ) -> None:
        """Make the protocol; `is_counted` if the owner has counted the connection already."""
        limits = network.limits
        self.listener_name = listener_name
        self.client_host = ""
        self.principal = ANONYMOUS
        # 0 until the owner has adopted the connection.
        self.number = 0
        self.is_counted = is_counted
        # The authentication that began the session, None without SASL.
        self.session: SaslExchange | None = None
        self._state = ConnectionState.NEW
        # Reason why the transport is not read at present.
        self._pause: Pause | None = None
        self._progress = Progress()
        self._last_active_s = network.clock()
        self._network = network
        self._channel = network.channel
        self._queue = network.channel.connect(self, is_control_plane=is_control_plane)
        self._metrics = network.metrics
        self._clock = network.clock
        self._owner = owner
        self._max_in_flight = limits.max_in_flight_requests_per_connection
        self._receiver = FrameReceiver(
            network.pool, network.memory, limits, is_control_plane=is_control_plane
        )
        self._in_flight: deque[Request] = deque()
        self._security = security
        # Receives all frames until the client is authenticated.
        self._gate: Gate | None = None
        self._expires_at_s = inf
        self._muted_until_s = 0.0
        self._unmuting: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self._sender: ResponseSender

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving the connection, unless the owner refuses it."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client_host = str(peer[0]) if isinstance(peer, tuple) else ""
        refusal = self._owner.on_opened(self)
        if refusal is not None:
            self._move_to(ConnectionState.CLOSED)
            self._metrics.connections_refused += 1
            log.warning("connection.refused", client_host=self.client_host, reason=refusal)
            self._transport.abort()
            return
        self._move_to(ConnectionState.OPEN)
        self._metrics.connections_accepted += 1
        self.number = self._metrics.connections_accepted
        self._metrics.connections_open += 1
        self._sender = ResponseSender(
            self._transport,
            self._in_flight,
            self._metrics,
            self._network.read_ahead,
            self._queue.wake,
        )
        self._sender.start()
        if not self.client_host:
            # Reset before it was accepted: uvloop has no address, by which rights and limits go.
            # Its requests may have arrived.
            self.drop("the client has reset it", is_expected=True)
            return
        if self._security.principal_of is not None:
            try:
                self.principal = self._security.principal_of(transport)
            except ValueError as error:
                self.drop(str(error))
                return
        if self._security.make_gate is not None:
            gate = self._gate = self._security.make_gate(self)
            self._receiver.restrict(gate.max_frame_bytes)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        return self._receiver.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Submit the requests read."""
        self._metrics.bytes_in += nbytes
        if self._gate is not None:
            self._pass_gate(self._receiver.receive(nbytes, 1))
        elif self._channel.is_open:
            room = self._room()
            self._submit(self._receiver.receive(nbytes, room), room)
        else:
            self._receiver.receive(nbytes, 0)
            self._submit_early()

    def pause_writing(self) -> None:
        """Hold back responses, because the socket is full."""
        self._sender.on_full()

    def resume_writing(self) -> None:
        """Resume sending responses."""
        self._sender.on_drained()
        self._channel.mark_ready(self._queue)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Give back all memory and cancel pending replies."""
        if not self._move_to(ConnectionState.CLOSED):
            return
        self._metrics.connections_open -= 1
        if self._unmuting is not None:
            # It may be due in days, and would keep this object until then.
            self._unmuting.cancel()
        if self._gate is not None:
            self._gate.close()
        self._drop_input()
        self._sender.close()
        self._channel.close(self._queue)
        self._channel.attempt(self._queue, self._sender.abandon_in_flight)
        self._owner.on_closed(self)

    def _move_to(self, state: ConnectionState) -> bool:
        """Change the state if the table allows this move; return whether it does."""
        may_move = self._state in PREDECESSORS[state]
        if may_move:
            self._state = state
        return may_move

    # Called by the request channel.

    def send_ready(self) -> None:
        """Send complete responses, as far as the socket takes them, and resume reading."""
        if self._state is _CLOSED:
            return
        sender = self._sender
        try:
            if sender.parts:
                sender.advance()
            if not sender.parts and not sender.is_blocked:
                now_s = self._last_active_s = self._clock()
                close_reason = sender.send_done(now_s)
                if close_reason is not None:
                    self.refuse_input(close_reason)
                    self._channel.attempt(self._queue, sender.abandon_in_flight)
                elif sender.is_all_sent:
                    self._channel.on_sent(self._queue)
        except ConnectionError:
            self._transport.abort()
        except (TruncatedRegionError, OSError) as error:
            self.drop(str(error))
        if self._pause is not None or sender.parts:
            self._after_send()

    def on_room(self) -> None:
        """Submit the requests that have arrived, and resume reading if nothing prevents it."""
        if self._pause is None or self._state is not _OPEN:
            return
        self._network.memory.stop_waiting(self.on_room)
        self._take_input()

    def keep(self, request: Request) -> None:
        """Copy the body of `request` out of the arena, and charge for it until it is given back.

        Raises:
            ReceiveMemoryExhaustedError: the copy does not fit; the request must be refused.
        """
        memory, size_bytes = self._network.memory, len(request.body)
        memory.keep(size_bytes, BLOCKED_REQUESTS_SHARE)
        request.body = memoryview(bytearray(request.body))
        request.release = lambda: memory.drop(size_bytes)

    def refuse_input(self, reason: str) -> None:
        """Close after the responses to earlier requests; ignore all later input."""
        self._note_dropped(reason)
        self._stop_reading()

    def drop(self, reason: str, *, is_expected: bool = False) -> None:
        """Close at once; unsent responses are lost."""
        if self._state is not _CLOSED:
            self._note_dropped(reason, is_expected=is_expected)
            self._transport.abort()

    # Called by handlers.

    def mute(self, delay_s: float) -> None:
        """Stop reading for `delay_s`, at least. Requests already read are still answered."""
        until_s = self._clock() + delay_s
        if self._move_to(ConnectionState.MUTED):
            self._set_reading()
        elif self._unmuting is None or until_s <= self._muted_until_s:
            return
        else:
            self._unmuting.cancel()
        self._muted_until_s = until_s
        self._unmuting = self._channel.loop.call_later(delay_s, self._unmute)

    def renew(self, expires_at_s: float) -> None:
        """Extend the session."""
        self._expires_at_s = expires_at_s

    # Called by the gate, and by handlers that renew a session.

    @property
    def queue(self) -> ConnectionQueue:
        """Its place in the request channel."""
        return self._queue

    def send_unqueued(self, data: bytes) -> None:
        """Send bytes; no request may be in flight."""
        assert not self._in_flight, "responses leave in the order of their requests"
        if self._state in (_OPEN, ConnectionState.MUTED):
            self._sender.send([data])

    def hold(self) -> None:
        """Read no more, until the connection is closed."""
        if self._unmuting is not None:
            # The connection is muted already, but not for good.
            self._unmuting.cancel()
            self._unmuting = None
        elif self._move_to(ConnectionState.MUTED):
            self._set_reading()

    def admit(
        self, principal: Principal, session: SaslExchange | None, expires_at_s: float
    ) -> None:
        """Serve all requests from now on, for `principal` and up to `expires_at_s`."""
        self.principal, self.session, self._expires_at_s = principal, session, expires_at_s
        self._gate = None
        self._receiver.restrict(None)

    # Called by the socket server.

    def finish(self) -> None:
        """Stop reading, answer the requests already read, then close."""
        if self._move_to(ConnectionState.DRAINING):
            self._stop_reading()

    @property
    def obstacle(self) -> str:
        """A description of the event that the connection waits for before it can close."""
        if self._in_flight and not self._in_flight[0].reply.is_done:
            return f"a response to {self._in_flight[0].header.api_key.name}"
        return "its client to read"

    def abort(self) -> None:
        """Close at once, because the broker stops."""
        self._move_to(ConnectionState.DRAINING)
        self._transport.abort()

    def drop_if_idle(self, max_idle_s: float) -> None:
        """Close if no whole request arrived and no response left within `max_idle_s`.

        Neither part of a request nor a waiting request counts as activity, as the client may be
        gone. A muted client must be silent, but its end is not read either: it is dropped if its
        socket shows that it has gone. Source: Kafka's Selector.
        """
        idle_s = self._clock() - self._last_active_s
        if self._state is ConnectionState.MUTED and not has_gone(self._transport):
            return
        if idle_s > max_idle_s:
            self.drop(f"idle for {idle_s:.3f} s", is_expected=True)

    def drop_if_stalled(self, since_s: float) -> None:
        """Close if a request that is incomplete or waits for a long one holds memory for too long.

        Called while other connections wait for memory, which they have done since `since_s`. A
        client that waits for the broker is not slow, but may not hold memory for as long as its
        quota mutes it.
        """
        receiver, pause = self._receiver, self._reason_to_pause()
        holds_memory = receiver.holds_memory or self._queue.is_parked
        if not holds_memory or pause in WAITS_FOR_BROKER:
            self._progress.reset()
            return
        arrived_bytes = receiver.assembled_bytes
        if pause in PROLONGED_BY_CLIENT:
            self._progress.reset()
            arrived_bytes = 0
        reason = self._progress.check(arrived_bytes, self._clock(), since_s, self._last_active_s)
        if reason is not None:
            self.drop(reason)

    # Input.

    def _pass_gate(self, frames: list[memoryview]) -> None:
        """Hand frames to the gate one by one, until it opens; submit the later ones."""
        receiver = self._receiver
        if frames:
            # Even without a response: the pump ends the use of the arenas.
            self._channel.mark_ready(self._queue)
        while frames and self._gate is not None:
            release = receiver.release_frame
            self._gate.on_frame(frames[0])
            if release is not None:
                release()
            is_next = self._state is _OPEN and self._gate is not None
            frames = receiver.take(1) if is_next else []
        if self._state is not _OPEN:
            return
        if self._gate is None:
            self._take_input()
        elif receiver.failure:
            self.refuse_input(receiver.failure)
        else:
            self._set_reading()

    def _take_input(self) -> None:
        """Submit the requests that have arrived."""
        if self._gate is not None:
            self._pass_gate(self._receiver.take(1))
        elif self._channel.is_open:
            room = self._room()
            self._submit(self._receiver.take(room), room)
        else:
            self._submit_early()

    def _submit(self, frames: list[memoryview], room: int) -> None:
        """Submit the requests in `frames`; stop reading if they used up the `room`."""
        receiver = self._receiver
        if frames:
            now_s = self._last_active_s = self._clock()
            requests: list[Request] = []
            failure, release, queue = "", receiver.release_frame, self._queue
            is_expired = now_s >= self._expires_at_s
            try:
                for frame in frames:
                    header, body_start = decode_request_header(frame)
                    if is_expired and header.api_key not in RENEWAL_APIS:
                        raise DecodeError("the session has expired")
                    requests.append(Request(queue, header, frame[body_start:], now_s, release))
            except DecodeError as error:
                failure = str(error)
                if release is not None:
                    release()
            self._in_flight.extend(requests)
            self._channel.submit(requests)
            if failure:
                self.refuse_input(failure)
        if receiver.failure:
            self.refuse_input(receiver.failure)
        if self._pause is not None or len(frames) >= room or receiver.wanted_bytes:
            self._set_reading()

    def _submit_early(self) -> None:
        """Submit early requests, up to the first one that must wait until the channel is open.

        Requests that wait are kept outside the arenas, which other connections use meanwhile.
        """
        while self._receiver.next_api_key in EARLY_APIS:
            room = self._room()
            frames = self._receiver.take(min(room, 1))
            self._submit(frames, room)
            if not frames:
                return
        self._set_reading()

    @property
    def _is_early(self) -> bool:
        """Whether the next request must wait until the channel is open."""
        if self._channel.is_open or self._gate is not None:
            return False
        api_key = self._receiver.next_api_key
        return api_key is not None and api_key not in EARLY_APIS

    def _room(self) -> int:
        """Return the number of requests that may be submitted; 0 while the client does not read."""
        is_blocked = self._sender.is_blocked or self._queue.stops_reading
        if is_blocked or self._state is not _OPEN:
            return 0
        in_flight = self._in_flight
        is_many = len(in_flight) > MAX_LARGE_IN_FLIGHT
        if is_many and sum([each.size_bytes for each in in_flight]) > MAX_IN_FLIGHT_BYTES:
            return 0
        own = self._max_in_flight - len(in_flight)
        is_counted = not (self._queue.is_control_plane or self._queue.is_parked)
        return min(own, self._channel.free_count) if is_counted else own

    def _reason_to_pause(self) -> Pause | None:
        return reason_to_pause(
            self._state,
            self._room(),
            needs_memory=self._receiver.wanted_bytes > 0,
            is_early=self._is_early,
            is_blocked=self._queue.stops_reading,
            is_channel_full=self._channel.free_count <= 0,
            is_client_slow=self._sender.is_blocked,
        )

    def _set_reading(self) -> None:
        """Pause or resume reading, and register for the event that ends the pause."""
        was_paused = self._pause is not None
        pause = self._pause = self._reason_to_pause()
        if pause is None:
            if was_paused:
                self._transport.resume_reading()
            return
        if not was_paused:
            self._metrics.read_pauses += 1
            self._transport.pause_reading()
        if pause is Pause.MEMORY:
            self._receiver.wait_for_memory(self.on_room)
        elif pause is Pause.OPENING:
            self._channel.wait_for_opening(self._queue)
        elif pause is Pause.CHANNEL:
            self._channel.wait_for_room(self._queue)

    def _unmute(self) -> None:
        self._unmuting = None
        if self._move_to(ConnectionState.OPEN):
            self.on_room()

    def _stop_reading(self) -> None:
        """Close once the responses to the submitted requests are sent."""
        self._drop_input()
        self._set_reading()
        self._channel.mark_ready(self._queue)

    def _drop_input(self) -> None:
        self._network.memory.stop_waiting(self.on_room)
        self._receiver.close()

    # Output.

    def _after_send(self) -> None:
        if self._sender.parts:
            if not self._sender.is_blocked:
                self._channel.mark_ready(self._queue)
        elif self._pause is Pause.ENDING and not self._in_flight:
            self._transport.close()
        self.on_room()

    def _note_dropped(self, reason: str, *, is_expected: bool = False) -> None:
        if not self._move_to(ConnectionState.DROPPED):
            return
        self._metrics.connections_dropped += 1
        log.log(
            logging.INFO if is_expected else logging.WARNING,
            "connection.dropped",
            listener_name=self.listener_name,
            client_host=self.client_host,
            reason=reason,
        )

"""One connection: requests in, responses out (edge).

The processor parses frames in place and submits them to the request channel, several at a time. It
sends responses in request order; one write per turn of the loop holds all complete ones.

Invariants: at most `max_in_flight_requests_per_connection` requests are in flight. The processor
does not read while this limit or that of large requests is reached, while the channel or the
receive memory is full, or while the client does not read its responses. After `connection_lost` it
holds nothing, and pending replies are cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, cast

import structlog

from broker.network.buffer_pool import BufferPool
from broker.network.file_range import TruncatedRegionError
from broker.network.frame_receiver import FrameReceiver
from broker.network.limits import NetworkLimits
from broker.network.metrics import NetworkMetrics
from broker.network.receive_memory import ReceiveMemory
from broker.network.request import ANONYMOUS, NOT_HANDLED, Request
from broker.network.request_channel import EARLY_APIS, RequestChannel
from broker.network.response import ResponseBatch
from broker.network.response_sender import ReadAhead, ResponseSender
from kafkawire.errors import DecodeError
from kafkawire.native import decode_request_header
from kafkawire.units import KIB, MIB

# With more than `MAX_LARGE_IN_FLIGHT` requests in flight, the processor stops reading while their
# total size exceeds `MAX_IN_FLIGHT_BYTES`: decoded requests and unsent responses take several times
# as much memory.
MAX_LARGE_IN_FLIGHT: Final = 8
MAX_IN_FLIGHT_BYTES: Final = 4 * MIB
# While other connections wait for memory, a large request must grow by `MIN_PROGRESS_BYTES` within
# `MAX_STALL_S`, and a small one must be complete within `MAX_KEPT_S`.
MIN_PROGRESS_BYTES: Final = 16 * KIB
MAX_STALL_S: Final = 2.0
MAX_KEPT_S: Final = 30.0

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

    __slots__ = (
        "_channel",
        "_clock",
        "_in_flight",
        "_is_finishing",
        "_is_muted",
        "_is_noted",
        "_is_open",
        "_is_paused",
        "_max_in_flight",
        "_metrics",
        "_network",
        "_owner",
        "_progress_at_s",
        "_progress_bytes",
        "_queue",
        "_receiver",
        "_sender",
        "_transport",
        "client_host",
        "last_active_s",
        "listener_name",
        "number",
        "user_name",
    )

    def __init__(
        self, network: Network, owner: ConnectionOwner, listener_name: str, is_control_plane: bool
    ) -> None:
        limits = network.limits
        self.listener_name = listener_name
        self.client_host = ""
        self.user_name = ANONYMOUS
        self.number = 0
        self.last_active_s = network.clock()
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
        self._is_open = False
        self._is_finishing = False
        self._is_paused = False
        self._is_muted = False
        self._is_noted = False
        # Progress of an arriving large request: its size at the last check, and the time of it.
        self._progress_bytes = 0
        self._progress_at_s = -1.0
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
            self._metrics.connections_refused += 1
            log.warning("connection.refused", client_host=self.client_host, reason=refusal)
            self._transport.abort()
            return
        self._is_open = True
        self._metrics.connections_accepted += 1
        self.number = self._metrics.connections_accepted
        self._metrics.connections_open += 1
        self._sender = ResponseSender(
            self._transport, self._metrics, self._network.read_ahead, self._queue.wake
        )
        self._sender.start()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Return the buffer for the next read."""
        return self._receiver.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Submit the requests read."""
        self._metrics.bytes_in += nbytes
        if self._channel.is_open:
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
        if not self._is_open:
            return
        self._is_open = False
        self._is_finishing = True
        self._metrics.connections_open -= 1
        self._network.memory.stop_waiting(self._resume_reading)
        self._receiver.close()
        self._sender.close()
        self._channel.close(self._queue)
        self._channel.attempt(self._queue, self._abandon_in_flight)
        self._owner.on_closed(self)

    # Called by the request channel.

    def send_ready(self) -> None:
        """Send complete responses, as far as the socket takes them, and resume reading."""
        if not self._is_open:
            return
        try:
            if self._sender.parts:
                self._sender.advance()
            if not self._sender.parts and not self._sender.is_blocked:
                self._send_done()
        except ConnectionError:
            self._transport.abort()
        except (TruncatedRegionError, OSError) as error:
            self.drop(str(error))
        if self._is_paused or self._is_finishing or self._sender.parts:
            self._after_send()

    def on_room(self) -> None:
        """Resume submitting: the channel has room again."""
        self._resume_reading()

    def drop(self, reason: str, *, is_expected: bool = False) -> None:
        """Close at once; unsent responses are lost."""
        if self._is_open:
            self._note_dropped(reason, is_expected=is_expected)
            self._is_finishing = True
            self._transport.abort()

    # Called by handlers.

    def mute(self, delay_s: float) -> None:
        """Stop reading for `delay_s`. Requests already read are still answered."""
        if self._is_open and not self._is_muted:
            self._is_muted = True
            self._set_reading()
            self._channel.loop.call_later(delay_s, self._unmute)

    # Called by the socket server.

    def finish(self) -> None:
        """Stop reading, answer the requests already read, then close."""
        self._is_finishing = True
        if self._is_open:
            self._set_reading()
            self._channel.mark_ready(self._queue)

    @property
    def obstacle(self) -> str:
        """A description of the event that the connection waits for before it can close."""
        if self._in_flight and not self._in_flight[0].reply.is_done:
            return f"a response to {self._in_flight[0].header.api_key.name}"
        return "its client to read"

    def abort(self) -> None:
        """Close at once, because the broker stops."""
        self._is_finishing = True
        self._transport.abort()

    def drop_if_idle(self, max_idle_s: float) -> None:
        """Close if no whole request arrived and no response left within `max_idle_s`.

        Neither part of a request nor a waiting request counts as activity, as the client may be
        gone. Source: Kafka's Selector.
        """
        idle_s = self._clock() - self.last_active_s
        if idle_s > max_idle_s and not self._is_muted:
            self.drop(f"idle for {idle_s:.3f} s", is_expected=True)

    def drop_if_stalled(self, since_s: float) -> None:
        """Close if an incomplete request holds memory without progress.

        Called while other connections wait for memory, which they have done since `since_s`. A
        client that waits for the broker is not slow.
        """
        now_s, receiver = self._clock(), self._receiver
        arrived_bytes = receiver.assembled_bytes
        if self._waits_for_us or not receiver.holds_memory:
            self._progress_at_s = -1.0
        elif not arrived_bytes:
            if now_s - max(self.last_active_s, since_s) > MAX_KEPT_S:
                self.drop(f"incomplete request for {MAX_KEPT_S} s while memory is short")
        elif (
            self._progress_at_s < since_s
            or not 0 <= arrived_bytes - self._progress_bytes < MIN_PROGRESS_BYTES
        ):
            self._progress_at_s, self._progress_bytes = now_s, arrived_bytes
        elif now_s - self._progress_at_s > MAX_STALL_S:
            self.drop(f"{arrived_bytes} bytes of a request stalled while memory is short")

    @property
    def _waits_for_us(self) -> bool:
        """Whether reading is paused for a reason on the broker's side."""
        is_held = self._is_muted or self._is_early or self._queue.blocking_reply is not None
        return is_held or bool(self._receiver.wanted_bytes) or self._channel.free_count <= 0

    # Input.

    def _submit(self, frames: list[memoryview], room: int) -> None:
        """Submit the requests in `frames`; stop reading if they used up the `room`."""
        receiver = self._receiver
        if frames:
            now_s = self.last_active_s = self._clock()
            requests: list[Request] = []
            failure, release, queue = "", receiver.release_frame, self._queue
            try:
                for frame in frames:
                    header, body_start = decode_request_header(frame)
                    requests.append(Request(queue, header, frame[body_start:], now_s, release))
            except DecodeError as error:
                failure = str(error)
                if release is not None:
                    release()
            self._in_flight.extend(requests)
            self._channel.submit(requests)
            if failure:
                self._refuse_input(failure)
        if receiver.failure:
            self._refuse_input(receiver.failure)
        if self._is_paused or len(frames) >= room or receiver.wanted_bytes:
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
        if self._channel.is_open:
            return False
        api_key = self._receiver.next_api_key
        return api_key is not None and api_key not in EARLY_APIS

    def _room(self) -> int:
        """Return the number of requests that may be submitted; 0 while the client does not read."""
        if self._is_finishing or self._is_muted or self._sender.is_blocked:
            return 0
        if self._queue.blocking_reply is not None:
            return 0
        own = self._max_in_flight - len(self._in_flight)
        if own < self._max_in_flight - MAX_LARGE_IN_FLIGHT and self._is_large:
            return 0
        return own if self._queue.is_control_plane else min(own, self._channel.free_count)

    @property
    def _is_large(self) -> bool:
        """Whether the total size of the requests in flight is large."""
        return sum([each.size_bytes for each in self._in_flight]) > MAX_IN_FLIGHT_BYTES

    def _refuse_input(self, reason: str) -> None:
        """Close after the responses to earlier requests; ignore all later input."""
        self._note_dropped(reason)
        self._receiver.close()
        self.finish()

    def _set_reading(self) -> None:
        """Pause or resume reading, and register for the event that may change this decision."""
        wanted_bytes, is_early = self._receiver.wanted_bytes, self._is_early
        may_read = self._room() > 0 and not wanted_bytes and not is_early
        if may_read and self._is_paused:
            self._transport.resume_reading()
        elif not may_read and not self._is_paused:
            self._metrics.read_pauses += 1
            self._transport.pause_reading()
        self._is_paused = not may_read
        if wanted_bytes:
            self._receiver.wait_for_memory(self._resume_reading)
        if is_early:
            self._channel.wait_for_opening(self._queue)
        elif self._channel.free_count <= 0:
            self._channel.wait_for_room(self._queue)

    def _unmute(self) -> None:
        self._is_muted = False
        self._resume_reading()

    def _resume_reading(self) -> None:
        if not self._is_open or not self._is_paused or self._is_finishing:
            return
        self._network.memory.stop_waiting(self._resume_reading)
        if self._channel.is_open:
            room = self._room()
            self._submit(self._receiver.take(room), room)
        else:
            self._submit_early()

    # Output.

    def _send_done(self) -> None:
        """Send the next batch of complete responses."""
        now_s = self.last_active_s = self._clock()
        batch = ResponseBatch(self._in_flight, self._metrics, now_s)
        if batch.close_reason is not None:
            self._stop_responding(batch.close_reason)
        if batch.has_regions:
            self._sender.send(batch.parts)
        elif batch.parts:
            # The common case: the transport holds no unsent bytes.
            self._metrics.bytes_out += batch.size_bytes
            self._transport.write(b"".join(batch.parts))  # type: ignore[arg-type]
        if batch.is_full:
            self._channel.mark_ready(self._queue)

    def _stop_responding(self, reason: str) -> None:
        """Close once the earlier responses are sent; cancel all later replies."""
        self._note_dropped(reason)
        self._is_finishing = True
        self._set_reading()
        self._channel.attempt(self._queue, self._abandon_in_flight)

    def _after_send(self) -> None:
        if self._sender.parts:
            if not self._sender.is_blocked:
                self._channel.mark_ready(self._queue)
        elif self._is_finishing and not self._in_flight:
            self._transport.close()
        self._resume_reading()

    def _abandon_in_flight(self) -> None:
        """Cancel the replies to all requests in flight."""
        while self._in_flight:
            reply = self._in_flight.popleft().reply
            if reply is not NOT_HANDLED:
                reply.cancel()

    def _note_dropped(self, reason: str, *, is_expected: bool = False) -> None:
        if self._is_noted:
            return
        self._is_noted = True
        self._metrics.connections_dropped += 1
        log.log(
            logging.INFO if is_expected else logging.WARNING,
            "connection.dropped",
            listener_name=self.listener_name,
            client_host=self.client_host,
            reason=reason,
        )

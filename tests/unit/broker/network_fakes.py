"""A loop, a socket and a client in memory, for tests of the network layer."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from broker.network.buffer_pool import BufferPool
from broker.network.connection_gate import NO_SECURITY, ListenerSecurity
from broker.network.limits import NetworkLimits
from broker.network.processor import Network, Processor
from broker.network.receive_memory import ReceiveMemory
from broker.network.reply import EncodedMessage, Reply
from broker.network.request import Request
from broker.network.request_channel import RequestChannel
from kafkawire.apis import ApiKey
from kafkawire.headers import RequestHeader

PRODUCE_VERSION = 7
PEER = ("10.0.0.1", 4000)
TURNS_LIMIT = 10_000


def request_frame(correlation_id: int, body: bytes = b"", api_key: int = ApiKey.PRODUCE) -> bytes:
    """Return a request as sent by a client, including its size field."""
    head = struct.pack(">hhih", api_key, PRODUCE_VERSION, correlation_id, 2) + b"me"
    return struct.pack(">i", len(head) + len(body)) + head + body


def split_responses(data: bytes) -> list[tuple[int, bytes]]:
    """Return correlation id and body of each response in `data`, which must hold whole ones."""
    answers = []
    while data:
        size, correlation_id = struct.unpack_from(">ii", data)
        assert len(data) >= 4 + size, "the last response is cut off"
        answers.append((correlation_id, data[8 : 4 + size]))
        data = data[4 + size :]
    return answers


def make_request(queue: Any, correlation_id: int = 0, api_key: int = 0) -> Request:
    """Return a request without a body."""
    header = RequestHeader(ApiKey(api_key), PRODUCE_VERSION, correlation_id, "me")
    return Request(queue, header, memoryview(b""), 0.0)


@dataclass
class FakeTimer:
    """A callback for later."""

    at_s: float
    callback: Callable[..., object]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeLoop:
    """Runs callbacks in scheduling order; time advances only in `pass_time`."""

    def __init__(self) -> None:
        self._timers: list[FakeTimer] = []
        self.now_s = 100.0
        self._soon: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()

    def time(self) -> float:
        return self.now_s

    def call_soon(self, callback: Callable[..., object], *arguments: object) -> None:
        self._soon.append((callback, arguments))

    def call_later(self, delay_s: float, callback: Callable[..., object]) -> FakeTimer:
        """Keep `callback` for `pass_time`."""
        timer = FakeTimer(self.now_s + delay_s, callback)
        self._timers.append(timer)
        return timer

    @property
    def pending_timers(self) -> list[FakeTimer]:
        return [each for each in self._timers if not each.is_cancelled]

    def pass_time(self, seconds: float) -> None:
        """Advance the time, and run the timers that expire."""
        self.now_s += seconds
        due = [each for each in self._timers if each.at_s <= self.now_s]
        self._timers = [each for each in self._timers if each.at_s > self.now_s]
        for timer in due:
            if not timer.is_cancelled:
                timer.callback()
        self.run()

    def run_turn(self) -> None:
        """Run the callbacks scheduled so far, but none that they schedule."""
        for _ in range(len(self._soon)):
            callback, arguments = self._soon.popleft()
            callback(*arguments)

    def run(self) -> None:
        """Run until nothing is scheduled."""
        for _ in range(TURNS_LIMIT):
            if not self._soon:
                return
            self.run_turn()
        raise AssertionError("the loop never becomes idle")

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        return cast(asyncio.AbstractEventLoop, self)


class FakeTransport:
    """A socket that takes `room` bytes and holds the remainder until it is drained."""

    def __init__(self, loop: FakeLoop, peer: tuple[str, int] | None = PEER) -> None:
        self.room = 1 << 30
        self.sent = bytearray()
        self.write_count = 0
        self.is_reading = True
        self.is_closing = False
        self._held = b""
        self._loop = loop
        self._peer = peer
        self._has_limits = False
        self.protocol: Processor | None = None

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._peer if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert (high, low) == (0, 0), "any other limits hide a full socket"
        self._has_limits = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert self._has_limits
        if self.is_closing:
            return
        assert not self._held, "written to a transport that holds unsent bytes"
        self.write_count += 1
        self._held = bytes(data)
        self._flush()
        if self._held:
            assert self.protocol is not None
            self.protocol.pause_writing()

    def drain(self, room: int = 1 << 30) -> None:
        """Simulate a read of the client: take up to `room` more bytes."""
        self.room = room
        was_held = bool(self._held)
        self._flush()
        if was_held and not self._held:
            assert self.protocol is not None
            self.protocol.resume_writing()

    @property
    def held_bytes(self) -> int:
        return len(self._held)

    def _flush(self) -> None:
        taken = min(self.room, len(self._held))
        self.sent += self._held[:taken]
        self._held = self._held[taken:]
        self.room -= taken

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def abort(self) -> None:
        self._lose()

    def close(self) -> None:
        if not self._held:
            self._lose()

    def _lose(self) -> None:
        if not self.is_closing:
            self.is_closing = True
            assert self.protocol is not None
            self._loop.call_soon(self.protocol.connection_lost, None)


class FakeOwner:
    """The list of connections."""

    def __init__(self) -> None:
        self.connections: list[Processor] = []
        self.refusal: str | None = None

    def on_opened(self, connection: Processor) -> str | None:
        if self.refusal is None:
            self.connections.append(connection)
        return self.refusal

    def on_closed(self, connection: Processor) -> None:
        self.connections.remove(connection)


@dataclass
class Client:
    """The other end of one connection."""

    processor: Processor
    transport: FakeTransport

    def send(self, data: bytes, chunk_bytes: int = 1 << 30) -> int:
        """Deliver bytes like the loop, in reads of `chunk_bytes`, while the broker reads.

        Returns the number of delivered bytes.
        """
        taken = 0
        while taken < len(data) and self.transport.is_reading and not self.transport.is_closing:
            buffer = memoryview(self.processor.get_buffer(-1))
            assert len(buffer) > 0, "an empty buffer makes uvloop drop the connection"
            count = min(len(buffer), chunk_bytes, len(data) - taken)
            buffer[:count] = data[taken : taken + count]
            buffer.release()
            self.processor.buffer_updated(count)
            taken += count
        return taken

    @property
    def responses(self) -> list[tuple[int, bytes]]:
        return split_responses(bytes(self.transport.sent))


class World:
    """A request channel and its connections; the default handler echoes the body."""

    def __init__(
        self,
        limits: NetworkLimits | None = None,
        handle: Callable[[Request], Reply] | None = None,
        *,
        is_open: bool = True,
    ) -> None:
        self.limits = limits or NetworkLimits()
        self.loop = FakeLoop()
        self.owner = FakeOwner()
        self.handled: list[int] = []
        self._handle = handle or (lambda request: Reply(EncodedMessage(bytes(request.body))))
        self.channel = RequestChannel(
            self.loop.as_loop, self._note_and_handle, self.limits, is_open=is_open
        )
        self.pool = BufferPool()
        self.memory = ReceiveMemory(self.limits.receive_memory_bytes)
        self.memory.call_when_wakeable(lambda: self.loop.call_soon(self.memory.wake))
        self.channel.on_arenas_unused(self._recycle)
        self.network = Network(
            channel=self.channel,
            pool=self.pool,
            memory=self.memory,
            limits=self.limits,
            metrics=self.channel.metrics,
            clock=self.loop.time,
            read_ahead=self._read_ahead,
        )

    def connect(
        self,
        *,
        is_control_plane: bool = False,
        security: ListenerSecurity = NO_SECURITY,
        peer: tuple[str, int] | None = PEER,
    ) -> Client:
        processor = Processor(
            self.network,
            self.owner,
            "PLAINTEXT",
            is_control_plane=is_control_plane,
            security=security,
        )
        transport = FakeTransport(self.loop, peer)
        transport.protocol = processor
        processor.connection_made(cast(asyncio.BaseTransport, transport))
        return Client(processor, transport)

    def _recycle(self) -> None:
        """Overwrite recycled bytes, so that any later use of them fails a test."""
        for arena in (self.pool._arena, *self.pool._full):
            arena.view[: arena.position] = b"\xdd" * arena.position
        self.pool.recycle()

    def _read_ahead(self, read: Callable[[], None], on_end: Callable[[], None]) -> None:
        read()
        self.loop.call_soon(on_end)

    def _note_and_handle(self, request: Request) -> Reply:
        self.handled.append(request.header.correlation_id)
        return self._handle(request)


@contextlib.contextmanager
def nothing_left(world: World) -> Any:
    """Check that no memory is held after all connections are closed."""
    yield
    world.loop.run()
    assert world.owner.connections == []
    assert (world.memory.reserved_bytes, world.memory.kept_bytes) == (0, 0)
    assert not world.memory.is_contended

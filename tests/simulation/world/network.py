"""The network of a simulated world: named hosts, and TCP connections between them.

A connection delivers bytes in order, in pieces of any size, after a latency. A blocked route loses
packets, which are sent again until it is open. Each direction holds `WINDOW_BYTES` on the way and
in the receiver's socket, so that a slow reader fills the sender's buffer. The end of a process
resets its connections. The loss of a host closes none, but a listener that keeps its connections
alive loses them later.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final

from kafkawire.units import KIB
from ottla.client.network.broker_connection import Connection as ClientConnection
from tests.simulation.world.process import PROCESS, Process, current_host

if TYPE_CHECKING:
    from tests.simulation.world.loop import WorldLoop

LATENCY_S: Final = (0.0001, 0.003)
RETRANSMIT_S: Final = 0.05
WINDOW_BYTES: Final = 256 * KIB
CONNECT_TIMEOUT_S: Final = 127.0
"""As of Linux, with its six retries."""


class Network:
    """The hosts, their listeners and connections, and the state of the routes between them."""

    def __init__(self, loop: WorldLoop) -> None:
        self.loop = loop
        self.blocked: set[tuple[str, str]] = set()
        """Routes, from host to host, that lose every packet."""
        self.dark: set[str] = set()
        """Hosts without power."""
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.ends: list[End] = []
        self._addresses: dict[str, str] = {}

    def address_of(self, host: str) -> str:
        """Return the IP address of a host."""
        if host[0].isdigit():
            return host
        return self._addresses.setdefault(host, f"10.0.0.{len(self._addresses) + 1}")

    def add_name(self, name: str, host: str) -> None:
        """Let another name mean a host, too."""
        self._addresses[name] = self.address_of(host)

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> Listener:
        """Listen on a host; `host` must be that of the process."""
        key = (self.address_of(host or current_host()), port)
        if key in self.listeners:
            raise OSError(98, f"{host}:{port} is in use")
        self.listeners[key] = listener = Listener(self, key, factory)
        return listener

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[End, Any]:
        """Connect to a host, from that of the process."""
        key, source = (self.address_of(host), port), current_host()
        target = self.name_of(key[0])
        give_up_s = self.loop.time() + CONNECT_TIMEOUT_S
        await asyncio.sleep(self.latency_s())
        while self.is_blocked(source, target) or self.is_blocked(target, source):
            if self.loop.time() > give_up_s:
                raise TimeoutError(110, "connection timed out")
            await asyncio.sleep(RETRANSMIT_S)
        listener = self.listeners.get(key)
        if listener is None or (listener.process is not None and listener.process.is_dead):
            raise ConnectionRefusedError(111, f"{host}:{port} refused the connection")
        client = End(self, source, copy_context())
        server = End(self, target, listener.context)
        server.keepalive_s = listener.keepalive_s
        client.peer, server.peer = server, client
        self.ends = [end for end in self.ends if not end.is_over]
        self.ends += [client, server]
        # A paused process has connections that it has not accepted yet.
        self.loop.call_soon(server.open, listener.factory, context=server.context)
        client.open(factory)
        return client, client.protocol

    def name_of(self, address: str) -> str:
        """Return the host with an IP address."""
        return next(name for name, each in self._addresses.items() if each == address)

    def is_blocked(self, source: str, target: str) -> bool:
        """Whether packets from `source` to `target` are lost."""
        return (source, target) in self.blocked or not self.dark.isdisjoint((source, target))

    def latency_s(self) -> float:
        """Draw the latency of a packet."""
        return self.loop.chance.uniform(*LATENCY_S)

    def on_death(self, process: Process) -> None:
        """Close the listeners and reset the connections of a process that was killed."""
        for end in self._close_of(process):
            end.die()

    def on_power_lost(self, process: Process) -> None:
        """Forget the listeners and connections of a host; its peers do not notice."""
        self.dark.add(process.host)
        for end in self._close_of(process):
            end.vanish()
            if end.peer is not None and end.peer.keepalive_s is not None:
                error = TimeoutError(110, "connection timed out")
                self.loop.call_later(end.peer.keepalive_s, end.peer.lose, error, context=_NOBODY)

    def _close_of(self, process: Process) -> list[End]:
        for key, listener in list(self.listeners.items()):
            if listener.process is process:
                del self.listeners[key]
        return [end for end in self.ends if end.context.get(PROCESS) is process]

    def reset_one(self) -> bool:
        """Reset one connection; return False if there is none."""
        self.ends = [end for end in self.ends if not end.is_over]
        if not self.ends:
            return False
        end = self.loop.chance.choice(self.ends)
        for each in (end, end.peer):
            if each is not None:
                each.lose(ConnectionResetError(104, "connection reset by peer"))
        return True


class Listener:
    """The result of `create_server`, and its only socket."""

    def __init__(self, network: Network, key: tuple[str, int], factory: Callable[[], Any]) -> None:
        self.factory = factory
        self.process = PROCESS.get()
        self.context = copy_context()
        self.sockets = [self]
        self.keepalive_s: int | None = None
        """Time after which a connection to a lost host ends; None if it never does."""
        self._network = network
        self._key = key

    def getsockname(self) -> tuple[str, int]:
        return self._key

    def setsockopt(self, level: int, option: int, value: int) -> None:
        if (level, option) == (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE):
            self.keepalive_s = value

    async def start_serving(self) -> None:
        pass

    def close(self) -> None:
        if self._network.listeners.get(self._key) is self:
            del self._network.listeners[self._key]

    async def wait_closed(self) -> None:
        pass


class End(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, host: str, context: Context) -> None:
        super().__init__()
        self.host = host
        self.context = context
        self.peer: End | None = None
        self.keepalive_s: int | None = None
        self.protocol: Any = None
        self._network = network
        self._buffer: deque[bytes] = deque()
        self._buffer_bytes = 0
        self._on_the_way_bytes = 0
        self._unread: deque[bytes] = deque()
        self._is_reading = True
        self._is_closing = False
        self._is_lost = False
        self._has_sent_end = False
        self._has_peer_ended = False
        self._is_full = False
        self._high_bytes = 64 * KIB
        self._low_bytes = 16 * KIB
        self._arrives_s = 0.0
        self._packets: deque[tuple[float, Callable[..., None], tuple[Any, ...]]] = deque()

    @property
    def is_over(self) -> bool:
        """Whether the connection has ended at this end."""
        return self._is_lost

    def open(self, factory: Callable[[], Any]) -> None:
        """Make the protocol, and pass on earlier data."""
        self.protocol = factory()
        if self._is_lost:
            return
        self.protocol.connection_made(self)
        self._read()

    # The transport.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername" and self.peer is not None:
            return (self._network.address_of(self.peer.host), 40_000)
        if name == "sockname":
            return (self._network.address_of(self.host), 40_000)
        if name == "socket" and isinstance(self.protocol, ClientConnection):
            # The others use a socket for more than its options.
            return self
        return default

    def setsockopt(self, level: int, option: int, value: int) -> None:
        if (level, option) == (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE):
            self.keepalive_s = value

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is not None:
            self._high_bytes = high
            self._low_bytes = high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._buffer_bytes

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._soon(self._read)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self._is_closing or not data:
            return
        self._buffer.append(bytes(data))
        self._buffer_bytes += len(data)
        self._send()
        if self._buffer_bytes > self._high_bytes and not self._is_full:
            self._is_full = True
            self.protocol.pause_writing()

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._send()

    def abort(self) -> None:
        if not self._is_lost:
            self.lose(None)
            self._later(self._on_reset)

    # The network.

    def lose(self, error: Exception | None) -> None:
        """End the connection at this end."""
        if self._is_lost:
            return
        self._is_closing = self._is_lost = True
        self._buffer.clear()
        self._buffer_bytes = 0
        if self.protocol is not None:
            self._soon(self.protocol.connection_lost, error)

    def die(self) -> None:
        """End with the process: the host's system resets the connection."""
        self._is_closing = self._is_lost = True
        self._later(self._on_reset)

    def vanish(self) -> None:
        """End with the host, which sends nothing more."""
        self._is_closing = self._is_lost = True
        self._packets.clear()

    def _send(self) -> None:
        """Send until the window is full."""
        while self._buffer and self._on_the_way_bytes < WINDOW_BYTES and not self._is_lost:
            data = self._buffer.popleft()
            self._buffer_bytes -= len(data)
            while data:
                piece, data = self._cut(data)
                self._on_the_way_bytes += len(piece)
                self._later(self._on_data, piece)
        if self._is_full and self._buffer_bytes <= self._low_bytes:
            self._is_full = False
            self._soon(self.protocol.resume_writing)
        if self._is_closing and not self._buffer and not self._has_sent_end:
            self._has_sent_end = True
            self._later(self._on_end)
            self.lose(None)

    def _cut(self, data: bytes) -> tuple[bytes, bytes]:
        chance = self._network.loop.chance
        if len(data) > 1 and chance.random() < 0.1:
            at = chance.randrange(1, len(data))
            return data[:at], data[at:]
        return data, b""

    def _later(self, call: Callable[..., None], *arguments: Any) -> None:
        """Send a packet: `call` runs when it arrives at the peer, after all earlier packets."""
        network = self._network
        self._arrives_s = max(self._arrives_s, network.loop.time() + network.latency_s())
        self._packets.append((self._arrives_s, call, arguments))
        if len(self._packets) == 1:
            network.loop.call_at(self._arrives_s, self._arrive, context=_NOBODY)

    def _arrive(self) -> None:
        """Deliver the packets that are due, or try again later if the route loses them."""
        network = self._network
        now_s = network.loop.time()
        assert self.peer is not None
        if network.is_blocked(self.host, self.peer.host):
            network.loop.call_at(now_s + RETRANSMIT_S, self._arrive, context=_NOBODY)
            return
        while self._packets and self._packets[0][0] <= now_s:
            _, call, arguments = self._packets.popleft()
            call(*arguments)
        if self._packets:
            network.loop.call_at(self._packets[0][0], self._arrive, context=_NOBODY)

    # Arrivals at the peer; these are called on the sending end.

    def _on_data(self, data: bytes) -> None:
        peer = self.peer
        assert peer is not None
        if peer._is_lost:
            self._soon(self.lose, ConnectionResetError(104, "connection reset by peer"))
            return
        peer._unread.append(data)
        peer._soon(peer._read)

    def _on_end(self) -> None:
        peer = self.peer
        assert peer is not None
        peer._has_peer_ended = True
        peer._soon(peer._read)

    def _on_reset(self) -> None:
        peer = self.peer
        assert peer is not None
        peer._unread.clear()
        peer.lose(ConnectionResetError(104, "connection reset by peer"))

    def _read(self) -> None:
        """Give the data that has arrived to the protocol."""
        while self._unread and self._is_reading and not self._is_lost and self.protocol is not None:
            data = self._unread.popleft()
            count = self._give(data)
            if count < len(data):
                self._unread.appendleft(data[count:])
            if self.peer is not None:
                self.peer._on_the_way_bytes -= count
                self.peer._soon(self.peer._send)
        is_at_end = self._has_peer_ended and not self._unread
        if is_at_end and not self._is_closing and self._is_reading and self.protocol is not None:
            self._has_peer_ended = False
            if not self.protocol.eof_received():
                self.close()

    def _give(self, data: bytes) -> int:
        if isinstance(self.protocol, asyncio.BufferedProtocol):
            room = memoryview(self.protocol.get_buffer(-1))
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self.protocol.buffer_updated(count)
            return count
        self.protocol.data_received(data)
        return len(data)

    def _soon(self, call: Callable[..., None], *arguments: Any) -> None:
        self._network.loop.call_soon(call, *arguments, context=self.context)


_NOBODY: Final = Context()
"""Packets on the way belong to no process."""

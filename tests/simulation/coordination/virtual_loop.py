"""An event loop with virtual time and a network in memory, in one thread.

When no callback is ready, time jumps to the next timer. Connections deliver in order after a
latency, and can be reset. A host can become unreachable without notification.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

LATENCY_S: Final = (0.0001, 0.003)
RETRANSMIT_S: Final = 0.05


class VirtualLoop(asyncio.BaseEventLoop):
    """Event loop with virtual time; raises RuntimeError on a deadlock."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.network = Network(self)
        self._now_s = 1000.0
        self._selector = self

    def time(self) -> float:
        return self._now_s

    # BaseEventLoop calls its selector to wait; here waiting only advances the time.
    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("deadlock: nothing is ready and no timer is set")
        self._now_s += timeout
        return []

    def _process_events(self, _events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    async def create_server(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        return self.network.listen(factory, f"{host}:{port}")

    async def create_connection(  # type: ignore[override]
        self, factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        return await self.network.connect(factory, f"{host}:{port}")


class Listener:
    """Result of `create_server`."""

    def __init__(self, network: Network, address: str) -> None:
        self._network = network
        self._address = address
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        host, _, port = self._address.rpartition(":")
        return host, int(port)

    def close(self) -> None:
        self._network.factories.pop(self._address, None)


class Network:
    """Listening addresses, and the connections to them."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.factories: dict[str, Callable[[], asyncio.Protocol]] = {}
        self.unreachable: set[str] = set()
        self.pairs: list[tuple[MemoryTransport, MemoryTransport]] = []
        self.cut_count = 0

    def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        self.factories[address] = factory
        return Listener(self, address)

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], address: str
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        await asyncio.sleep(self.latency_s())
        if address in self.unreachable:
            # The packet is lost: only the caller's own timeout ends this wait.
            await asyncio.Event().wait()
        if address not in self.factories:
            raise ConnectionRefusedError(address)
        client = MemoryTransport(self, factory(), address)
        server = MemoryTransport(self, self.factories[address](), address)
        client.peer, server.peer = server, client
        self.pairs.append((client, server))
        server.protocol.connection_made(server)
        client.protocol.connection_made(client)
        return client, client.protocol

    def latency_s(self) -> float:
        return self.loop.chance.uniform(*LATENCY_S)

    def cut_one(self) -> None:
        """Reset one connection, if there is one."""
        self.pairs = [pair for pair in self.pairs if not pair[0].is_closing()]
        if self.pairs:
            self.cut_count += 1
            for end in self.loop.chance.choice(self.pairs):
                end.abort()

    def cut_all(self) -> None:
        """Reset every connection, as after the death of a process."""
        for pair in self.pairs:
            for end in pair:
                end.abort()
        self.pairs = []


class MemoryTransport(asyncio.Transport):
    """Transport of one end of a connection."""

    def __init__(self, network: Network, protocol: asyncio.Protocol, address: str) -> None:
        super().__init__()
        self.protocol = protocol
        self.peer: MemoryTransport | None = None
        self._network = network
        self._address = address
        self._is_closed = False
        self._is_reading = True
        self._unread: list[bytes] = []
        self._on_the_way: list[bytes] = []
        self._arrives_s = 0.0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 1) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closed

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        unread, self._unread = self._unread, []
        for data in unread:
            self._receive(data)

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._is_closed:
            self._later(self._deliver, bytes(data))

    def _deliver(self, data: bytes) -> None:
        self._on_the_way.append(data)
        if len(self._on_the_way) == 1:
            self._retransmit()

    def _retransmit(self) -> None:
        # TCP loses no data within a stream: it retransmits until the host is reachable.
        if self._address in self._network.unreachable:
            self._network.loop.call_later(RETRANSMIT_S, self._retransmit)
            return
        arrived, self._on_the_way = self._on_the_way, []
        for data in arrived:
            if self.peer is not None:
                self.peer._receive(data)

    def _receive(self, data: bytes) -> None:
        if self._is_closed:
            return
        if self._is_reading:
            self.protocol.data_received(data)
        else:
            self._unread.append(data)

    def _later(self, call: Callable[..., None], *arguments: Any) -> None:
        # Never before an earlier call, so that a connection keeps its order.
        loop = self._network.loop
        self._arrives_s = max(self._arrives_s, loop.time() + self._network.latency_s())
        loop.call_at(self._arrives_s, call, *arguments)

    def close(self) -> None:
        if not self._is_closed:
            self._later(self._end_peer)
            self._end()

    def abort(self) -> None:
        self.close()

    def _end_peer(self) -> None:
        if self.peer is not None and self._address not in self._network.unreachable:
            self.peer._end()

    def _end(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._network.loop.call_soon(self.protocol.connection_lost, None)

"""A socket server with handlers of the test, and raw clients, on every kind of loop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

import pytest
import uvloop

from broker.config.listener import Listener
from broker.network.limits import NetworkLimits
from broker.network.reply import EncodedMessage, Reply
from broker.network.request import Request
from broker.network.request_channel import RequestChannel
from broker.network.socket_server import SocketServer
from tests.unit.broker.network_fakes import request_frame

HOST: Final = "127.0.0.1"
# Far more than any test needs, because other processes share the machine.
DEADLINE_S: Final = 300.0
CLEAN_UP_S: Final = 60.0
LOOPS: Final = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

Test = Callable[..., Coroutine[Any, Any, None]]
Handle = Callable[[Request], Reply]


def on_every_loop(test: Test) -> Callable[..., None]:
    """Run an asynchronous test on asyncio's own loop and on uvloop, with a deadline."""

    def run(loop_name: str, **fixtures: object) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
            runner.run(asyncio.wait_for(test(**fixtures), DEADLINE_S))

    parameters = [
        inspect.Parameter("loop_name", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *inspect.signature(test).parameters.values(),
    ]
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return pytest.mark.parametrize("loop_name", LOOPS)(run)


def echo(request: Request) -> Reply:
    """Respond with the body."""
    return Reply(EncodedMessage(bytes(request.body)))


class Parking:
    """Keeps every reply pending, by correlation id, until the test completes it."""

    def __init__(self) -> None:
        self.replies: dict[int, Reply] = {}

    def handle(self, request: Request) -> Reply:
        reply = self.replies[request.header.correlation_id] = Reply()
        return reply


class Client:
    """A client that sends and receives raw frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *requests: tuple[int, bytes]) -> None:
        self.writer.write(b"".join(request_frame(number, body) for number, body in requests))

    def send_raw(self, data: bytes) -> None:
        self.writer.write(data)

    async def receive(self) -> tuple[int, bytes]:
        """Return correlation id and body of the next response."""
        size, correlation_id = struct.unpack(">ii", await self.reader.readexactly(8))
        return correlation_id, await self.reader.readexactly(size - 4)

    async def ask(self, number: int, body: bytes = b"") -> bytes:
        """Send one request, the only one in flight, and return its response."""
        self.send((number, body))
        correlation_id, answer = await self.receive()
        assert correlation_id == number
        return answer

    async def is_closed_by_broker(self) -> bool:
        """Wait for the end of the connection; return whether no byte came before it."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def abort(self) -> None:
        """Close at once, unless closed already: asyncio's transports cannot be aborted twice."""
        if not self.writer.transport.is_closing():
            self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


@dataclass
class Served:
    """A running server; it closes its clients at the end."""

    server: SocketServer
    channel: RequestChannel
    clients: list[Client]

    def port(self, name: str = "PLAINTEXT") -> int:
        return self.server.bound_addresses[name][1]

    async def connect(self, name: str = "PLAINTEXT", **arguments: Any) -> Client:
        client = Client(*await asyncio.open_connection(HOST, self.port(name), **arguments))
        self.clients.append(client)
        return client


@contextlib.asynccontextmanager
async def serving(
    handle: Handle = echo,
    limits: NetworkLimits | None = None,
    *,
    names: tuple[str, ...] = ("PLAINTEXT",),
    **arguments: Any,
) -> AsyncIterator[Served]:
    """Run a server on free ports; afterwards check that it holds no memory or connection."""
    limits = limits or NetworkLimits()
    channel = RequestChannel(asyncio.get_running_loop(), handle, limits)
    listeners = [Listener(name, HOST, 0) for name in names]
    server = SocketServer(listeners, limits, channel, **arguments)
    await server.start()
    served = Served(server, channel, [])
    try:
        yield served
    finally:
        async with asyncio.timeout(CLEAN_UP_S):
            for client in served.clients:
                client.abort()
            await server.close()
    assert server.connection_count == 0
    assert channel.metrics.connections_open == 0
    assert held_bytes(server) == 0


def held_bytes(server: SocketServer) -> int:
    """Return the memory held by incomplete and waiting requests."""
    memory = server._network.memory
    return memory.reserved_bytes + memory.kept_bytes

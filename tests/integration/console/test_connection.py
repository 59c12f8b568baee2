"""Connections that wait for their browser end, so that others are served: over real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from ottla.console.web import connection, serving
from tests.integration.console.browserless import TIMEOUT_S, ConsoleServer, console_of

LIMIT_S = 0.2
STATIC = "/static/console.css"


@pytest_asyncio.fixture
async def console(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ConsoleServer]:
    """A console with short limits, of a cluster that is not there."""
    monkeypatch.setattr(connection, "REQUEST_TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr(connection, "SEND_TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr(serving, "MAX_CONNECTIONS", 4)
    async with console_of("127.0.0.1:1") as running:
        yield running


async def is_ended(console: ConsoleServer) -> bool:
    """Open a connection without a request, and wait for its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await reader.read() == b""
    finally:
        writer.close()


async def test_idle_connections_do_not_lock_others_out(console: ConsoleServer) -> None:
    idle = [asyncio.create_task(is_ended(console)) for _ in range(4)]
    assert all(await asyncio.gather(*idle))
    assert (await console.get(STATIC)).status == 200


@pytest.mark.parametrize(
    "sent",
    [b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1"],
    ids=["headers", "body"],
)
async def test_half_a_request_ends_its_connection(console: ConsoleServer, sent: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
    writer.write(sent)
    async with asyncio.timeout(TIMEOUT_S):
        # A refusal may precede the end.
        await reader.read()
    writer.close()


async def test_a_connection_with_unread_responses_ends(console: ConsoleServer) -> None:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", console.port))
        request = f"GET {STATIC} HTTP/1.1\r\nHost: {console.host}\r\n\r\n".encode()

        async def send_requests() -> None:
            while True:
                await loop.sock_sendall(client, request)

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(send_requests(), TIMEOUT_S)


async def test_a_stream_outlives_the_limit_of_idle_connections(console: ConsoleServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", console.port)
    writer.write(f"GET /live/topics HTTP/1.1\r\nHost: {console.host}\r\n\r\n".encode())
    async with asyncio.timeout(TIMEOUT_S):
        await reader.readuntil(b"retry:")
    assert await is_ended(console)
    assert not reader.at_eof()
    writer.close()

"""A client that meets a server which takes its time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coordination import frames
from coordination.client import Client, SessionState
from coordination.frames import Handshake
from coordination.messages import ConnectRequest, ConnectResponse

HOST = "127.0.0.1"
TIMEOUT_MS = 300
LIMIT_S = 10.0
PASSWORD = b"p" * 16
FIRST, SECOND = 0x100000D0E96C0003, 0x100000D19A270000
"""Sessions; read as the head of a reply, the first one's answer tells a very late transaction."""


class SlowServer:
    """Answers who begins a session, and keeps those waiting who come back with their first."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.requests: list[ConnectRequest] = []
        self.late: list[asyncio.StreamWriter] = []
        self.connected: list[asyncio.StreamWriter] = []
        self.came_back = asyncio.Event()
        self.port = 0

    async def on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4))
        request = frames.decode_handshake(ConnectRequest, await reader.readexactly(size)).record
        assert isinstance(request, ConnectRequest)
        self.requests.append(request)
        if request.session_id == SECOND:
            self.came_back.set()
        if request.session_id == FIRST:
            self.late.append(writer)
        else:
            await self.may_answer.wait()
            self.connected.append(writer)
            self.answer_late()
            answer(writer, FIRST if len(self.connected) == 1 else SECOND)
        await reader.read()
        writer.close()

    def answer_late(self) -> None:
        """Tell those who wait that their session lives."""
        for writer in self.late:
            answer(writer, FIRST)


def answer(writer: asyncio.StreamWriter, session_id: int) -> None:
    response = ConnectResponse(0, TIMEOUT_MS, session_id, PASSWORD)
    writer.write(frames.encode_handshake(Handshake(response, read_only=False)))


@asynccontextmanager
async def slow_server() -> AsyncIterator[SlowServer]:
    slow = SlowServer()
    server = await asyncio.start_server(slow.on_client, HOST)
    slow.port = server.sockets[0].getsockname()[1]
    try:
        yield slow
    finally:
        server.close()
        for writer in (*slow.connected, *slow.late):
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def test_an_answer_to_a_session_that_was_given_up_is_not_heard() -> None:
    async with slow_server() as server, asyncio.timeout(LIMIT_S):
        client = Client(f"{HOST}:{server.port}", session_timeout_ms=TIMEOUT_MS)
        expired = asyncio.Event()
        client.on_state_change(
            lambda state: expired.set() if state is SessionState.EXPIRED else None
        )
        await client.connect()
        server.connected[0].close()
        await expired.wait()
        assert server.late, "it has tried to come back"
        await client.connect()
        assert client.session_id == SECOND
        # What the client believes to have seen, it tells the server when it comes back.
        server.connected[1].close()
        await server.came_back.wait()
        assert server.requests[-1].last_zxid_seen == 0
        await client.abandon()


async def test_a_session_that_begins_slowly_is_waited_for() -> None:
    async with slow_server() as server, asyncio.timeout(LIMIT_S):
        server.may_answer.clear()
        # By then a third of the timeout is over, which is the time of one who comes back.
        asyncio.get_running_loop().call_later(TIMEOUT_MS / 2000, server.may_answer.set)
        client = Client(f"{HOST}:{server.port}", session_timeout_ms=TIMEOUT_MS)
        await client.connect()
        assert len(server.requests) == 1
        await client.abandon()

"""A client that meets a server which takes its time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coordination import frames
from coordination.client import Client, SessionState, ops, patterns, session_file
from coordination.client.connection import ClientConnection
from coordination.client.session_file import SavedSession
from coordination.errors import RequestTooLargeError
from coordination.frames import Handshake
from coordination.messages import ConnectRequest, ConnectResponse

HOST = "127.0.0.1"
TIMEOUT_MS = 300
UNHURRIED_MS = 10_000
"""A third of it is the time for one attempt."""
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
        self.waits = asyncio.Event()
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
            self.waits.set()
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


async def test_a_session_that_ends_before_it_is_adopted_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    writers: list[asyncio.StreamWriter] = []
    is_lost = asyncio.Event()

    async def on_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4))
        request = frames.decode_handshake(ConnectRequest, await reader.readexactly(size)).record
        assert isinstance(request, ConnectRequest)
        asked.append(request.session_id)
        # The first session is given, lost at once, and over when its owner comes back.
        writers.append(writer)
        answer(writer, {1: FIRST, 2: 0}.get(len(asked), SECOND))
        if len(asked) == 1:
            writer.close()

    async def save_until_lost(_path: Path, _session: SavedSession) -> None:
        if len(asked) == 1:
            await is_lost.wait()

    def note_loss(connection: ClientConnection, error: Exception | None) -> None:
        connection_lost(connection, error)
        is_lost.set()

    connection_lost = ClientConnection.connection_lost
    monkeypatch.setattr(ClientConnection, "connection_lost", note_loss)
    monkeypatch.setattr(session_file, "save", save_until_lost)
    server = await asyncio.start_server(on_client, HOST)
    port = server.sockets[0].getsockname()[1]
    client = Client(
        f"{HOST}:{port}", session_timeout_ms=UNHURRIED_MS, session_file_path=tmp_path / "session"
    )
    async with asyncio.timeout(LIMIT_S):
        await client.connect(timeout_s=10 * LIMIT_S)
    assert asked == [0, FIRST, 0]
    assert client.session_id == SECOND
    await client.abandon()
    server.close()
    for writer in writers:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_ending_a_dead_session_leaves_no_task_behind_when_cancelled(tmp_path: Path) -> None:
    async with slow_server() as server:
        saved = SavedSession(f"{HOST}:{server.port}", FIRST, PASSWORD, pid=1)
        await session_file.save(tmp_path / "session", saved)
        before = asyncio.all_tasks()
        ending = asyncio.create_task(patterns.end_dead_session(tmp_path / "session", LIMIT_S))
        await server.waits.wait()
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)
        left = asyncio.all_tasks() - before
        assert [task.get_name() for task in left if "coordination" in task.get_name()] == []


async def test_a_request_that_no_server_takes_is_refused_without_being_sent() -> None:
    async with slow_server() as server, asyncio.timeout(LIMIT_S):
        client = Client(f"{HOST}:{server.port}", session_timeout_ms=TIMEOUT_MS)
        await client.connect()
        with pytest.raises(RequestTooLargeError, match="bytes for /a exceeds 1048575") as caught:
            await client.set_data("/a", bytes(frames.MAX_REQUEST_BYTES))
        assert caught.value.size_bytes > caught.value.limit_bytes
        with pytest.raises(RequestTooLargeError, match=r"bytes exceeds"):
            await client.multi([ops.create("/a", bytes(frames.MAX_REQUEST_BYTES))])
        await client.abandon()

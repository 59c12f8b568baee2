"""Reconnects of a client to a slow server."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from coordination.client import Client, SessionState, ops, patterns, session_file
from coordination.client.client_connection import MAX_REPLY_BYTES, ClientConnection
from coordination.client.client_session import MAX_RAISED_TIMEOUT_MS
from coordination.client.heartbeat import PING_PACKET
from coordination.client.session_file import SavedSession
from coordination.errors import ConnectionLossError, RequestTooLargeError, ResponseTooLargeError
from coordination.protocol import frames
from coordination.protocol.frames import Handshake
from coordination.protocol.messages import ConnectRequest, ConnectResponse, OpCode
from tests.waiting import until

HOST = "127.0.0.1"
TIMEOUT_MS = 1_500
PATIENT_MS = 2_000
"""Session timeout with a second to spare for a busy machine."""
UNHURRIED_MS = 10_000
"""Session timeout; one attempt to reconnect gets a third of it."""
LIMIT_S = 10.0
PASSWORD = b"p" * 16
FIRST, SECOND = 0x100000D0E96C0003, 0x100000D19A270000
"""Session ids; misread as the head of a reply, the response for FIRST has a very large zxid."""


class SlowServer:
    """Server that accepts new sessions, but holds back responses to a resumed FIRST session."""

    def __init__(self) -> None:
        self.may_respond = asyncio.Event()
        self.may_respond.set()
        self.requests: list[ConnectRequest] = []
        self.late: list[asyncio.StreamWriter] = []
        self.connected: list[asyncio.StreamWriter] = []
        self.came_back = asyncio.Event()
        self.waits = asyncio.Event()
        self.port = 0

    async def on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await connect_request(reader)
        if request is None:
            writer.close()
            return
        self.requests.append(request)
        if request.session_id == SECOND:
            self.came_back.set()
        if request.session_id == FIRST:
            self.late.append(writer)
            self.waits.set()
        else:
            await self.may_respond.wait()
            self.connected.append(writer)
            self.respond_late()
            respond(writer, FIRST if len(self.connected) == 1 else SECOND)
        # A client that gives the connection up resets it.
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    def respond_late(self) -> None:
        """Send the responses that were held back: the session is alive."""
        for writer in self.late:
            respond(writer, FIRST)


async def connect_request(reader: asyncio.StreamReader) -> ConnectRequest | None:
    """Return the request of a client; None if it gave the connection up before sending it."""
    try:
        size = int.from_bytes(await reader.readexactly(4))
        payload = await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    request = frames.decode_handshake(ConnectRequest, payload).record
    assert isinstance(request, ConnectRequest)
    return request


def respond(writer: asyncio.StreamWriter, session_id: int) -> None:
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


async def test_a_response_to_an_expired_session_is_ignored() -> None:
    async with slow_server() as server, asyncio.timeout(LIMIT_S):
        client = Client(f"{HOST}:{server.port}", session_timeout_ms=TIMEOUT_MS)
        expired = asyncio.Event()
        client.on_state_change(
            lambda state: expired.set() if state is SessionState.EXPIRED else None
        )
        await client.connect()
        server.connected[0].close()
        await expired.wait()
        assert server.late, "it has tried to resume the session"
        await client.connect()
        assert client.session_id == SECOND
        # The client sends the last zxid it has seen when it reconnects.
        server.connected[1].close()
        await server.came_back.wait()
        assert server.requests[-1].last_zxid_seen == 0
        await client.abandon()


async def test_a_client_waits_a_whole_timeout_for_a_new_session() -> None:
    async with slow_server() as server, asyncio.timeout(LIMIT_S):
        server.may_respond.clear()
        # By then a third of the timeout is over, which is the limit for a resumed session.
        asyncio.get_running_loop().call_later(PATIENT_MS / 2000, server.may_respond.set)
        client = Client(f"{HOST}:{server.port}", session_timeout_ms=PATIENT_MS)
        await client.connect()
        assert len(server.requests) == 1
        await client.abandon()


@pytest.mark.parametrize(
    ("wanted_ms", "granted_ms", "timeout_ms", "silence_ms"),
    [
        (6_000, 4_000, 4_000, 4_000),
        # ZooKeeper with minSessionTimeout=20000.
        (6_000, 20_000, 20_000, 6_000),
        (6_000, 2**31 - 1, MAX_RAISED_TIMEOUT_MS, 6_000),
        (90_000, 2**31 - 1, 90_000, 90_000),
    ],
)
async def test_a_server_may_raise_the_timeout_but_not_bind_a_client_to_its_silence(
    wanted_ms: int, granted_ms: int, timeout_ms: int, silence_ms: int
) -> None:
    ended: asyncio.Queue[None] = asyncio.Queue()

    async def on_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await connect_request(reader)
        response = ConnectResponse(0, granted_ms, FIRST, PASSWORD)
        writer.write(frames.encode_handshake(Handshake(response, read_only=False)))
        await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        ended.put_nowait(None)

    server = await asyncio.start_server(on_client, HOST)
    port = server.sockets[0].getsockname()[1]
    client = Client(f"{HOST}:{port}", session_timeout_ms=wanted_ms)
    await client.connect()
    session = client.session
    assert (session.negotiated_timeout_ms, session.silence_ms) == (timeout_ms, silence_ms)
    await client.abandon()
    await ended.get()
    server.close()


async def test_a_session_that_ends_before_its_adoption_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[int] = []
    writers: list[asyncio.StreamWriter] = []
    is_lost = asyncio.Event()

    async def on_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await connect_request(reader)
        assert request is not None
        requested.append(request.session_id)
        # The first session is accepted, loses its connection at once, and has then expired.
        writers.append(writer)
        respond(writer, {1: FIRST, 2: 0}.get(len(requested), SECOND))
        if len(requested) == 1:
            writer.close()

    async def save_until_lost(_path: Path, _session: SavedSession) -> None:
        if len(requested) == 1:
            await is_lost.wait()

    def record_loss(connection: ClientConnection, error: Exception | None) -> None:
        connection_lost(connection, error)
        is_lost.set()

    connection_lost = ClientConnection.connection_lost
    monkeypatch.setattr(ClientConnection, "connection_lost", record_loss)
    monkeypatch.setattr(session_file, "save", save_until_lost)
    server = await asyncio.start_server(on_client, HOST)
    port = server.sockets[0].getsockname()[1]
    client = Client(
        f"{HOST}:{port}", session_timeout_ms=UNHURRIED_MS, session_file_path=tmp_path / "session"
    )
    async with asyncio.timeout(LIMIT_S):
        await client.connect(timeout_s=10 * LIMIT_S)
    assert requested == [0, FIRST, 0]
    assert client.session_id == SECOND
    await client.abandon()
    server.close()
    for writer in writers:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_new_session_lives_while_its_file_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinged, ended = asyncio.Event(), asyncio.Event()

    async def on_client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await connect_request(reader) is not None
        respond(writer, FIRST)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            assert await reader.readexactly(len(PING_PACKET)) == PING_PACKET
            pinged.set()
            await reader.read()
        writer.close()
        ended.set()

    async def save_slowly(_path: Path, _session: SavedSession) -> None:
        await pinged.wait()

    monkeypatch.setattr(session_file, "save", save_slowly)
    server = await asyncio.start_server(on_client, HOST)
    port = server.sockets[0].getsockname()[1]
    client = Client(
        f"{HOST}:{port}", session_timeout_ms=UNHURRIED_MS, session_file_path=tmp_path / "session"
    )
    async with asyncio.timeout(LIMIT_S):
        await client.connect(timeout_s=10 * LIMIT_S)
    assert client.session_id == FIRST
    await client.abandon()
    await ended.wait()
    server.close()


async def test_a_silent_server_is_the_reason_of_the_failure() -> None:
    async with slow_server() as server, asyncio.timeout(LIMIT_S):
        server.may_respond.clear()
        client = Client(f"{HOST}:{server.port}", session_timeout_ms=100)
        with pytest.raises(ConnectionLossError):
            await client.connect(0.5)
        assert client.failure == f"{HOST}:{server.port}: no answer within 0.1 s"
        server.may_respond.set()
        await until(lambda: len(server.connected) == len(server.requests), "its handlers")


async def test_a_session_begins_although_its_file_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "session"
    async with slow_server() as server, asyncio.timeout(LIMIT_S):
        client = Client(
            f"{HOST}:{server.port}", session_timeout_ms=TIMEOUT_MS, session_file_path=path
        )
        await client.connect()
        assert client.session_id == FIRST
        await client.abandon()


async def test_an_unreadable_session_file_counts_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "session"
    path.mkdir()
    assert not await patterns.end_dead_session(path)
    await session_file.remove(path)
    assert path.is_dir()


async def test_a_cancelled_end_of_a_dead_session_leaves_no_task(tmp_path: Path) -> None:
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


async def test_a_request_above_the_servers_limit_is_not_sent() -> None:
    async with slow_server() as server, asyncio.timeout(LIMIT_S):
        client = Client(f"{HOST}:{server.port}", session_timeout_ms=TIMEOUT_MS)
        await client.connect()
        with pytest.raises(
            RequestTooLargeError, match="for /a exceeds the limit of 1048575"
        ) as caught:
            await client.set_data("/a", bytes(frames.MAX_REQUEST_BYTES))
        assert caught.value.size_bytes > caught.value.limit_bytes
        with pytest.raises(RequestTooLargeError, match=r"bytes exceeds"):
            await client.multi([ops.create("/a", bytes(frames.MAX_REQUEST_BYTES))])
        await client.abandon()


@asynccontextmanager
async def server_of_large_lists() -> AsyncIterator[int]:
    """Serve requests; a list of children exceeds the limit of the client. Yield the port."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await connect_request(reader)
            response = ConnectResponse(0, UNHURRIED_MS, FIRST, PASSWORD)
            writer.write(frames.encode_handshake(Handshake(response, read_only=False)))
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                xid, op = struct.unpack_from(">ii", await reader.readexactly(size))
                if op == OpCode.GET_CHILDREN:
                    writer.write(struct.pack(">ii", MAX_REPLY_BYTES + 1, xid))
                else:
                    writer.write(frames.encode_reply(xid, 1, 0))

    server = await asyncio.start_server(serve, HOST)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def test_a_response_that_is_too_large_fails_its_request_and_not_the_session() -> None:
    async with server_of_large_lists() as port, asyncio.timeout(LIMIT_S):
        client = Client(f"{HOST}:{port}", session_timeout_ms=UNHURRIED_MS)
        await client.connect()
        large, other = client.get_children("/large"), client.delete("/a")
        with pytest.raises(ResponseTooLargeError, match="for /large exceeds the limit of 16777216"):
            await large
        with pytest.raises(ConnectionLossError):
            await other
        await client.delete("/b")
        assert (client.session_id, client.state) == (FIRST, SessionState.CONNECTED)
        await client.close()


@pytest.mark.parametrize("name", ["two..dots", "x" * 64, "nul\0", "\ud800"])
async def test_a_name_that_cannot_exist_does_not_hide_the_other_servers(name: str) -> None:
    async with slow_server() as server:
        client = Client(f"{name}:1,{HOST}:{server.port}", session_timeout_ms=PATIENT_MS)
        await client.connect(LIMIT_S)
        await client.abandon()
    client = Client(f"{name}:1", session_timeout_ms=PATIENT_MS)
    with pytest.raises(ConnectionLossError):
        await client.connect(0.1)
    assert f"{name!r} is not the name of a host" in str(client.failure)

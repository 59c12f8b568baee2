"""One connection of the server: its states, the limit of unsent bytes, the limits of a turn."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from coordination.errors import ErrorCode
from coordination.protocol import frames, jute
from coordination.protocol.frames import FrameSplitter, Handshake
from coordination.protocol.messages import (
    NO_PASSWORD,
    OPEN_ACL,
    AuthRequest,
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    DeleteRequest,
    OpCode,
    ReadRequest,
    ReplyHeader,
    SetWatchesRequest,
)
from coordination.server import four_letter
from coordination.server import server_connection as connections
from coordination.server.coordinator_config import CoordinatorConfig
from coordination.server.server import Server
from coordination.server.server_connection import Connection, ConnectionState
from coordination.server.state.sessions import Passwords
from coordination.server.state.txns import Entry
from coordination.server.state.watches import MAX_REMOVALS
from tests.unit.coordination.fakes import WALL_MS, service
from tests.waiting import until

LIMIT_BYTES = 1_000
TIMEOUT_MS = 10_000
SECRET = b"s" * 32
NEW, FRESH, OPEN, ENDING, CLOSED = ConnectionState


class InstantLog:
    """Log whose batches are durable at once."""

    def append(self, _entries: Sequence[Entry]) -> None:
        return None

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        done(None)

    def idle(self) -> None:
        return None

    def close(self) -> None:
        return None


class SlowLog(InstantLog):
    """Log whose batches are durable once the test says so."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[OSError | None], None]] = []

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        self._waiting.append(done)

    def finish(self) -> None:
        self._waiting.pop()(None)


class MemoryTransport(asyncio.Transport):
    """Transport that records all writes; `unread_bytes` are not read by the peer yet."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.unread_bytes = 0
        self.is_closed = False
        self.is_aborted = False
        self.is_paused = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("10.0.0.1", 4711) if name == "peername" else default

    def set_write_buffer_limits(self, *_limits: int | None, **_named: int | None) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.unread_bytes += len(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True


class ResetTransport(MemoryTransport):
    """Transport whose peer has reset the connection before it was accepted."""

    def get_extra_info(self, _name: str, default: object = None) -> object:
        return default


async def connected(
    wal: InstantLog | None = None, **settings: Any
) -> tuple[Connection, MemoryTransport]:
    server = Server(
        service(),
        wal or InstantLog(),
        CoordinatorConfig(max_unsent_bytes=LIMIT_BYTES, **settings),
        Passwords(SECRET, zookeeper_compatible=False),
        wall_clock_ms=lambda: WALL_MS,
        on_fatal=lambda error: pytest.fail(str(error)),
        new_nonce=lambda: "nonce",
    )
    connection, transport = Connection(server), MemoryTransport()
    connection.connection_made(transport)
    hello = ConnectRequest(0, 0, TIMEOUT_MS, 0, NO_PASSWORD)
    connection.data_received(frames.encode_handshake(Handshake(hello, False)))
    transport.unread_bytes = 0
    return connection, transport


def ask(connection: Connection, op: OpCode, request: tuple[object, ...]) -> None:
    connection.data_received(frames.encode_request(1, op, jute.encode(request)))


async def test_one_reply_may_exceed_the_limit_of_unsent_bytes() -> None:
    connection, transport = await connected()
    ask(connection, OpCode.CREATE, CreateRequest("/big", bytes(10 * LIMIT_BYTES), OPEN_ACL, 0))
    transport.unread_bytes = 0
    ask(connection, OpCode.GET_DATA, ReadRequest("/big", False))
    assert transport.unread_bytes > 10 * LIMIT_BYTES
    assert not transport.is_closing()
    # A peer that has not read this reply gets no more.
    written = len(transport.written)
    ask(connection, OpCode.EXISTS, ReadRequest("/big", False))
    assert transport.is_closing()
    assert len(transport.written) == written


async def test_the_turn_of_a_connection_is_limited_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, transport = await connected()
    monkeypatch.setattr(connections, "TURN_S", 0.0)
    many = frames.encode_request(1, OpCode.EXISTS, jute.encode(ReadRequest("/", False))) * 3
    before = len(transport.written)
    connection.data_received(many)
    one = len(transport.written) - before
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(transport.written) - before == 3 * one


async def test_reading_goes_on_after_a_sync_that_held_as_many_replies_as_may_be_held() -> None:
    wal = SlowLog()
    connection, transport = await connected(wal, max_held_replies=2)
    wal.finish()
    paused = []
    for path in ("/a", "/b"):
        ask(connection, OpCode.CREATE, CreateRequest(path, b"", OPEN_ACL, 0))
        paused.append(transport.is_paused)
    wal.finish()
    assert [*paused, transport.is_paused] == [False, True, False]
    wal.finish()
    assert [err for _, err in replies(transport)] == [0, 0]


async def test_reading_pauses_while_the_requests_that_wait_for_a_sync_are_too_large() -> None:
    wal = SlowLog()
    connection, transport = await connected(wal, max_unsynced_bytes=2 * LIMIT_BYTES)
    other, other_transport = Connection(connection._server), MemoryTransport()
    other.connection_made(other_transport)
    hello = ConnectRequest(0, 0, TIMEOUT_MS, 0, NO_PASSWORD)
    other.data_received(frames.encode_handshake(Handshake(hello, False)))
    for _ in range(2):
        wal.finish()
    paused: list[bool] = []
    for path in ("/a", "/b", "/c"):
        request = CreateRequest(path, bytes(LIMIT_BYTES), OPEN_ACL, 0)
        ask(connection, OpCode.CREATE, request)
        paused.append(transport.is_paused)
    assert paused == [False, True, True]
    server = cast(Server, connection._server)
    assert "/c" not in server.service.state.tree.nodes
    # Another connection is read until it holds a reply.
    ask(other, OpCode.EXISTS, ReadRequest("/zookeeper", False))
    paused = [other_transport.is_paused]
    ask(other, OpCode.CREATE, CreateRequest("/d", b"", OPEN_ACL, 0))
    assert [*paused, other_transport.is_paused] == [False, True]
    # The first sync was for /a alone.
    wal.finish()
    assert "/c" in server.service.state.tree.nodes
    for _ in range(2):
        wal.finish()
    assert [each.is_paused for each in (transport, other_transport)] == [False, False]
    assert [err for _, err in replies(transport)] == [0, 0, 0]
    assert server.unsynced_bytes == 0


@pytest.mark.parametrize(("max_held_replies", "lives"), [(1, True), (2, False)])
async def test_session_outlives_a_long_sync_that_stops_the_reading_of_its_pings(
    monkeypatch: pytest.MonkeyPatch, max_held_replies: int, lives: bool
) -> None:
    wal = SlowLog()
    connection, transport = await connected(wal, max_held_replies=max_held_replies)
    wal.finish()
    ask(connection, OpCode.CREATE, CreateRequest("/a", b"", OPEN_ACL, 0))
    assert transport.is_paused is lives
    server = cast(Server, connection._server)
    now_ms = server._now_ms() + TIMEOUT_MS + 1
    monkeypatch.setattr(server, "_now_ms", lambda: now_ms)
    # No stall of the process.
    server._expected_tick_s = server.loop.time() + 1
    server._tick()
    assert (server.service.sessions.find(connection.session_id) is not None) is lives
    assert server._timer is not None
    server._timer.cancel()


async def test_a_packet_read_after_a_stall_gives_its_session_one_timeout() -> None:
    connection, _ = await connected()
    server = cast(Server, connection._server)
    stall_s = 60.0
    server._expected_tick_s = server.loop.time() - stall_s
    ask_exists(connection)
    server._tick()
    [session] = server.service.sessions
    assert session.deadline_ms <= server._now_ms() + TIMEOUT_MS
    assert server._timer is not None
    server._timer.cancel()


def resumed(connection: Connection, timeout_ms: int) -> MemoryTransport:
    """Resume the session of `connection` on another one; return the transport of that one."""
    other, transport = Connection(connection._server), MemoryTransport()
    other.connection_made(transport)
    password = Passwords(SECRET, zookeeper_compatible=False).issue(connection.session_id)
    request = ConnectRequest(0, 0, timeout_ms, connection.session_id, password)
    other.data_received(frames.encode_handshake(Handshake(request, False)))
    return transport


async def test_a_session_is_resumed_while_the_disk_is_slow() -> None:
    wal = SlowLog()
    connection, _ = await connected(wal)
    wal.finish()
    ask(connection, OpCode.CREATE, CreateRequest("/a", b"", OPEN_ACL, 0))
    transport = resumed(connection, TIMEOUT_MS)
    responses = FrameSplitter(10**6).feed(bytes(transport.written))
    found = [frames.decode_handshake(ConnectResponse, each).record for each in responses]
    assert [each.session_id for each in found] == [connection.session_id]
    # Another timeout has to be on disk before it is granted.
    changed = resumed(connection, 2 * TIMEOUT_MS)
    wal.finish()
    assert not changed.written
    wal.finish()
    assert changed.written


def close_session(connection: Connection) -> None:
    connection.data_received(frames.encode_request(1, OpCode.CLOSE_SESSION))


def ask_exists(connection: Connection) -> None:
    ask(connection, OpCode.EXISTS, ReadRequest("/", False))


EVENTS: Mapping[str, Callable[[Connection], None]] = {
    "request": ask_exists,
    "bad frame": lambda connection: connection.data_received(b"\xff" * 4),
    "close session": close_session,
    "end": lambda connection: connection.close_after_outputs(1 << 40),
    "close": Connection.close,
    "abort": Connection.abort,
    "lost": lambda connection: connection.connection_lost(None),
}
PATHS = {OPEN: [], ENDING: ["end"], CLOSED: ["close"]}
CLOSES = {"bad frame", "close session", "close", "abort", "lost"}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", PATHS, ids=lambda state: state.name)
async def test_a_connection_only_moves_forward(state: ConnectionState, event: str) -> None:
    connection, transport = await connected()
    for step in PATHS[state]:
        EVENTS[step](connection)
    assert connection._state is state
    written = len(transport.written)
    EVENTS[event](connection)
    # A connection that ends runs no more requests.
    is_inert = state is ENDING and event == "close session"
    after = CLOSED if event in CLOSES and not is_inert else ENDING if event == "end" else OPEN
    assert connection._state is max(state, after)
    is_answered = state is OPEN and event in ("request", "close session")
    assert (len(transport.written) > written) == is_answered


async def test_a_connection_is_fresh_until_four_bytes_have_arrived() -> None:
    opened, _ = await connected()
    connection = Connection(opened._server)
    assert not connection.is_made
    connection.connection_made(MemoryTransport())
    states = []
    for byte in b"ruok":
        states.append(connection._state)
        connection.data_received(bytes([byte]))
    assert (states, connection._state) == ([FRESH] * 4, ENDING)
    await asyncio.sleep(0)
    assert connection._state is CLOSED


async def listing(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Connection, MemoryTransport]:
    """Ask for the watches by path, whose response has this many `parts` of one line."""
    monkeypatch.setattr(four_letter, "PART_LINES", 1)
    opened, _ = await connected(commands=frozenset({"*"}))
    connection, transport = Connection(opened._server), MemoryTransport()
    for number in range(parts // 2):
        cast(Server, opened._server).service.watches.data.add(f"/{number}", connection, 1)
    connection.connection_made(transport)
    connection.data_received(b"wchp")
    return connection, transport


def lines(transport: MemoryTransport) -> int:
    return transport.written.count(b"\n")


async def test_a_turn_sends_one_part_of_the_response_to_a_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection, transport = await listing(4, monkeypatch)
    sent = [lines(transport)]
    for _ in range(4):
        assert connection.eof_received(), "the peer may end its side early"
        connection.data_received(b"more")
        assert not transport.is_closing()
        await asyncio.sleep(0)
        sent.append(lines(transport))
    assert sent == [1, 2, 3, 4, 4]
    assert transport.is_closing()


async def test_a_response_to_a_command_waits_for_a_slow_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection, transport = await listing(4, monkeypatch)
    connection.pause_writing()
    for _ in range(3):
        await asyncio.sleep(0)
    assert lines(transport) == 1
    connection.resume_writing()
    for _ in range(3):
        await asyncio.sleep(0)
    assert lines(transport) == 4
    assert transport.is_closing()


@pytest.mark.parametrize("count", [1, 4])
async def test_a_response_to_a_command_that_is_not_read_in_time_is_cut(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The last part may be written already: then the connection waits for its peer alone."""
    connection, transport = await listing(count, monkeypatch)
    connection.pause_writing()
    if count == 1:
        connection.resume_writing()
        await asyncio.sleep(0)
    server = cast(Server, connection._server)
    with capture_logs() as captured:
        server._close_without_handshake()
        was_aborted = transport.is_aborted
        connection.opened_at_s -= 11
        server._close_without_handshake()
        server._close_without_handshake()
    assert (was_aborted, transport.is_aborted) == (False, True)
    assert [each["error"] for each in captured] == [
        "the response to a command was not read within 10000 ms"
    ]
    connection.connection_lost(None)


async def test_a_peer_that_never_reads_does_not_keep_a_closed_connection() -> None:
    connection, transport = await connected(handshake_timeout_ms=1)
    transport.unread_bytes = 10
    connection.close()
    assert transport.is_closing()
    assert not transport.is_aborted
    await until(lambda: transport.is_aborted)


async def test_a_response_to_a_command_ends_with_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection, transport = await listing(4, monkeypatch)
    connection.connection_lost(None)
    for _ in range(3):
        await asyncio.sleep(0)
    assert lines(transport) == 1


def replies(transport: MemoryTransport) -> list[tuple[int, int]]:
    """Return the xid and error code of each reply so far."""
    found = [
        jute.decode(ReplyHeader, each)[0]
        for each in FrameSplitter(10**6).feed(bytes(transport.written))[1:]
    ]
    return [(header.xid, header.err) for header in found]


async def test_without_a_required_identity_no_request_runs() -> None:
    connection, transport = await connected(required_schemes=frozenset({"digest"}))
    ask(connection, OpCode.CREATE, CreateRequest("/a", b"", OPEN_ACL, 0))
    assert replies(transport) == [(1, ErrorCode.SESSION_CLOSED_REQUIRE_SASL)]
    assert transport.is_closing()
    assert "/a" not in cast(Server, connection._server).service.state.tree.nodes


async def test_a_session_without_a_required_identity_ends_with_its_connection() -> None:
    connection, _ = await connected(required_schemes=frozenset({"digest"}))
    sessions = cast(Server, connection._server).service.sessions
    [session] = sessions
    connection.connection_lost(None)
    assert session.deadline_ms <= sessions_now_ms()
    other, _ = await connected(required_schemes=frozenset({"digest"}))
    ask(other, OpCode.AUTH, AuthRequest(0, "digest", b"bob:secret"))
    [session] = cast(Server, other._server).service.sessions
    other.connection_lost(None)
    assert session.deadline_ms > sessions_now_ms()


def sessions_now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)


async def test_a_client_with_a_required_identity_is_served() -> None:
    connection, transport = await connected(required_schemes=frozenset({"digest"}))
    ask(connection, OpCode.AUTH, AuthRequest(0, "digest", b"bob:secret"))
    ask(connection, OpCode.EXISTS, ReadRequest("/", False))
    assert [err for _, err in replies(transport)] == [0, 0]
    assert not transport.is_closing()


async def test_only_a_client_that_has_logged_in_may_send_large_requests() -> None:
    large = CreateRequest("/a", bytes(2 * connections.MAX_LOGIN_BYTES), OPEN_ACL, 0)
    login = frames.encode_request(
        1, OpCode.AUTH, jute.encode(AuthRequest(0, "digest", b"bob:secret"))
    )
    packet = frames.encode_request(2, OpCode.CREATE, jute.encode(large))
    for parts in ([login, packet], [login + packet], [login + packet[:-1], packet[-1:]]):
        connection, transport = await connected(required_schemes=frozenset({"digest"}))
        for part in parts:
            connection.data_received(part)
        assert replies(transport) == [(1, 0), (2, 0)]
    other, transport = await connected(required_schemes=frozenset({"digest"}))
    other.data_received(packet[: connections.MAX_LOGIN_BYTES])
    assert not transport.is_closing()
    other.data_received(packet[connections.MAX_LOGIN_BYTES :][:1])
    assert transport.is_closing(), "its other bytes need not arrive"


async def test_a_client_that_never_authenticates_is_closed_in_time() -> None:
    connection, transport = await connected(
        required_schemes=frozenset({"digest"}), handshake_timeout_ms=1
    )
    server = cast(Server, connection._server)
    connection.opened_at_s -= 1
    server._close_without_handshake()
    assert transport.is_closing()


async def test_a_malformed_certificate_closes_the_connection() -> None:
    connection, transport = await connected()
    server = cast(Server, connection._server)
    server.on_connected(connection, b"no certificate")
    assert transport.is_closing()


async def test_a_client_that_has_reset_its_connection_has_no_identity_and_no_session() -> None:
    opened, _ = await connected()
    connection, transport = Connection(opened._server), ResetTransport()
    connection.connection_made(transport)
    assert transport.is_aborted
    assert connection.identities == ()
    hello = ConnectRequest(0, 0, TIMEOUT_MS, 0, NO_PASSWORD)
    connection.data_received(frames.encode_handshake(Handshake(hello, False)))
    connection.connection_lost(None)
    assert len(cast(Server, opened._server).service.sessions) == 1


async def test_the_watches_of_a_lost_connection_do_not_hold_the_loop() -> None:
    connection, _ = await connected()
    paths = tuple(f"/{number}" for number in range(2 * MAX_REMOVALS))
    ask(connection, OpCode.SET_WATCHES, SetWatchesRequest(0, (), paths, ()))
    watches = cast(Server, connection._server).service.watches.data
    connection.connection_lost(None)
    counts = []
    for _ in range(3):
        counts.append(watches.watch_count)
        await asyncio.sleep(0)
    assert counts == [MAX_REMOVALS, 0, 0]


async def test_empty_containers_are_deleted_over_several_ticks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coordination.server.state.service.MAX_EXAMINED", 1)
    connection, _ = await connected()
    for path in ("/a", "/b"):
        ask(connection, OpCode.CREATE_CONTAINER, CreateRequest(path, b"", OPEN_ACL, 4))
        ask(connection, OpCode.CREATE, CreateRequest(f"{path}/c", b"", OPEN_ACL, 0))
        ask(connection, OpCode.DELETE, DeleteRequest(f"{path}/c", -1))
    server = cast(Server, connection._server)
    server._housekeeping_at_s = server._expected_tick_s = server.loop.time()
    counts = []
    for _ in range(3):
        server._tick()
        counts.append(len(server.service.state.tree.containers))
    assert counts == [1, 0, 0]

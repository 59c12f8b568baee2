"""The session of a client (edge), kept alive across connections.

It sends requests, and returns their replies, in the order of the calls. It dispatches a watch event
before the reply that reflects it.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from coordination.client import session_file
from coordination.client.client_connection import MAX_REPLY_BYTES, ClientConnection
from coordination.client.connector import Connector
from coordination.client.heartbeat import PING_PACKET, Heartbeat
from coordination.client.hosts import ConnectString
from coordination.client.login import LoginExchange
from coordination.client.request_queue import Pending, RequestQueue
from coordination.client.session_expiry import PING_PART, Due, SessionExpiry, SessionState
from coordination.client.session_file import SavedSession
from coordination.client.session_timer import SessionTimer
from coordination.client.watch_registry import WatchEvent, WatchRegistry
from coordination.errors import (
    ConnectionLossError,
    ErrorCode,
    JuteError,
    RequestTooLargeError,
    SessionExpiredError,
)
from coordination.protocol import frames, jute
from coordination.protocol.messages import (
    LINGER_PROTOCOL,
    NO_PASSWORD,
    XID_NOTIFICATION,
    XID_PING,
    XID_SET_WATCHES,
    ConnectRequest,
    ConnectResponse,
    EventType,
    OpCode,
    SetWatches2Request,
    WatcherEvent,
)

T = TypeVar("T")

_OVER: Final = (SessionState.EXPIRED, SessionState.CLOSED)
MAX_RAISED_TIMEOUT_MS: Final = 60_000
"""A server may raise the requested timeout up to this. A longer timeout is cut: the session ends
earlier on this side, but servers that have vanished do not hold it for days."""


class ClientSession:
    """One session at a time, with its requests and watches; used by one `Client`."""

    def __init__(
        self,
        servers: ConnectString,
        connector: Connector,
        *,
        timeout_ms: int,
        has_linger: bool,
        file_path: Path | None,
        begin_login: Callable[[], LoginExchange] | None,
    ) -> None:
        """Create a session that is not established; `file_path` is for its id and password."""
        self.state = SessionState.DISCONNECTED
        self.session_id = 0
        self.password = NO_PASSWORD
        self.negotiated_timeout_ms = timeout_ms
        self.watches = WatchRegistry()
        self._servers = servers
        self._connector = connector
        self.silence_ms = timeout_ms
        """Longest wait for a server that sends nothing, even if it has granted a longer timeout."""
        self._wanted_timeout_ms = timeout_ms
        self._has_linger = has_linger
        self._file_path = file_path
        self._begin_login = begin_login
        self._last_zxid = 0
        self._listeners: list[Callable[[SessionState], None]] = []
        self._requests = RequestQueue()
        self._connection: ClientConnection | None = None
        self._expiry: SessionExpiry
        self._timer: SessionTimer | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._heartbeat: Heartbeat | None = None
        # Set once a session is established, resumed or refused.
        self._settled = asyncio.Event()
        self._lost = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop

    # -- lifecycle

    async def begin(self) -> None:
        """Return once a server has started a new session."""
        await self.resume(0, NO_PASSWORD)
        while self.state is SessionState.EXPIRED:
            # The session ended before its connection was adopted, so it was never used.
            await self.resume(0, NO_PASSWORD)

    async def resume(self, session_id: int, password: bytes) -> None:
        """Return once a server has accepted or refused the session; id 0 requests a new one."""
        self._loop = asyncio.get_running_loop()
        await self._end_keeper()
        self._reset()
        self.session_id, self.password = session_id, password
        self._keeper = asyncio.create_task(self._keep_connected(), name="coordination-client")
        await self._settled.wait()

    def _reset(self) -> None:
        self.session_id, self.password = 0, NO_PASSWORD
        # The last zxid seen matters for its own session only.
        self._last_zxid = 0
        self.watches.clear()
        self._settled.clear()
        self._lost.clear()
        self._expiry = SessionExpiry(
            self._wanted_timeout_ms, self._wanted_timeout_ms, self._now_ms()
        )
        self._timer = SessionTimer(self._loop, self._on_due)
        self._set_state(SessionState.DISCONNECTED)

    def start_heartbeat(self) -> None:
        """Start the thread that sends pings while the loop is busy, unless it runs already."""
        if self._heartbeat is not None:
            return
        self._heartbeat = Heartbeat(self._loop, self.negotiated_timeout_ms)
        self._heartbeat.start()
        self._attach_heartbeat()

    def _attach_heartbeat(self) -> None:
        connection = self._connection
        if self._heartbeat is None or connection is None or connection.is_lost:
            return
        connection.write_lock = self._heartbeat.lock
        self._heartbeat.attach(connection.transport, self.negotiated_timeout_ms)

    async def stop(self) -> None:
        """Disconnect without ending the session, and fail all requests."""
        if self.state is not SessionState.EXPIRED:
            self._set_state(SessionState.CLOSED)
        self._requests.fail_all(ConnectionLossError(maybe_applied=False))
        await self._end_keeper()
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None

    async def _end_keeper(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_lost:
            connection.abort()

    def on_state_change(self, listener: Callable[[SessionState], None]) -> None:
        """Call `listener` for every new state, in order with events and replies."""
        self._listeners.append(listener)

    # -- connecting

    async def _keep_connected(self) -> None:
        while self.state not in _OVER:
            # An existing session may expire meanwhile, so a round takes a third of its timeout. A
            # new session gets all of it: the server's disk may be slow, and every attempt that is
            # given up leaves a session behind.
            round_ms = self.silence_ms / (3 if self.session_id else 1)
            if await self._connector.attempt(self._new_connection, self._adopt, round_ms):
                await self._lost.wait()

    def _new_connection(self) -> ClientConnection:
        request = ConnectRequest(
            LINGER_PROTOCOL if self._has_linger else 0,
            self._last_zxid,
            self._wanted_timeout_ms,
            self.session_id,
            self.password,
        )
        login = None if self._begin_login is None else self._begin_login()
        return ClientConnection(self, request, self.silence_ms, login)

    async def _adopt(self, connection: ClientConnection, response: ConnectResponse) -> bool:
        if self.state in _OVER:
            # The listeners have been notified of the end, and act on it already.
            return False
        if response.session_id == 0:
            if self.session_id:
                self.expire()
            return False
        if self.session_id not in (0, response.session_id):
            # Another session: the server is broken or hostile. Ours is still alive, or expires.
            return False
        is_new = (response.session_id, response.passwd) != (self.session_id, self.password)
        self.session_id, self.password = response.session_id, response.passwd or NO_PASSWORD
        if is_new and self._file_path is not None:
            # Before the session can create an ephemeral node, which may need this file to end.
            await self._save(self._file_path, connection, response.time_out)
        if connection.is_lost or self.state in _OVER:
            return False
        self._enter_connected(connection, response.time_out)
        return True

    async def _save(self, path: Path, connection: ClientConnection, granted_ms: int) -> None:
        """Save the session, and keep it alive on a slow disk."""
        record = SavedSession(self._servers.text, self.session_id, self.password, os.getpid())
        saving = asyncio.ensure_future(session_file.save(path, record))
        try:
            while not saving.done():
                await asyncio.wait([saving], timeout=granted_ms * PING_PART / 1000)
                if not saving.done():
                    connection.send(PING_PACKET)
            await saving
        finally:
            saving.cancel()
            await asyncio.gather(saving, return_exceptions=True)

    def _enter_connected(self, connection: ClientConnection, granted_ms: int) -> None:
        wanted_ms = self._wanted_timeout_ms
        timeout_ms = min(granted_ms, max(wanted_ms, MAX_RAISED_TIMEOUT_MS))
        self._connection = connection
        self._lost.clear()
        self.negotiated_timeout_ms = timeout_ms
        self.silence_ms = min(timeout_ms, wanted_ms)
        self._expiry = SessionExpiry(timeout_ms, self.silence_ms, self._now_ms())
        self._connector.on_connected()
        self._attach_heartbeat()
        self._rearm()
        for pending in self._requests.take_held():
            self._transmit(pending)
        self._set_state(SessionState.CONNECTED)
        self._settled.set()
        self._schedule()

    def _rearm(self) -> None:
        for request in self.watches.rearm(self._last_zxid):
            is_second = isinstance(request, SetWatches2Request)
            op = OpCode.SET_WATCHES2 if is_second else OpCode.SET_WATCHES
            self._write(frames.encode_request(XID_SET_WATCHES, op, jute.encode(request)))

    # -- time

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    def _schedule(self) -> None:
        assert self._timer is not None, "made with the session"
        self._timer.set(self._expiry.wait_ms(self.state, self._now_ms()))

    def _on_due(self) -> None:
        match self._expiry.due(self.state, self._now_ms()):
            case Due.PING:
                self._write(PING_PACKET)
            case Due.DROP if self._connection is not None:
                self._connection.abort()
            case Due.SUSPECT:
                self._set_state(SessionState.SUSPECT)
                self._requests.fail_held(ConnectionLossError(maybe_applied=False))
            case Due.EXPIRE:
                self.expire()
                return
            case _:
                pass
        self._schedule()

    def expire(self) -> None:
        """End the session on this side, as its server has or will have done."""
        if self._timer is not None:
            self._timer.cancel()
        self.watches.clear()
        self._set_state(SessionState.EXPIRED)
        self._requests.fail_all(SessionExpiredError(ErrorCode.SESSION_EXPIRED))
        if self._connection is not None and not self._connection.is_lost:
            self._connection.abort()
        self._lost.set()
        self._settled.set()

    def _set_state(self, state: SessionState) -> None:
        if state is self.state:
            return
        self.state = state
        for listener in self._listeners:
            # The same queue as for events and replies, to keep their order.
            self._loop.call_soon(listener, state)

    # -- packets

    def _write(self, packet: bytes) -> None:
        assert self._connection is not None, "only while connected"
        self._expiry.sent_ms = self._now_ms()
        self._connection.send(packet)
        if self._heartbeat is not None:
            self._heartbeat.on_sent()

    def on_reply(self, xid: int, zxid: int, err: int, payload: bytes) -> None:
        """Handle a packet; called by the connection in the order of arrival."""
        self._expiry.received_ms = self._now_ms()
        if zxid > self._last_zxid:
            self._last_zxid = zxid
        if xid == XID_NOTIFICATION:
            self._on_event(payload)
        elif xid not in (XID_PING, XID_SET_WATCHES):
            self._requests.on_reply(xid, err, payload)

    def _on_event(self, payload: bytes) -> None:
        event, _ = jute.decode(WatcherEvent, payload, frames.REPLY_HEADER_BYTES)
        try:
            kind = EventType(event.type)
        except ValueError:
            raise JuteError(f"the server sent an event of unknown type {event.type}") from None
        seen = WatchEvent(kind, self._servers.from_server(event.path))
        for callback in self.watches.hit(kind, event.path):
            self._loop.call_soon(callback, seen)

    def on_too_large(self, xid: int, size_bytes: int) -> None:
        """Fail the request with a reply that is too large; called by the connection."""
        self._requests.fail_sent(xid, size_bytes, MAX_REPLY_BYTES)

    def on_lost(self, connection: ClientConnection) -> None:
        """Handle the loss of a connection; called by the connection."""
        if connection is not self._connection:
            return
        self._connection = None
        if self._heartbeat is not None:
            self._heartbeat.detach()
        if self.state is SessionState.CONNECTED:
            self._set_state(SessionState.SUSPENDED)
            self._schedule()
        self._requests.lose_sent()
        self._lost.set()

    # -- requests

    def call(
        self,
        op: int,
        request: tuple[Any, ...] | bytes | None,
        path: str,
        convert: Callable[[bytes], T],
        on_reply_code: Callable[[int], None] | None = None,
    ) -> "asyncio.Future[T]":
        """Send a request; `on_reply_code` gets its error code in the order of the packets."""
        future: asyncio.Future[T] = self._loop.create_future()
        body = request if isinstance(request, bytes) else jute.encode(request) if request else b""
        size_bytes = frames.REQUEST_HEADER_BYTES + len(body)
        if size_bytes > frames.MAX_REQUEST_BYTES:
            # Every server would close the connection at each retry.
            future.set_exception(RequestTooLargeError(size_bytes, frames.MAX_REQUEST_BYTES, path))
            return future
        pending = Pending(self._requests.next_xid(), op, body, path, future, convert, on_reply_code)
        if self.state is SessionState.CONNECTED and self._connection is not None:
            self._transmit(pending)
        elif self.state is SessionState.EXPIRED:
            future.set_exception(SessionExpiredError(ErrorCode.SESSION_EXPIRED, path))
        elif self._may_queue():
            self._requests.hold(pending)
        else:
            future.set_exception(ConnectionLossError(path=path, maybe_applied=False))
        return future

    def _may_queue(self) -> bool:
        waits = self.state in (SessionState.SUSPENDED, SessionState.DISCONNECTED)
        return waits and self._requests.has_room

    def _transmit(self, pending: Pending) -> None:
        self._requests.on_sent(pending)
        self._write(frames.encode_request(pending.xid, pending.op, pending.body))

"""The asyncio client (edge): one session, kept alive across connections.

Guarantees: requests are sent and their replies returned in order. A watch event is dispatched
before the reply that reflects it. A lost connection is reported (`ConnectionLossError`), never
hidden by a retry. A watch survives a reconnect.
"""

import asyncio
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

from coordination.client import session_file
from coordination.client.client_connection import ClientConnection
from coordination.client.connector import Connector
from coordination.client.heartbeat import PING_PACKET, Heartbeat
from coordination.client.hosts import Rotation, parse_connect_string
from coordination.client.operations import Operations
from coordination.client.request_queue import Pending, RequestQueue
from coordination.client.session_clock import Due, SessionClock, SessionState
from coordination.client.session_file import SavedSession
from coordination.client.session_timer import SessionTimer
from coordination.client.watch_registry import WatchEvent
from coordination.errors import (
    ConnectionLossError,
    ErrorCode,
    JuteError,
    OperationError,
    RequestTooLargeError,
    SessionExpiredError,
)
from coordination.protocol import frames, jute
from coordination.protocol.messages import (
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

DEFAULT_SESSION_TIMEOUT_MS: Final = 6000
LINGER_PROTOCOL: Final = 1
_OVER: Final = (SessionState.EXPIRED, SessionState.CLOSED)


class Client(Operations):
    """Session with a coordinator or a ZooKeeper ensemble.

    After EXPIRED every request fails; `connect` then starts a new session, without the old watches.
    Callbacks run in the loop and must not block.
    """

    def __init__(
        self,
        connect_string: str,
        *,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        session_file_path: Path | None = None,
        has_linger: bool = False,
        has_heartbeat_thread: bool = True,
        random: Random | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Create a client that is not connected.

        With `has_linger`, our own coordinator ends the session soon after the connection is lost.
        `has_heartbeat_thread` must be off in a simulated loop.
        """
        self.connect_string = connect_string
        parsed = parse_connect_string(connect_string)
        super().__init__(parsed.chroot)
        self.session_id = 0
        self.password = NO_PASSWORD
        self.last_zxid = 0
        self.state = SessionState.DISCONNECTED
        self.negotiated_timeout_ms = session_timeout_ms
        self._wanted_timeout_ms = session_timeout_ms
        self._connector = Connector(Rotation(parsed.hosts, random or Random()), tls)
        self._session_file_path = session_file_path
        self._has_linger = has_linger
        self._has_heartbeat_thread = has_heartbeat_thread
        self._listeners: list[Callable[[SessionState], None]] = []
        self._requests = RequestQueue()
        self._connection: ClientConnection | None = None
        self._clock: SessionClock
        self._timer: SessionTimer | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._heartbeat: Heartbeat | None = None
        # Set once a session is established, resumed or refused.
        self._settled = asyncio.Event()
        self._lost = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop

    # -- lifecycle

    async def __aenter__(self) -> "Client":
        await self.connect()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def connect(self, timeout_s: float = 30.0) -> None:
        """Establish a session; a new one after EXPIRED.

        Raises:
            ConnectionLossError: no server responded in time.
        """
        over = (SessionState.DISCONNECTED, SessionState.EXPIRED, SessionState.CLOSED)
        assert self.state in over, f"this client has a session already ({self.state.name})"
        try:
            async with asyncio.timeout(timeout_s):
                await self._begin(0, NO_PASSWORD)
                while self.state is SessionState.EXPIRED:
                    # The session ended before its connection was adopted, so it was never used.
                    await self._begin(0, NO_PASSWORD)
        except TimeoutError:
            await self.close()
            raise ConnectionLossError(path=self.connect_string, maybe_applied=False) from None
        if self._has_heartbeat_thread and self._heartbeat is None:
            self._start_heartbeat()

    async def resume(self, session_id: int, password: bytes) -> bool:
        """Take over the session of another process; return whether it is still alive.

        Waits for a server without a timeout.
        """
        await self._begin(session_id, password)
        return self.state is not SessionState.EXPIRED

    async def _begin(self, session_id: int, password: bytes) -> None:
        """Return once a server has accepted or refused the session; id 0 requests a new one."""
        self._loop = asyncio.get_running_loop()
        await self._end_keeper()
        self._reset_session()
        self.session_id, self.password = session_id, password
        self._keeper = asyncio.create_task(self._keep_connected(), name="coordination-client")
        await self._settled.wait()

    def _reset_session(self) -> None:
        self.session_id, self.password = 0, NO_PASSWORD
        # The last zxid seen matters for its own session only.
        self.last_zxid = 0
        self._watches.clear()
        self._settled.clear()
        self._lost.clear()
        self._clock = SessionClock(self._wanted_timeout_ms, self._now_ms())
        self._timer = SessionTimer(self._loop, self._on_due)
        self._set_state(SessionState.DISCONNECTED)

    def _start_heartbeat(self) -> None:
        self._heartbeat = Heartbeat(self._loop, self.negotiated_timeout_ms)
        self._heartbeat.start()
        self._attach_heartbeat()

    def _attach_heartbeat(self) -> None:
        connection = self._connection
        if self._heartbeat is None or connection is None or connection.is_lost:
            return
        connection.write_lock = self._heartbeat.lock
        self._heartbeat.attach(connection.transport, self.negotiated_timeout_ms)

    async def close(self) -> bool:
        """End the session and its ephemeral nodes; return whether the server confirmed it.

        Without a confirmation the session expires one timeout later.
        """
        is_ended = False
        if self.state is SessionState.CONNECTED:
            closing = self._call(OpCode.CLOSE_SESSION, None, "", lambda _payload: None)
            try:
                async with asyncio.timeout(self.negotiated_timeout_ms / 1000):
                    await closing
                is_ended = True
            except (TimeoutError, OperationError):
                pass
        await self.abandon()
        return is_ended

    async def abandon(self) -> None:
        """Stop without ending the session; it expires one timeout later."""
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
            round_ms = self.negotiated_timeout_ms / (3 if self.session_id else 1)
            if await self._connector.attempt(self._new_connection, self._adopt, round_ms):
                await self._lost.wait()

    def _new_connection(self) -> ClientConnection:
        request = ConnectRequest(
            LINGER_PROTOCOL if self._has_linger else 0,
            self.last_zxid,
            self._wanted_timeout_ms,
            self.session_id,
            self.password,
        )
        return ClientConnection(self, request, self.negotiated_timeout_ms)

    async def _adopt(self, connection: ClientConnection, response: ConnectResponse) -> bool:
        if self.state in _OVER:
            # The listeners have been notified of the end, and act on it already.
            return False
        if response.session_id == 0:
            if self.session_id:
                self._expire()
            return False
        if self.session_id not in (0, response.session_id):
            # Another session: the server is broken or hostile. Ours is still alive, or expires.
            return False
        is_new = (response.session_id, response.passwd) != (self.session_id, self.password)
        self.session_id, self.password = response.session_id, response.passwd or NO_PASSWORD
        if is_new and self._session_file_path is not None:
            # Before the session can create an ephemeral node, which may need this file to end.
            record = SavedSession(self.connect_string, self.session_id, self.password, os.getpid())
            await session_file.save(self._session_file_path, record)
        if connection.is_lost or self.state in _OVER:
            return False
        self._enter_connected(connection, response.time_out)
        return True

    def _enter_connected(self, connection: ClientConnection, timeout_ms: int) -> None:
        self._connection = connection
        self._lost.clear()
        self.negotiated_timeout_ms = timeout_ms
        self._clock = SessionClock(timeout_ms, self._now_ms())
        self._connector.on_connected()
        self._attach_heartbeat()
        self._rearm()
        for pending in self._requests.take_held():
            self._transmit(pending)
        self._set_state(SessionState.CONNECTED)
        self._settled.set()
        self._schedule()

    def _rearm(self) -> None:
        for request in self._watches.rearm(self.last_zxid):
            is_second = isinstance(request, SetWatches2Request)
            op = OpCode.SET_WATCHES2 if is_second else OpCode.SET_WATCHES
            self._write(frames.encode_request(XID_SET_WATCHES, op, jute.encode(request)))

    # -- time

    def _now_ms(self) -> float:
        return self._loop.time() * 1000

    def _schedule(self) -> None:
        assert self._timer is not None, "made with the session"
        self._timer.set(self._clock.wait_ms(self.state, self._now_ms()))

    def _on_due(self) -> None:
        match self._clock.due(self.state, self._now_ms()):
            case Due.PING:
                self._write(PING_PACKET)
            case Due.DROP if self._connection is not None:
                self._connection.abort()
            case Due.SUSPECT:
                self._set_state(SessionState.SUSPECT)
                self._requests.fail_held(ConnectionLossError(maybe_applied=False))
            case Due.EXPIRE:
                self._expire()
                return
            case _:
                pass
        self._schedule()

    def _expire(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._watches.clear()
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
        self._clock.sent_ms = self._now_ms()
        self._connection.send(packet)
        if self._heartbeat is not None:
            self._heartbeat.on_sent()

    def on_reply(self, xid: int, zxid: int, err: int, payload: bytes) -> None:
        """Handle a packet; called by the connection in the order of arrival."""
        self._clock.received_ms = self._now_ms()
        if zxid > self.last_zxid:
            self.last_zxid = zxid
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
        seen = WatchEvent(kind, self._from_server(event.path))
        for callback in self._watches.hit(kind, event.path):
            self._loop.call_soon(callback, seen)

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

    def _call(
        self,
        op: int,
        request: tuple[Any, ...] | bytes | None,
        path: str,
        convert: Callable[[bytes], T],
        on_reply_code: Callable[[int], None] | None = None,
    ) -> "asyncio.Future[T]":
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

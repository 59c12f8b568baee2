"""The coordinator's server (edge): connections, session deadlines, the log.

It uses only asyncio's own API, and the wall clock and the log are parameters. A whole cluster can
therefore run in one simulated loop.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import structlog

from coordination.protocol import frames
from coordination.protocol.frames import Handshake
from coordination.protocol.messages import (
    LINGER_PROTOCOL,
    NO_PASSWORD,
    ConnectRequest,
    ConnectResponse,
    OpCode,
)
from coordination.server.authentication import REQUIRES_LOGIN, Authentication, LoginReply
from coordination.server.coordinator_config import CoordinatorConfig
from coordination.server.disk.journal import GroupCommit, Log
from coordination.server.four_letter import Metrics, refusal, respond
from coordination.server.listeners import Listeners
from coordination.server.server_connection import Connection
from coordination.server.state.acl import Identity
from coordination.server.state.service import Service
from coordination.server.state.sessions import Passwords, Session
from coordination.server.tls import ServerTls
from monitoring.samples import Samples

_OP_NAMES: Final = {int(op): op.name for op in OpCode}
_LOGIN_OPS: Final = frozenset(map(int, (OpCode.AUTH, OpCode.SASL)))

log = structlog.get_logger(__name__)


class Server:
    """Server of one coordinator; users only call `start` and then `stop`."""

    def __init__(
        self,
        service: Service,
        wal: Log,
        config: CoordinatorConfig,
        passwords: Passwords,
        *,
        wall_clock_ms: Callable[[], int],
        on_fatal: Callable[[BaseException], None],
        new_nonce: Callable[[], str],
        tls: ServerTls | None = None,
    ) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.metrics = Metrics()
        self.connections: dict[Connection, None] = {}
        # Without a session yet, or without a required identity.
        self._awaiting_handshake: dict[Connection, None] = {}
        # Connections with outputs that can be sent now, and with outputs that wait for a sync.
        self.ready: dict[Connection, None] = {}
        self.holding: dict[Connection, None] = {}
        self.service = service
        self.synced_zxid = service.state.zxid
        self.unsynced_bytes = 0
        self._syncing_bytes = 0
        """The part of `unsynced_bytes` whose sync is in progress."""
        self._wal = wal
        self._passwords = passwords
        self._authentication = Authentication(config, new_nonce)
        self.wall_clock_ms = wall_clock_ms
        self._commit = GroupCommit(
            wal,
            synced_zxid=self.synced_zxid,
            on_synced=self._on_synced,
            on_failure=on_fatal,
            clock=self.loop.time,
        )
        self.listeners = Listeners(self, tls)
        self.is_stopping = False
        self._idle = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._expected_tick_s = 0.0
        self._housekeeping_at_s = 0.0
        self._started_at_s = self.loop.time()

    # -- lifecycle

    async def start(self) -> None:
        """Listen; every recovered session gets a full timeout from now on."""
        self.service.adopt_sessions(self._now_ms())
        self._housekeeping_at_s = self.loop.time() + self.config.container_check_interval_ms / 1000
        self._schedule_tick()
        await self.listeners.open()
        log.info("coordinator.started", listen=self.bound_port, zxid=self.synced_zxid)

    @property
    def bound_port(self) -> int:
        """Port of the plain listener."""
        return self.listeners.bound_port

    @property
    def bound_tls_port(self) -> int | None:
        """Port of the TLS listener, if there is one."""
        return self.listeners.bound_tls_port

    async def stop(self) -> None:
        """Stop listening, sync and answer the accepted requests, and close all connections.

        Sessions are kept: their clients reconnect after the next start.
        """
        self.is_stopping = True
        self.listeners.close()
        if self._timer is not None:
            self._timer.cancel()
        self._kick()
        while self._commit.is_busy:
            self._idle.clear()
            await self._idle.wait()
        for connection in list(self.connections):
            connection.close()
        self._wal.close()
        log.info("coordinator.stopped", zxid=self.synced_zxid)

    # -- time

    def _now_ms(self) -> int:
        return int(self.loop.time() * 1000)

    def _schedule_tick(self) -> None:
        delay_ms = self.config.tick_ms
        due_ms = self.service.sessions.next_check_ms()
        if due_ms is not None:
            delay_ms = max(1, min(delay_ms, due_ms - self._now_ms()))
        self._expected_tick_s = self.loop.time() + delay_ms / 1000
        self._timer = self.loop.call_at(self._expected_tick_s, self._tick)

    def _tick(self) -> None:
        late_ms = int((self.loop.time() - self._expected_tick_s) * 1000)
        if late_ms > self.config.tick_ms:
            # The process was not running, so packets of live clients may be waiting unread.
            self.metrics.stall_count += 1
            self.service.sessions.extend_all(late_ms, self._now_ms())
            log.warning("coordinator.stalled", duration_ms=late_ms)
        self._touch_held_up()
        for session in self.service.sessions.expired(self._now_ms()):
            self._expire(session)
        self._close_without_handshake()
        if self.loop.time() >= self._housekeeping_at_s:
            self.service.delete_spent_nodes(self.wall_clock_ms())
            if not self.service.is_examining:
                self._housekeeping_at_s += self.config.container_check_interval_ms / 1000
        self.after_input()
        self._schedule_tick()

    def _touch_held_up(self) -> None:
        """Keep the sessions whose packets this server leaves unread during a long sync."""
        for connection in self.holding:
            if connection.session is not None and connection.is_held_up:
                self.touch(connection.session, self._now_ms())

    def _expire(self, session: Session) -> None:
        self.metrics.expired_count += 1
        # Sessions cost a stranger nothing, and lines of the log would fill the disk.
        if session.was_authenticated:
            log.info(
                "session.expired",
                session_id=hex(session.session_id),
                timeout_ms=session.timeout_ms,
            )
        self.service.close_session(session.session_id, cxid=0, wall_ms=self.wall_clock_ms())
        if isinstance(session.connection, Connection):
            session.connection.close()

    def _close_without_handshake(self) -> None:
        oldest_s = self.loop.time() - self.config.handshake_timeout_ms / 1000
        # In order of arrival, so the first one within the timeout ends the search.
        for connection in list(self._awaiting_handshake):
            if connection.opened_at_s >= oldest_s:
                return
            timeout_ms = self.config.handshake_timeout_ms
            if connection.is_command:
                # ZooKeeper closes connections without a session after 10 s, too.
                text = f"the response to a command was not read within {timeout_ms} ms"
                self.on_violation(connection, text)
                connection.abort()
            else:
                wanted = "handshake" if connection.session is None else "authentication"
                self.on_violation(connection, f"no {wanted} within {timeout_ms} ms")
                connection.close()
            self._awaiting_handshake.pop(connection, None)

    # -- connections

    def admit(self, connection: Connection, peer: object) -> bool:
        """Admit a client with socket address `peer`, unless it has left or a limit is reached."""
        if not isinstance(peer, tuple):
            # It has reset the connection, so that uvloop has no address, by which rights and limits
            # go. Its requests may have arrived.
            return False
        host, port = peer[0], peer[1]
        connection.peer_name = f"{host}:{port}"
        admission = self.listeners.admission
        refused = "the server is stopping" if self.is_stopping else admission.admit(host)
        if refused is not None:
            self.on_violation(connection, refused)
            return False
        connection.address = host
        self._identify(connection, (Identity("ip", host),))
        return True

    def on_connected(self, connection: Connection, certificate: bytes | None) -> None:
        """Record the connection of an admitted client, which may have shown a certificate."""
        self.connections[connection] = self._awaiting_handshake[connection] = None
        if certificate is None:
            return
        try:
            identities = self._authentication.of_certificate(connection.identities, certificate)
        except ValueError as error:
            self.on_violation(connection, f"certificate: {error}")
            connection.abort()
        else:
            self._identify(connection, identities)

    def _identify(self, connection: Connection, identities: Sequence[Identity]) -> None:
        connection.identities = identities
        connection.is_authenticated = self._authentication.is_sufficient(identities)
        if connection.is_authenticated and connection.session is not None:
            self._awaiting_handshake.pop(connection, None)
            connection.session.was_authenticated = True

    def on_disconnected(self, connection: Connection, *, by_peer: bool) -> None:
        """Forget a lost connection; its session is kept."""
        if connection.address is not None:
            self.listeners.admission.leave(connection.address)
        self.connections.pop(connection, None)
        self._awaiting_handshake.pop(connection, None)
        self.holding.pop(connection, None)
        self._forget_watches(connection)
        session = connection.session
        if session is None or session.connection is not connection:
            return
        session.connection = None
        if not session.was_authenticated:
            # Nobody needs it: no request was allowed.
            self.service.sessions.shorten(session, self._now_ms())
        elif by_peer and session.has_linger and not self.is_stopping:
            self.service.sessions.shorten(session, self._now_ms() + self.config.linger_ms)

    def _forget_watches(self, connection: Connection) -> None:
        if not self.service.forget_peer(connection):
            self.loop.call_soon(self._forget_watches, connection)

    def on_violation(self, connection: Connection, reason: str) -> None:
        """Record that a client violated the protocol or a limit."""
        self.metrics.rejected_count += 1
        host, _, port = connection.peer_name.rpartition(":")
        log.warning("connection.rejected", client_host=host, client_port=port, error=reason)

    def touch(self, session: Session, now_ms: int) -> None:
        """Record the arrival of a packet of a session, at time `now_ms` of the loop."""
        self.service.sessions.touch(session, now_ms)

    # -- requests

    def shake_hands(self, connection: Connection, payload: bytes) -> None:
        """Start or resume a session."""
        handshake = frames.decode_handshake(ConnectRequest, payload)
        request = handshake.record
        assert isinstance(request, ConnectRequest), "decoded as one"
        if request.last_zxid_seen > self.service.state.zxid:
            # The client has seen a newer state, so it must use another server. As in ZooKeeper,
            # there is no response.
            zxid = self.service.state.zxid
            reason = f"client has seen zxid {request.last_zxid_seen}, the server is at {zxid}"
            self.on_violation(connection, reason)
            connection.close()
            return
        if connection.is_authenticated:
            self._awaiting_handshake.pop(connection, None)
        session = self._session_for(connection, request)
        self._send_handshake(connection, handshake, session)

    def _session_for(self, connection: Connection, request: ConnectRequest) -> Session | None:
        limits = self.config
        timeout_ms = min(
            max(request.time_out, limits.min_session_timeout_ms), limits.max_session_timeout_ms
        )
        now_ms, wall_ms = self._now_ms(), self.wall_clock_ms()
        if request.session_id == 0:
            session = self.service.open_session(timeout_ms, now_ms=now_ms, wall_ms=wall_ms)
            session.was_authenticated = False
        else:
            found = self.service.sessions.find(request.session_id)
            if found is None or not self._passwords.accept(request.session_id, request.passwd):
                return None
            session = found
            if isinstance(session.connection, Connection):
                session.connection.close()
            self.service.reattach(session, timeout_ms, now_ms=now_ms, wall_ms=wall_ms)
        if connection.is_authenticated:
            session.was_authenticated = True
        session.connection = connection
        session.has_linger = request.protocol_version == LINGER_PROTOCOL
        connection.session, connection.session_id = session, session.session_id
        return session

    def _send_handshake(
        self, connection: Connection, handshake: Handshake, session: Session | None
    ) -> None:
        if session is None:
            response, tag = ConnectResponse(0, 0, 0, NO_PASSWORD), self.service.state.zxid
        else:
            protocol = LINGER_PROTOCOL if session.has_linger else 0
            password = self._passwords.issue(session.session_id)
            response = ConnectResponse(protocol, session.timeout_ms, session.session_id, password)
            # Changes of others may wait for a slow disk, during which no session must be lost.
            tag = session.changed_zxid
        read_only = None if handshake.read_only is None else False
        connection.deliver(frames.encode_handshake(Handshake(response, read_only)), tag)
        if session is None:
            connection.close_after_outputs(tag)

    def run_request(
        self, connection: Connection, xid: int, op: int, payload: bytes, wall_ms: int
    ) -> None:
        """Run one request, at time `wall_ms`, and queue its reply."""
        if op in _LOGIN_OPS:
            self._log_in(connection, xid, op, payload)
            return
        if not connection.is_authenticated:
            self._refuse(connection, xid, REQUIRES_LOGIN)
            return
        connection.last_op = _OP_NAMES.get(op) or str(op)
        zxid = self.service.state.zxid
        reply = self.service.handle(
            connection, xid, op, payload, frames.REQUEST_HEADER_BYTES, wall_ms
        )
        if self.service.state.zxid != zxid:
            self.unsynced_bytes += len(payload)
        connection.reply(xid, reply.err, reply.body, reply.tag)
        if reply.closes:
            connection.close_after_outputs(reply.tag)

    def _log_in(self, connection: Connection, xid: int, op: int, payload: bytes) -> None:
        reply = self._authentication.log_in(connection, op, payload, frames.REQUEST_HEADER_BYTES)
        if reply.refusal is not None:
            self._refuse(connection, xid, reply)
            return
        self._identify(connection, reply.identities)
        connection.reply(xid, reply.err, reply.body, 0)

    def _refuse(self, connection: Connection, xid: int, reply: LoginReply) -> None:
        self.on_violation(connection, reply.refusal or "")
        connection.reply(xid, reply.err, reply.body, 0)
        connection.close_after_outputs(0)

    # -- four-letter words

    def run_command(self, command: str) -> Iterator[bytes]:
        """Yield the parts of the response to a four-letter word, or its refusal if disabled."""
        if not self.config.allows_command(command):
            yield refusal(command).encode()
            return
        for part in respond(command, self):
            yield part.encode()

    @property
    def uptime_ms(self) -> int:
        """Time since the start."""
        return int((self.loop.time() - self._started_at_s) * 1000)

    @property
    def sync_count(self) -> int:
        """Number of syncs of the log."""
        return self._commit.sync_count

    @property
    def sync_times_ms(self) -> Samples:
        """Times of syncs of the log."""
        return self._commit.sync_times_ms

    @property
    def unsynced_count(self) -> int:
        """Number of transactions that are not on disk yet."""
        return self.service.state.zxid - self.synced_zxid

    # -- outputs

    def after_input(self) -> None:
        """Send the outputs that are ready, and start a sync for the others.

        Called after every batch of input.
        """
        if self.ready:
            ready, self.ready = self.ready, {}
            for connection in ready:
                connection.flush()
        # Most input writes nothing.
        if self.service.entries:
            self._kick()

    def _kick(self) -> None:
        """Start a sync of all waiting entries, unless one is in progress."""
        if not self._commit.is_busy:
            self._syncing_bytes = self.unsynced_bytes
        self._commit.kick(self.service.entries)

    def _on_synced(self, zxid: int) -> None:
        self.synced_zxid = zxid
        self.unsynced_bytes -= self._syncing_bytes
        # The next batch comes first, so that the disk works while outputs are sent.
        self._kick()
        for connection in list(self.holding):
            connection.release(zxid)
            if not connection.held_count:
                self.holding.pop(connection, None)
        if not self._commit.is_busy:
            self._idle.set()

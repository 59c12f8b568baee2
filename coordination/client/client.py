"""The asyncio client (edge): a facade over one session and the requests of its user.

Guarantees: requests are sent and their replies returned in order. A watch event is dispatched
before the reply that reflects it. A lost connection is reported (`ConnectionLossError`), never
hidden by a retry. A watch survives a reconnect.
"""

import asyncio
import math
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

from coordination.client import ops as operations
from coordination.client.client_session import ClientSession
from coordination.client.connector import Connector, Tls
from coordination.client.hosts import Rotation, parse_connect_string
from coordination.client.login import Login, LoginExchange
from coordination.client.session_expiry import SessionState
from coordination.client.watch_registry import Callback, Kind
from coordination.errors import ConnectionLossError, ErrorCode, MultiError, OperationError
from coordination.protocol import frames, jute, multi
from coordination.protocol.messages import (
    OPEN_ACL,
    SHAPES,
    Acl,
    AddWatchMode,
    AddWatchRequest,
    CreateFlag,
    CreateRequest,
    CreateTtlRequest,
    OpCode,
    PathRequest,
    ReadRequest,
    Stat,
    WatcherType,
    WatchesRequest,
)
from coordination.protocol.multi import Op, Result

T = TypeVar("T")
DEFAULT_SESSION_TIMEOUT_MS: Final = 6000
NONCE_BYTES: Final = 24


class Client:
    """Client of a coordinator or a ZooKeeper ensemble; paths are relative to the chroot.

    A request method sends its request at once and returns a future of the result, so a caller may
    start many and await them together. After EXPIRED every request fails; `connect` then starts a
    new session, without the old watches. Callbacks run in the loop and must not block.
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
        tls: Tls | None = None,
        login: Login | None = None,
    ) -> None:
        """Create a client that is not connected.

        With `has_linger`, our own coordinator ends the session soon after the connection is lost.
        `has_heartbeat_thread` must be off in a simulated loop.
        """
        self.connect_string = connect_string
        self._servers = parse_connect_string(connect_string)
        self._connector = Connector(Rotation(self._servers.hosts, random or Random()), tls)
        self.session = ClientSession(
            self._servers,
            self._connector,
            timeout_ms=session_timeout_ms,
            has_linger=has_linger,
            file_path=session_file_path,
            begin_login=None if login is None else partial(_begin, login),
        )
        self.default_acl: Callable[[str], Sequence[Acl]] = lambda _path: OPEN_ACL
        """Returns the ACL of a new node, by its path."""
        self._has_heartbeat_thread = has_heartbeat_thread

    # -- lifecycle

    async def __aenter__(self) -> "Client":
        await self.connect()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    @property
    def state(self) -> SessionState:
        """State of the session."""
        return self.session.state

    @property
    def session_id(self) -> int:
        """Id of the session; 0 without one."""
        return self.session.session_id

    @property
    def failure(self) -> str | None:
        """Reason of the last failed attempt to connect, since there was a connection."""
        return self._connector.failure

    async def connect(self, timeout_s: float = 30.0) -> None:
        """Establish a session; a new one after EXPIRED.

        Raises:
            ConnectionLossError: no server responded in time.
        """
        over = (SessionState.DISCONNECTED, SessionState.EXPIRED, SessionState.CLOSED)
        assert self.state in over, f"this client has a session already ({self.state.name})"
        try:
            async with asyncio.timeout(timeout_s):
                await self.session.begin()
        except TimeoutError:
            await self.close()
            raise ConnectionLossError(path=self.connect_string, maybe_applied=False) from None
        if self._has_heartbeat_thread:
            self.session.start_heartbeat()

    async def resume(self, session_id: int, password: bytes) -> bool:
        """Take over the session of another process; return whether it is still alive.

        Waits for a server without a timeout.
        """
        await self.session.resume(session_id, password)
        return self.state is not SessionState.EXPIRED

    async def close(self, longest_s: float = math.inf) -> bool:
        """End the session and its ephemeral nodes; return whether the server confirmed it.

        Waits for at most `longest_s`, and for no longer than for any other response. Without a
        confirmation the session expires one timeout later, unless the server gets the request.
        """
        is_ended = False
        if self.state is SessionState.CONNECTED:
            closing = self.session.call(OpCode.CLOSE_SESSION, None, "", _nothing)
            try:
                async with asyncio.timeout(min(longest_s, self.session.silence_ms / 1000)):
                    await closing
                is_ended = True
            except (TimeoutError, OperationError):
                pass
        await self.abandon()
        return is_ended

    async def abandon(self) -> None:
        """Stop without ending the session; it expires one timeout later."""
        await self.session.stop()

    def on_state_change(self, listener: Callable[[SessionState], None]) -> None:
        """Call `listener` for every new state, in order with events and replies."""
        self.session.on_state_change(listener)

    # -- requests

    def create(
        self,
        path: str,
        data: bytes | None = b"",
        *,
        acl: Sequence[Acl] | None = None,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> "asyncio.Future[str]":
        """Create a node; the future holds its path, with the suffix of a sequential one."""
        op = operations.create(
            path,
            data,
            acl=acl or self.default_acl(path),
            ephemeral=ephemeral,
            sequential=sequential,
        )
        return self._send(op, self._path_of)

    def create_with_stat(
        self,
        path: str,
        data: bytes | None = b"",
        *,
        acl: Sequence[Acl] | None = None,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> "asyncio.Future[tuple[str, Stat]]":
        """Create a node; the future holds its path and its Stat."""
        op = operations.create(
            path,
            data,
            acl=acl or self.default_acl(path),
            ephemeral=ephemeral,
            sequential=sequential,
        )
        return self._send(Op(OpCode.CREATE2, op.request), self._path_and_stat_of)

    def create_container(
        self, path: str, data: bytes | None = b"", *, acl: Sequence[Acl] | None = None
    ) -> "asyncio.Future[tuple[str, Stat]]":
        """Create a container node, deleted some time after its last child is deleted."""
        acl = self.default_acl(path) if acl is None else acl
        request = CreateRequest(path, data, acl, CreateFlag.CONTAINER)
        return self._send(Op(OpCode.CREATE_CONTAINER, request), self._path_and_stat_of)

    def create_ttl(
        self,
        path: str,
        data: bytes | None,
        ttl_ms: int,
        *,
        acl: Sequence[Acl] | None = None,
        sequential: bool = False,
    ) -> "asyncio.Future[tuple[str, Stat]]":
        """Create a node that is deleted `ttl_ms` after its last change, unless it has children."""
        flags = CreateFlag.TTL_SEQUENTIAL if sequential else CreateFlag.TTL
        acl = self.default_acl(path) if acl is None else acl
        request = CreateTtlRequest(path, data, acl, flags, ttl_ms)
        return self._send(Op(OpCode.CREATE_TTL, request), self._path_and_stat_of)

    async def create_chroot(self) -> None:
        """Create the missing nodes of the chroot, as Kafka's client does.

        A node that exists is left alone, so that no right to create another one is needed.
        """
        missing: list[str] = []
        path = self._servers.chroot
        while path and not await self._has_on_server(path):
            missing.append(path)
            path = path.rpartition("/")[0]
        for each in reversed(missing):
            op = operations.create(each, None, acl=self.default_acl(each))
            try:
                # Not by `_send`, because these paths are the server's.
                await self.session.call(op.type, op.request, each, _nothing)
            except OperationError as error:
                if error.code is not ErrorCode.NODE_EXISTS:
                    raise

    async def _has_on_server(self, path: str) -> bool:
        try:
            request = ReadRequest(path, watch=False)
            await self.session.call(OpCode.EXISTS, request, path, _nothing)
        except OperationError as error:
            # Some servers reveal an existing node only to its readers.
            if error.code in (ErrorCode.NO_NODE, ErrorCode.NO_AUTH):
                return error.code is ErrorCode.NO_AUTH
            raise
        return True

    def delete(self, path: str, version: int = -1) -> "asyncio.Future[None]":
        """Delete a node without children."""
        return self._send(operations.delete(path, version), _nothing)

    def set_data(self, path: str, data: bytes | None, version: int = -1) -> "asyncio.Future[Stat]":
        """Replace the data of a node."""
        return self._send(operations.set_data(path, data, version), _stat_of)

    def get_data(
        self, path: str, watch: Callback | None = None
    ) -> "asyncio.Future[tuple[bytes | None, Stat]]":
        """Read a node; `watch` is called once when it is changed or deleted."""
        op = Op(OpCode.GET_DATA, ReadRequest(path, watch is not None))
        return self._send(op, _data_of, self._registering(Kind.DATA, path, watch))

    async def exists(self, path: str, watch: Callback | None = None) -> Stat | None:
        """Return the Stat of a node, or None; `watch` is called once when the result changes."""

        def register(err: int) -> None:
            if watch is not None and err in (0, ErrorCode.NO_NODE):
                kind = Kind.EXIST if err else Kind.DATA
                self.session.watches.add(kind, self._servers.to_server(path), watch)

        try:
            op = Op(OpCode.EXISTS, ReadRequest(path, watch is not None))
            return await self._send(op, _stat_of, register)
        except OperationError as error:
            if error.code is ErrorCode.NO_NODE:
                return None
            raise

    def get_children(self, path: str, watch: Callback | None = None) -> "asyncio.Future[list[str]]":
        """Return the children's names; `watch` is called once when one is created or deleted."""
        op = Op(OpCode.GET_CHILDREN, ReadRequest(path, watch is not None))
        return self._send(op, _children_of, self._registering(Kind.CHILD, path, watch))

    def get_acl(self, path: str) -> "asyncio.Future[tuple[tuple[Acl, ...], Stat]]":
        """Return the ACL of a node."""
        return self._send(Op(OpCode.GET_ACL, PathRequest(path)), _acl_of)

    def sync(self, path: str = "/") -> "asyncio.Future[None]":
        """Bring the server of an ensemble up to date with the leader, for the following reads."""
        return self._send(Op(OpCode.SYNC, PathRequest(path)), _nothing)

    def multi(self, ops: Iterable[Op]) -> "asyncio.Future[list[Result]]":
        """Apply all operations or none; the future holds the result of each.

        Raises (when awaited):
            MultiError: an operation was refused; `codes` holds the code of each.
        """
        mapped = [self._to_server(op) for op in ops]
        convert = partial(self._results_of, len(mapped))
        return self.session.call(OpCode.MULTI, multi.encode_ops(mapped), "", convert)

    def multi_read(self, ops: Iterable[Op]) -> "asyncio.Future[list[Result]]":
        """Read many nodes in one round trip; each result has its own error code."""
        mapped = [self._to_server(op) for op in ops]
        convert = partial(_read_results_of, len(mapped))
        return self.session.call(OpCode.MULTI_READ, multi.encode_ops(mapped), "", convert)

    def add_watch(self, path: str, callback: Callback) -> "asyncio.Future[None]":
        """Call `callback` for every change until `remove_watches`.

        Changes during a lost connection are not reported: read the nodes again after a reconnect.
        """
        op = Op(OpCode.ADD_WATCH, AddWatchRequest(path, AddWatchMode.PERSISTENT))
        return self._send(op, _nothing, self._registering(Kind.PERSISTENT, path, callback))

    def remove_watches(self, path: str) -> "asyncio.Future[None]":
        """Remove every watch on `path`."""

        def forget(err: int) -> None:
            if err in (0, ErrorCode.NO_WATCHER):
                self.session.watches.remove(self._servers.to_server(path))

        op = Op(OpCode.REMOVE_WATCHES, WatchesRequest(path, WatcherType.ANY))
        return self._send(op, _nothing, forget)

    def _send(
        self,
        op: Op,
        convert: Callable[[bytes], T],
        on_reply_code: Callable[[int], None] | None = None,
    ) -> "asyncio.Future[T]":
        request: Any = op.request
        sent = self._to_server(op).request
        return self.session.call(op.type, sent, request.path, convert, on_reply_code)

    def _registering(
        self, kind: Kind, path: str, watch: Callback | None
    ) -> Callable[[int], None] | None:
        if watch is None:
            return None

        def register(err: int) -> None:
            if not err:
                self.session.watches.add(kind, self._servers.to_server(path), watch)

        return register

    # -- paths and responses

    def _to_server(self, op: Op) -> Op:
        if not self._servers.chroot:
            return op
        request: Any = op.request
        return Op(op.type, request._replace(path=self._servers.to_server(request.path)))

    def _path_of(self, payload: bytes) -> str:
        response: Any = _decode(OpCode.CREATE, payload)
        return self._servers.from_server(response.path)

    def _path_and_stat_of(self, payload: bytes) -> tuple[str, Stat]:
        response: Any = _decode(OpCode.CREATE2, payload)
        return self._servers.from_server(response.path), response.stat

    def _results_of(self, count: int, payload: bytes) -> list[Result]:
        results = _read_results_of(count, payload)
        codes = [result.err for result in results]
        if any(codes):
            raise MultiError(codes)
        return [self._result_from_server(result) for result in results]

    def _result_from_server(self, result: Result) -> Result:
        response: Any = result.response
        if result.type != OpCode.CREATE or response is None:
            return result
        return result._replace(
            response=response._replace(path=self._servers.from_server(response.path))
        )


def _begin(login: Login) -> LoginExchange:
    return LoginExchange(login, lambda: secrets.token_urlsafe(NONCE_BYTES))


def _decode(op: OpCode, payload: bytes) -> tuple[object, ...]:
    kind = SHAPES[op].response
    assert kind is not None, "an operation with a response body"
    return jute.decode(kind, payload, frames.REPLY_HEADER_BYTES)[0]


def _nothing(_payload: bytes) -> None:
    return None


def _stat_of(payload: bytes) -> Stat:
    response: Any = _decode(OpCode.EXISTS, payload)
    stat: Stat = response.stat
    return stat


def _data_of(payload: bytes) -> tuple[bytes | None, Stat]:
    response: Any = _decode(OpCode.GET_DATA, payload)
    return response.data, response.stat


def _children_of(payload: bytes) -> list[str]:
    response: Any = _decode(OpCode.GET_CHILDREN, payload)
    return list(response.children)


def _acl_of(payload: bytes) -> tuple[tuple[Acl, ...], Stat]:
    response: Any = _decode(OpCode.GET_ACL, payload)
    return tuple(response.acl), response.stat


def _read_results_of(count: int, payload: bytes) -> list[Result]:
    return multi.decode_results(payload, frames.REPLY_HEADER_BYTES, max_count=count)

"""Requests of a client (edge): each method sends one and returns a future of its result.

Requests are sent in the order of the calls, so a caller may start many and await them together.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from coordination.client.client_connection import decode_body
from coordination.client.watch_registry import Callback, Kind, WatchRegistry
from coordination.errors import ErrorCode, MultiError, OperationError
from coordination.protocol import frames, multi
from coordination.protocol.messages import (
    OPEN_ACL,
    SHAPES,
    Acl,
    AddWatchMode,
    AddWatchRequest,
    CreateFlag,
    CreateRequest,
    CreateTtlRequest,
    DeleteRequest,
    OpCode,
    PathRequest,
    ReadRequest,
    SetDataRequest,
    Stat,
    WatcherType,
    WatchesRequest,
)
from coordination.protocol.multi import Op, Result

T = TypeVar("T")


class Operations(ABC):
    """Operations of a session; paths are relative to the chroot."""

    def __init__(self, chroot: str) -> None:
        self.chroot = chroot
        self._watches = WatchRegistry()

    @abstractmethod
    def _call(
        self,
        op: int,
        request: tuple[Any, ...] | bytes | None,
        path: str,
        convert: Callable[[bytes], T],
        on_reply_code: Callable[[int], None] | None = None,
    ) -> "asyncio.Future[T]":
        """Send a request; `on_reply_code` gets its error code in the order of the packets."""

    def create(
        self,
        path: str,
        data: bytes | None = b"",
        *,
        acl: Sequence[Acl] = OPEN_ACL,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> "asyncio.Future[str]":
        """Create a node; the future holds its path, with the suffix of a sequential one."""
        request = CreateRequest(
            self._to_server(path), data, acl, create_flags(ephemeral, sequential)
        )
        return self._call(OpCode.CREATE, request, path, self._path_of)

    async def create_chroot(self) -> None:
        """Create the missing nodes of the chroot, as Kafka's client does."""
        names = self.chroot.split("/")[1:]
        for depth in range(1, len(names) + 1):
            path = "/" + "/".join(names[:depth])
            flags = create_flags(ephemeral=False, sequential=False)
            request = CreateRequest(path, None, OPEN_ACL, flags)
            try:
                await self._call(OpCode.CREATE, request, path, lambda _payload: None)
            except OperationError as error:
                if error.code is not ErrorCode.NODE_EXISTS:
                    raise

    def create_with_stat(
        self,
        path: str,
        data: bytes | None = b"",
        *,
        acl: Sequence[Acl] = OPEN_ACL,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> "asyncio.Future[tuple[str, Stat]]":
        """Create a node; the future holds its path and its Stat."""
        request = CreateRequest(
            self._to_server(path), data, acl, create_flags(ephemeral, sequential)
        )
        return self._call(OpCode.CREATE2, request, path, self._path_and_stat_of)

    def create_container(
        self, path: str, data: bytes | None = b"", *, acl: Sequence[Acl] = OPEN_ACL
    ) -> "asyncio.Future[tuple[str, Stat]]":
        """Create a container node, deleted some time after its last child is deleted."""
        request = CreateRequest(self._to_server(path), data, acl, CreateFlag.CONTAINER)
        return self._call(OpCode.CREATE_CONTAINER, request, path, self._path_and_stat_of)

    def create_ttl(
        self,
        path: str,
        data: bytes | None,
        ttl_ms: int,
        *,
        acl: Sequence[Acl] = OPEN_ACL,
        sequential: bool = False,
    ) -> "asyncio.Future[tuple[str, Stat]]":
        """Create a node that is deleted `ttl_ms` after its last change, unless it has children."""
        flags = CreateFlag.TTL_SEQUENTIAL if sequential else CreateFlag.TTL
        request = CreateTtlRequest(self._to_server(path), data, acl, flags, ttl_ms)
        return self._call(OpCode.CREATE_TTL, request, path, self._path_and_stat_of)

    def delete(self, path: str, version: int = -1) -> "asyncio.Future[None]":
        """Delete a node without children."""
        request = DeleteRequest(self._to_server(path), version)
        return self._call(OpCode.DELETE, request, path, lambda _payload: None)

    def set_data(self, path: str, data: bytes | None, version: int = -1) -> "asyncio.Future[Stat]":
        """Replace the data of a node."""
        request = SetDataRequest(self._to_server(path), data, version)
        return self._call(OpCode.SET_DATA, request, path, _stat_of)

    def get_data(
        self, path: str, watch: Callback | None = None
    ) -> "asyncio.Future[tuple[bytes | None, Stat]]":
        """Read a node; `watch` is called once when it is changed or deleted."""
        server_path = self._to_server(path)
        request = ReadRequest(server_path, watch is not None)
        register = self._registering(Kind.DATA, server_path, watch)
        return self._call(OpCode.GET_DATA, request, path, _data_of, register)

    async def exists(self, path: str, watch: Callback | None = None) -> Stat | None:
        """Return the Stat of a node, or None; `watch` is called once when the result changes."""
        server_path = self._to_server(path)

        def register(err: int) -> None:
            if watch is not None and err in (0, ErrorCode.NO_NODE):
                kind = Kind.EXIST if err else Kind.DATA
                self._watches.add(kind, server_path, watch)

        request = ReadRequest(server_path, watch is not None)
        try:
            return await self._call(OpCode.EXISTS, request, path, _stat_of, register)
        except OperationError as error:
            if error.code is ErrorCode.NO_NODE:
                return None
            raise

    def get_children(self, path: str, watch: Callback | None = None) -> "asyncio.Future[list[str]]":
        """Return the children's names; `watch` is called once when one is created or deleted."""
        server_path = self._to_server(path)
        request = ReadRequest(server_path, watch is not None)
        register = self._registering(Kind.CHILD, server_path, watch)
        return self._call(OpCode.GET_CHILDREN, request, path, _children_of, register)

    def get_acl(self, path: str) -> "asyncio.Future[tuple[tuple[Acl, ...], Stat]]":
        """Return the ACL of a node."""
        return self._call(OpCode.GET_ACL, PathRequest(self._to_server(path)), path, _acl_of)

    def sync(self, path: str = "/") -> "asyncio.Future[None]":
        """Bring the server of an ensemble up to date with the leader, for the following reads."""
        request = PathRequest(self._to_server(path))
        return self._call(OpCode.SYNC, request, path, lambda _payload: None)

    def multi(self, ops: Iterable[Op]) -> "asyncio.Future[list[Result]]":
        """Apply all operations or none; the future holds the result of each.

        Raises (when awaited):
            MultiError: an operation was refused; `codes` holds the code of each.
        """
        mapped = [self._op_to_server(op) for op in ops]
        convert = partial(self._results_of, len(mapped))
        return self._call(OpCode.MULTI, multi.encode_ops(mapped), "", convert)

    def multi_read(self, ops: Iterable[Op]) -> "asyncio.Future[list[Result]]":
        """Read many nodes in one round trip; each result has its own error code."""
        mapped = [self._op_to_server(op) for op in ops]
        convert = partial(_read_results_of, len(mapped))
        return self._call(OpCode.MULTI_READ, multi.encode_ops(mapped), "", convert)

    def add_watch(self, path: str, callback: Callback) -> "asyncio.Future[None]":
        """Call `callback` for every change until `remove_watches`.

        Changes during a lost connection are not reported: read the nodes again after a reconnect.
        """
        server_path = self._to_server(path)
        register = self._registering(Kind.PERSISTENT, server_path, callback)
        request = AddWatchRequest(server_path, AddWatchMode.PERSISTENT)
        return self._call(OpCode.ADD_WATCH, request, path, lambda _payload: None, register)

    def remove_watches(self, path: str) -> "asyncio.Future[None]":
        """Remove every watch on `path`."""
        server_path = self._to_server(path)

        def forget(err: int) -> None:
            if err in (0, ErrorCode.NO_WATCHER):
                self._watches.remove(server_path)

        request = WatchesRequest(server_path, WatcherType.ANY)
        return self._call(OpCode.REMOVE_WATCHES, request, path, lambda _payload: None, forget)

    def _registering(
        self, kind: Kind, server_path: str, watch: Callback | None
    ) -> Callable[[int], None] | None:
        if watch is None:
            return None

        def register(err: int) -> None:
            if not err:
                self._watches.add(kind, server_path, watch)

        return register

    # -- paths and responses

    def _to_server(self, path: str) -> str:
        if not self.chroot:
            return path
        return self.chroot if path == "/" else self.chroot + path

    def _from_server(self, path: str) -> str:
        if not self.chroot or not path.startswith(self.chroot):
            return path
        return path[len(self.chroot) :] or "/"

    def _op_to_server(self, op: Op) -> Op:
        if not self.chroot:
            return op
        request: Any = op.request
        return Op(op.type, request._replace(path=self._to_server(request.path)))

    def _path_of(self, payload: bytes) -> str:
        response: Any = _decode(OpCode.CREATE, payload)
        return self._from_server(response.path)

    def _path_and_stat_of(self, payload: bytes) -> tuple[str, Stat]:
        response: Any = _decode(OpCode.CREATE2, payload)
        return self._from_server(response.path), response.stat

    def _results_of(self, count: int, payload: bytes) -> list[Result]:
        results = _read_results_of(count, payload)
        codes = [result.err for result in results]
        if any(codes):
            raise MultiError(codes)
        return [self._result_from_server(result) for result in results]

    def _result_from_server(self, result: Result) -> Result:
        response: Any = result.response
        if not self.chroot or result.type != OpCode.CREATE or response is None:
            return result
        return result._replace(response=response._replace(path=self._from_server(response.path)))


def create_flags(ephemeral: bool, sequential: bool) -> CreateFlag:
    """Return the flags of a create request."""
    if ephemeral:
        return CreateFlag.EPHEMERAL_SEQUENTIAL if sequential else CreateFlag.EPHEMERAL
    return CreateFlag.PERSISTENT_SEQUENTIAL if sequential else CreateFlag.PERSISTENT


def _decode(op: OpCode, payload: bytes) -> tuple[object, ...]:
    kind = SHAPES[op].response
    assert kind is not None, "an operation with a response body"
    return decode_body(kind, payload)


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

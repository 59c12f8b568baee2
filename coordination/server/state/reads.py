"""Read requests (decision): the body of the reply, and the transaction that it reflects.

`tag` is the zxid of the last transaction that the reply reflects; the reply must not be sent before
that transaction is on disk. An error may reflect the whole tree, so its tag is the last zxid.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeAlias

from coordination.errors import ErrorCode, JuteError, OperationError
from coordination.protocol import multi
from coordination.protocol.messages import (
    AddWatchMode,
    AddWatchRequest,
    Children2Response,
    ChildrenResponse,
    ClientInfo,
    CountResponse,
    ErrorResponse,
    GetAclResponse,
    GetDataResponse,
    GetEphemeralsRequest,
    OpCode,
    PathRequest,
    PathResponse,
    ReadRequest,
    StatResponse,
    WatcherType,
    WatchesRequest,
    WhoAmIResponse,
)
from coordination.protocol.multi import Op, Result
from coordination.server.state import acl as access
from coordination.server.state.acl import Permission
from coordination.server.state.tree import Node, State
from coordination.server.state.watches import Mode, W, Watches
from coordination.server.state.writes import Caller

MAX_MULTI_READ_BYTES: Final = 2 * 1024 * 1024
"""Limit of one multiRead; reads beyond it are refused with THROTTLED_OP."""


NAME_BYTES: Final = 16
"""Overhead counted per child's name, as many short names take as long as large data."""


class TaggedResponse(NamedTuple):
    """Reply record (None: no body) and its tag."""

    response: tuple[Any, ...] | None
    tag: int


Read: TypeAlias = Callable[[Caller, W, Any], TaggedResponse]
"""Function that runs a read: from the caller, the owner of a new watch, and the request."""


class Reads(Generic[W]):
    """Read operations on the state, and the watches that they set."""

    def __init__(self, state: State, watches: Watches[W]) -> None:
        self._state = state
        self._watches = watches
        self._handlers: Final[dict[int, Read[W]]] = {
            OpCode.GET_DATA: self._get_data,
            OpCode.EXISTS: self._exists,
            OpCode.GET_CHILDREN: self._get_children,
            OpCode.GET_CHILDREN2: self._get_children2,
            OpCode.GET_ACL: self._get_acl,
            OpCode.SYNC: self._sync,
            OpCode.PING: self._nothing,
            OpCode.GET_EPHEMERALS: self._get_ephemerals,
            OpCode.GET_ALL_CHILDREN_NUMBER: self._count,
            OpCode.WHO_AM_I: self._identify,
            OpCode.ADD_WATCH: self._add_watch,
            OpCode.CHECK_WATCHES: self._check_watches,
            OpCode.REMOVE_WATCHES: self._remove_watches,
        }

    def find(self, op: int) -> "Read[W] | None":
        """Return the function that runs requests `op`; None if these are not reads.

        It raises OperationError if it refuses the read, and JuteError if an argument is invalid.
        """
        return self._handlers.get(op)

    def run_many(self, caller: Caller, watcher: W, ops: list[Op]) -> tuple[list[Result], int]:
        """Return the results of a multiRead and its tag; a failed read does not fail the others.

        After `MAX_MULTI_READ_BYTES` of results, further reads are refused with THROTTLED_OP.
        """
        results, tag, size_bytes = [], 0, 0
        for op in ops:
            if size_bytes >= MAX_MULTI_READ_BYTES:
                results.append(multi.error_result(ErrorCode.THROTTLED_OP))
                continue
            try:
                result = self._handlers[op.type](caller, watcher, op.request)
                results.append(Result(op.type, result.response))
                size_bytes += _content_bytes(result.response)
                tag = max(tag, result.tag)
            except OperationError as error:
                results.append(multi.error_result(error.code))
                tag = self._state.zxid
        return results, tag

    def _get_data(self, caller: Caller, watcher: W, request: ReadRequest) -> TaggedResponse:
        node = self._readable(caller, request.path)
        if request.watch:
            self._watches.data.add(request.path, watcher, Mode.ONE_SHOT)
        return TaggedResponse(GetDataResponse(node.data, node.stat()), node.changed_zxid)

    def _exists(self, caller: Caller, watcher: W, request: ReadRequest) -> TaggedResponse:
        node = self._state.tree.nodes.get(request.path)
        if node is not None:
            access.require(node.acl, Permission.READ, caller.identities, request.path)
        # Also for a missing node.
        if request.watch:
            self._watches.data.add(request.path, watcher, Mode.ONE_SHOT)
        if node is None:
            raise OperationError.of(ErrorCode.NO_NODE, request.path)
        return TaggedResponse(StatResponse(node.stat()), node.changed_zxid)

    def _get_children(self, caller: Caller, watcher: W, request: ReadRequest) -> TaggedResponse:
        node = self._listed(caller, watcher, request)
        return TaggedResponse(ChildrenResponse(tuple(node.children or ())), node.changed_zxid)

    def _get_children2(self, caller: Caller, watcher: W, request: ReadRequest) -> TaggedResponse:
        node = self._listed(caller, watcher, request)
        return TaggedResponse(
            Children2Response(tuple(node.children or ()), node.stat()), node.changed_zxid
        )

    def _listed(self, caller: Caller, watcher: W, request: ReadRequest) -> Node:
        node = self._readable(caller, request.path)
        if request.watch:
            self._watches.children.add(request.path, watcher, Mode.ONE_SHOT)
        return node

    def _get_acl(self, caller: Caller, _watcher: W, request: PathRequest) -> TaggedResponse:
        node = self._must_find(request.path)
        identities = caller.identities
        access.require(node.acl, Permission.READ | Permission.ADMIN, identities, request.path)
        try:
            access.require(node.acl, Permission.ADMIN, identities, request.path)
            shown = node.acl
        except OperationError:
            shown = access.masked(node.acl)
        return TaggedResponse(GetAclResponse(shown, node.stat()), node.changed_zxid)

    def _sync(self, _caller: Caller, _watcher: W, request: PathRequest) -> TaggedResponse:
        return TaggedResponse(PathResponse(request.path), self._state.zxid)

    def _nothing(self, _caller: Caller, _watcher: W, _request: None) -> TaggedResponse:
        return TaggedResponse(None, 0)

    def _get_ephemerals(
        self, caller: Caller, _watcher: W, request: GetEphemeralsRequest
    ) -> TaggedResponse:
        owned = self._state.tree.ephemerals.get(caller.session_id, {})
        prefix = request.prefix_path or ""
        everything = prefix.strip() in ("", "/")
        found = tuple(path for path in owned if everything or path.startswith(prefix))
        return TaggedResponse(ChildrenResponse(found), self._state.zxid)

    def _count(self, caller: Caller, _watcher: W, request: PathRequest) -> TaggedResponse:
        self._readable(caller, request.path)
        return TaggedResponse(
            CountResponse(self._state.tree.count_below(request.path)), self._state.zxid
        )

    def _identify(self, caller: Caller, _watcher: W, _request: None) -> TaggedResponse:
        known = tuple(ClientInfo(one.scheme, access.user_of(one)) for one in caller.identities)
        return TaggedResponse(WhoAmIResponse(known), 0)

    def _add_watch(self, _caller: Caller, watcher: W, request: AddWatchRequest) -> TaggedResponse:
        if request.mode not in (AddWatchMode.PERSISTENT, AddWatchMode.PERSISTENT_RECURSIVE):
            raise JuteError(f"unknown watch mode {request.mode}")
        self._watches.add(request.path, watcher, AddWatchMode(request.mode))
        return TaggedResponse(ErrorResponse(0), self._state.zxid)

    def _check_watches(
        self, _caller: Caller, watcher: W, request: WatchesRequest
    ) -> TaggedResponse:
        if not self._watches.has(request.path, watcher, _watcher_type(request.type)):
            raise OperationError.of(ErrorCode.NO_WATCHER, request.path)
        return TaggedResponse(None, self._state.zxid)

    def _remove_watches(
        self, _caller: Caller, watcher: W, request: WatchesRequest
    ) -> TaggedResponse:
        if not self._watches.remove(request.path, watcher, _watcher_type(request.type)):
            raise OperationError.of(ErrorCode.NO_WATCHER, request.path)
        return TaggedResponse(None, self._state.zxid)

    def _readable(self, caller: Caller, path: str) -> Node:
        node = self._must_find(path)
        access.require(node.acl, Permission.READ, caller.identities, path)
        return node

    def _must_find(self, path: str) -> Node:
        node = self._state.tree.nodes.get(path)
        if node is None:
            raise OperationError.of(ErrorCode.NO_NODE, path)
        return node


def _content_bytes(response: tuple[Any, ...] | None) -> int:
    """Return the counted size of the data or names in a response."""
    if isinstance(response, GetDataResponse):
        return len(response.data or b"")
    assert isinstance(response, ChildrenResponse), "a multiRead has no other responses"
    return sum(map(len, response.children)) + NAME_BYTES * len(response.children)


def _watcher_type(number: int) -> WatcherType:
    try:
        return WatcherType(number)
    except ValueError:
        raise JuteError(f"unknown watcher type {number}") from None

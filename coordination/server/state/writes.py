"""Validation of write requests, and their transactions (decision).

The order of the checks is ZooKeeper's, because it determines which of several possible errors a
client gets.

Source: ZooKeeper `PrepRequestProcessor`.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from coordination.errors import ErrorCode, OperationError
from coordination.protocol import node_path
from coordination.protocol.messages import (
    CheckRequest,
    CreateFlag,
    CreateRequest,
    CreateTtlRequest,
    DeleteRequest,
    OpCode,
    PathRequest,
    SetAclRequest,
    SetDataRequest,
)
from coordination.server.state import acl as access
from coordination.server.state.acl import Identity, Permission
from coordination.server.state.tree import Node, Tree, wrap32
from coordination.server.state.txns import (
    CONTAINER_OWNER,
    MAX_TTL_MS,
    CreateTxn,
    DeleteTxn,
    NodeTxn,
    OwnerKind,
    SetAclTxn,
    SetDataTxn,
    kind_of_owner,
    ttl_owner,
)

ANY_VERSION: Final = -1
# Bound once, because member lookup in an enum runs Python code.
_CREATE_CONTAINER: Final = OpCode.CREATE_CONTAINER
_FLAGS: Final = frozenset(int(flag) for flag in CreateFlag)
_EPHEMERAL: Final = frozenset({CreateFlag.EPHEMERAL, CreateFlag.EPHEMERAL_SEQUENTIAL})
_TTL: Final = frozenset({CreateFlag.TTL, CreateFlag.TTL_SEQUENTIAL})
_SEQUENTIAL: Final = frozenset(
    {
        CreateFlag.PERSISTENT_SEQUENTIAL,
        CreateFlag.EPHEMERAL_SEQUENTIAL,
        CreateFlag.TTL_SEQUENTIAL,
    }
)


class Caller(Protocol):
    """Client on whose behalf a request runs."""

    @property
    def session_id(self) -> int:
        """Session that owns the created ephemeral nodes."""

    @property
    def identities(self) -> Sequence[Identity]:
        """Authenticated identities of the connection."""


def prepare(tree: Tree, caller: Caller, op: OpCode, request: tuple[Any, ...]) -> NodeTxn | None:
    """Return the transaction of a write; None for a check that succeeds.

    Raises:
        OperationError: the request is refused; the tree is unchanged.
    """
    match request:
        case SetDataRequest():
            return _set_data(tree, caller, request)
        case CreateRequest() | CreateTtlRequest():
            return _create(tree, caller, op, request)
        case DeleteRequest():
            return _delete(tree, caller, request)
        case CheckRequest():
            _check(tree, caller, request)
            return None
        case SetAclRequest():
            return _set_acl(tree, caller, request)
        case PathRequest():
            return _delete_container(tree, caller, request.path)
        case _:
            raise OperationError(ErrorCode.UNIMPLEMENTED)


def _create(
    tree: Tree, caller: Caller, op: OpCode, request: CreateRequest | CreateTtlRequest
) -> CreateTxn:
    path, flags = request.path, request.flags
    ttl_ms = request.ttl if isinstance(request, CreateTtlRequest) else -1
    _check_flags(path, flags, ttl_ms)
    if "/" not in path or "\0" in path or len(path) > node_path.MAX_CREATED_CHARS:
        raise OperationError.of(ErrorCode.BAD_ARGUMENTS, path)
    acl = access.resolve(request.acl, caller.identities, path)
    parent = _must_find(tree, node_path.parent_of(path))
    access.require(parent.acl, Permission.CREATE, caller.identities, path)
    if flags in _SEQUENTIAL:
        path = f"{path}{parent.cversion:010d}"
    _check_path(path)
    if path in tree.nodes:
        raise OperationError.of(ErrorCode.NODE_EXISTS, path)
    if parent.owner and kind_of_owner(parent.owner) is OwnerKind.SESSION:
        raise OperationError.of(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS, path)
    owner = _owner(caller, op, flags, ttl_ms)
    return CreateTxn(path, request.data, acl, owner, wrap32(parent.cversion + 1))


def _check_flags(path: str, flags: int, ttl_ms: int) -> None:
    has_ttl = flags in _TTL
    if flags not in _FLAGS or (has_ttl and not 0 < ttl_ms <= MAX_TTL_MS):
        raise OperationError.of(ErrorCode.BAD_ARGUMENTS, path)
    if not has_ttl and ttl_ms >= 0:
        raise OperationError.of(ErrorCode.BAD_ARGUMENTS, path)


def _owner(caller: Caller, op: OpCode, flags: int, ttl_ms: int) -> int:
    if op is _CREATE_CONTAINER:
        return CONTAINER_OWNER
    if flags in _TTL:
        return ttl_owner(ttl_ms)
    return caller.session_id if flags in _EPHEMERAL else 0


def _delete(tree: Tree, caller: Caller, request: DeleteRequest) -> DeleteTxn:
    path = request.path
    parent = _parent_for_delete(tree, path)
    access.require(parent.acl, Permission.DELETE, caller.identities, path)
    node = _must_find(tree, path)
    _next_version(node.version, request.version, path)
    if node.children:
        raise OperationError.of(ErrorCode.NOT_EMPTY, path)
    return DeleteTxn(path)


def _delete_container(tree: Tree, caller: Caller, path: str) -> DeleteTxn:
    parent = _parent_for_delete(tree, path)
    access.require(parent.acl, Permission.DELETE, caller.identities, path)
    node = _must_find(tree, path)
    if node.children:
        raise OperationError.of(ErrorCode.NOT_EMPTY, path)
    if kind_of_owner(node.owner) is OwnerKind.SESSION:
        raise OperationError.of(ErrorCode.BAD_VERSION, path)
    return DeleteTxn(path)


def _parent_for_delete(tree: Tree, path: str) -> Node:
    if "/" not in path or "\0" in path or path in node_path.UNDELETABLE:
        raise OperationError.of(ErrorCode.BAD_ARGUMENTS, path)
    return _must_find(tree, node_path.parent_of(path))


def _set_data(tree: Tree, caller: Caller, request: SetDataRequest) -> SetDataTxn:
    path = request.path
    _check_path(path)
    node = _must_find(tree, path)
    access.require(node.acl, Permission.WRITE, caller.identities, path)
    return SetDataTxn(path, request.data, _next_version(node.version, request.version, path))


def _set_acl(tree: Tree, caller: Caller, request: SetAclRequest) -> SetAclTxn:
    path = request.path
    _check_path(path)
    acl = access.resolve(request.acl, caller.identities, path)
    node = _must_find(tree, path)
    access.require(node.acl, Permission.ADMIN, caller.identities, path)
    return SetAclTxn(path, acl, _next_version(node.aversion, request.version, path))


def _check(tree: Tree, caller: Caller, request: CheckRequest) -> None:
    path = request.path
    _check_path(path)
    node = _must_find(tree, path)
    access.require(node.acl, Permission.READ, caller.identities, path)
    _next_version(node.version, request.version, path)


def _must_find(tree: Tree, path: str) -> Node:
    node = tree.nodes.get(path)
    if node is None:
        raise OperationError.of(ErrorCode.NO_NODE, path)
    return node


def _check_path(path: str) -> None:
    if not node_path.is_valid(path):
        raise OperationError.of(ErrorCode.BAD_ARGUMENTS, path)


def _next_version(current: int, expected: int, path: str) -> int:
    if expected not in (ANY_VERSION, current):
        raise OperationError.of(ErrorCode.BAD_VERSION, path)
    following = wrap32(current + 1)
    # -1 means "any version" in a request, so no node may have it.
    return 0 if following == ANY_VERSION else following

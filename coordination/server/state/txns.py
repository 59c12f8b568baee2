"""Transactions (decision): the effects of writes, as logged and replayed.

A transaction holds results, never conditions, so its replay is a plain assignment. On disk it is
the msgpack array `[zxid, time_ms, session_id, cxid, type, *fields]`; see `wal`.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from coordination.errors import JuteError
from coordination.protocol.messages import OPEN_ACL, Acl

CONTAINER_OWNER: Final = -(1 << 63)
TTL_OWNER_BITS: Final = 0xFF << 56
MAX_TTL_MS: Final = (1 << 40) - 1


class TxnType(IntEnum):
    """Type of a transaction on disk; never reuse a number."""

    CREATE = 1
    SET_DATA = 2
    DELETE = 3
    SET_ACL = 4
    MULTI = 5
    SESSION = 6
    CLOSE = 7


_SET_DATA: Final = TxnType.SET_DATA.value
_CREATE: Final = TxnType.CREATE.value


class CreateTxn(NamedTuple):
    """Creation of a node; `parent_cversion` is the parent's counter afterwards."""

    path: str
    data: bytes | None
    acl: tuple[Acl, ...]
    owner: int
    parent_cversion: int


class SetDataTxn(NamedTuple):
    """Change of a node's data; `version` is the new version."""

    path: str
    data: bytes | None
    version: int


class DeleteTxn(NamedTuple):
    """Deletion of a node."""

    path: str


class SetAclTxn(NamedTuple):
    """Change of a node's ACL; `aversion` is the new ACL version."""

    path: str
    acl: tuple[Acl, ...]
    aversion: int


class MultiTxn(NamedTuple):
    """Several changes under one zxid."""

    txns: tuple["NodeTxn", ...]


class SessionTxn(NamedTuple):
    """Start of a session, or change of its timeout."""

    timeout_ms: int


class CloseTxn(NamedTuple):
    """End of a session, with the deletion of its ephemeral nodes."""

    paths: tuple[str, ...]


NodeTxn: TypeAlias = CreateTxn | SetDataTxn | DeleteTxn | SetAclTxn
Txn: TypeAlias = NodeTxn | MultiTxn | SessionTxn | CloseTxn


class Entry(NamedTuple):
    """A transaction with its zxid, its time, and the session and xid of its request."""

    zxid: int
    time_ms: int
    session_id: int
    cxid: int
    txn: Txn


class OwnerKind(IntEnum):
    """Meaning of a node's stored owner field."""

    NONE = 0
    SESSION = 1
    CONTAINER = 2
    TTL = 3


def kind_of_owner(owner: int) -> OwnerKind:
    """Return the meaning of a node's stored owner field."""
    if owner == 0:
        return OwnerKind.NONE
    if owner == CONTAINER_OWNER:
        return OwnerKind.CONTAINER
    if (owner & TTL_OWNER_BITS) == TTL_OWNER_BITS:
        return OwnerKind.TTL
    return OwnerKind.SESSION


def ttl_owner(ttl_ms: int) -> int:
    """Return the owner field of a node that expires `ttl_ms` after its last change."""
    return (TTL_OWNER_BITS | ttl_ms) - (1 << 64)


def ttl_of_owner(owner: int) -> int:
    """Return the time to live in an owner field, in ms."""
    return owner & MAX_TTL_MS


def pack_entry(entry: Entry) -> tuple[Any, ...]:
    """Return the msgpack fields of an entry."""
    zxid, time_ms, session_id, cxid, txn = entry
    return (zxid, time_ms, session_id, cxid, *_pack(txn))


def unpack_entry(fields: Sequence[Any]) -> Entry:
    """Return the entry with the fields of `pack_entry`.

    Raises:
        JuteError: its type is unknown to this version.
    """
    return Entry(fields[0], fields[1], fields[2], fields[3], _unpack(fields[4:]))


def _pack(txn: Txn) -> tuple[Any, ...]:
    # The most frequent types come first, because this runs for every write.
    if isinstance(txn, SetDataTxn):
        return (_SET_DATA, *txn)
    if isinstance(txn, CreateTxn):
        path, data, acl, owner, cversion = txn
        return (_CREATE, path, data, pack_acl(acl), owner, cversion)
    if isinstance(txn, MultiTxn):
        return (TxnType.MULTI.value, [_pack(each) for each in txn.txns])
    if isinstance(txn, SetAclTxn):
        return (TxnType.SET_ACL.value, txn.path, pack_acl(txn.acl), txn.aversion)
    if isinstance(txn, DeleteTxn):
        return (TxnType.DELETE.value, *txn)
    if isinstance(txn, SessionTxn):
        return (TxnType.SESSION.value, *txn)
    return (TxnType.CLOSE.value, *txn)


def _unpack(fields: Sequence[Any]) -> Txn:
    kind = fields[0]
    if kind == TxnType.SET_DATA:
        return SetDataTxn(*fields[1:])
    if kind == TxnType.CREATE:
        _, path, data, acl, owner, cversion = fields
        return CreateTxn(path, data, unpack_acl(acl), owner, cversion)
    if kind == TxnType.DELETE:
        return DeleteTxn(fields[1])
    if kind == TxnType.SET_ACL:
        return SetAclTxn(fields[1], unpack_acl(fields[2]), fields[3])
    if kind == TxnType.MULTI:
        return MultiTxn(tuple(_unpack(each) for each in fields[1]))  # type: ignore[misc]
    if kind == TxnType.SESSION:
        return SessionTxn(fields[1])
    if kind == TxnType.CLOSE:
        return CloseTxn(tuple(fields[1]))
    raise JuteError(f"transaction type {kind} is unknown to this version of the coordinator")


def pack_acl(acl: tuple[Acl, ...]) -> tuple[Acl, ...] | None:
    """Return an ACL as on disk: nil for the open one, which nearly all nodes have."""
    return None if acl is OPEN_ACL or acl == OPEN_ACL else acl


def unpack_acl(packed: Sequence[Sequence[Any]] | None) -> tuple[Acl, ...]:
    """Return the ACL packed by `pack_acl`."""
    return OPEN_ACL if packed is None else tuple(Acl(*entry) for entry in packed)

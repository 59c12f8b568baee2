"""Snapshot files (edge): the whole state after one transaction, as a stream of msgpack objects.

    magic 8, header [store id, zxid, wal crc, session count, acl count, node count],
    sessions [id, timeout_ms], acls [[perms, scheme, id], ...],
    nodes in path order [path, data, acl number, czxid, mzxid, pzxid, azxid, ctime, mtime,
    version, cversion, aversion, owner],
    largest session id ever issued (missing in old files), trailer u32 crc32 of all bytes before.

A snapshot is written under a temporary name, synced, then renamed, so an existing one is complete.
`wal crc` is the link of the log's chain at that transaction.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from coordination.protocol.messages import Acl
from coordination.server.disk.data_dir import create_private, sync_directory
from coordination.server.disk.wal import pack, unpack_stream
from coordination.server.state.tree import Node, State
from coordination.server.state.txns import pack_acl, unpack_acl

MAGIC: Final = b"OTLSNAP\x01"
_CRC = struct.Struct(">I")
_CHUNK_BYTES: Final = 1 << 20


class Snapshot(NamedTuple):
    """Content of a snapshot file."""

    state: State
    store_id: bytes
    wal_crc: int


class InvalidSnapshotError(Exception):
    """The file is not a valid snapshot; an older one may be valid."""


def write(path: Path, state: State, store_id: bytes, wal_crc: int) -> None:
    """Write a snapshot durably and atomically."""
    temporary = path.with_suffix(unfinished_suffix(os.getpid()))
    try:
        with create_private(temporary) as file:
            crc = 0
            for chunk in _chunks(state, store_id, wal_crc):
                crc = zlib.crc32(chunk, crc)
                file.write(chunk)
            file.write(_CRC.pack(crc))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except OSError:
        # On a full disk it would take the space that the log needs.
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def unfinished_suffix(process_id: int) -> str:
    """Return the suffix of a snapshot while a process writes it.

    The child of a dead coordinator may be writing at the same time.
    """
    return f".{process_id}.tmp"


def _chunks(state: State, store_id: bytes, wal_crc: int) -> Iterator[bytes]:
    out = bytearray(MAGIC)
    out += pack(_header(state, store_id, wal_crc))
    for session in state.timeouts_ms.items():
        out += pack(session)
    numbers = _acl_numbers(state)
    for acl in numbers:
        out += pack(pack_acl(acl))
    for path, node in state.tree.in_path_order():
        out += pack(_packed_node(path, node, numbers[node.acl]))
        if len(out) >= _CHUNK_BYTES:
            yield bytes(out)
            out.clear()
    out += pack(state.last_session_id)
    yield bytes(out)


def _header(state: State, store_id: bytes, wal_crc: int) -> tuple[Any, ...]:
    counts = (len(state.timeouts_ms), len(_acl_numbers(state)), state.tree.node_count)
    return (store_id, state.zxid, wal_crc, *counts)


def _acl_numbers(state: State) -> dict[tuple[Acl, ...], int]:
    acls = dict.fromkeys(node.acl for _, node in state.tree.in_path_order())
    return {acl: number for number, acl in enumerate(acls)}


def _packed_node(path: str, node: Node, acl: int) -> tuple[Any, ...]:
    return (
        path,
        node.data,
        acl,
        node.czxid,
        node.mzxid,
        node.pzxid,
        node.azxid,
        node.ctime,
        node.mtime,
        node.version,
        node.cversion,
        node.aversion,
        node.owner,
    )


def load(path: Path) -> Snapshot:
    """Load a snapshot.

    Raises:
        InvalidSnapshotError: the file is damaged or not a snapshot.
    """
    data = path.read_bytes()
    body = memoryview(data)[: -_CRC.size]
    if not data.startswith(MAGIC) or len(data) < len(MAGIC) + _CRC.size:
        raise InvalidSnapshotError(f"{path} is not a snapshot")
    if zlib.crc32(body) != _CRC.unpack_from(data, len(body))[0]:
        raise InvalidSnapshotError(f"{path} fails its checksum")
    return _build(unpack_stream(body[len(MAGIC) :]))


def _build(values: Iterator[Any]) -> Snapshot:
    store_id, zxid, wal_crc, session_count, acl_count, node_count = next(values)
    state = State()
    for _ in range(session_count):
        session_id, timeout_ms = next(values)
        state.add_session(session_id, timeout_ms)
    acls = [unpack_acl(next(values)) for _ in range(acl_count)]
    for _ in range(node_count):
        _restore(state, next(values), acls)
    state.note_session_id(next(values, 0))
    state.zxid = zxid
    return Snapshot(state, store_id, wal_crc)


def _restore(state: State, fields: tuple[Any, ...], acls: list[tuple[Acl, ...]]) -> None:
    path, data, acl, czxid, mzxid, pzxid, azxid, ctime, mtime, *versions = fields
    node = Node(data, acls[acl], 0, czxid, ctime)
    node.mzxid, node.pzxid, node.azxid, node.mtime = mzxid, pzxid, azxid, mtime
    node.version, node.cversion, node.aversion, node.owner = versions
    state.tree.restore(path, node)

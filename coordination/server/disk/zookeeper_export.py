"""Export of the state as a native ZooKeeper snapshot (edge), to migrate to an ensemble.

Copy the file to `version-2/` in the data directory of every member before its first start.

Source: ZooKeeper `FileSnap`, `DataTree.serialize`, `ReferenceCountedACLCache`.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from coordination.errors import DataError
from coordination.protocol.messages import OPEN_ACL, Acl
from coordination.server.disk.data_dir import sync_directory
from coordination.server.state.tree import Node, State

_FILE_HEADER: Final = struct.pack(">iiq", 0x5A4B534E, 2, -1)
_OPEN_ACL_KEY: Final = -1
_NO_DIGEST: Final = struct.pack(">qiq", 0, 2, 0)
_PERSISTED_STAT = struct.Struct(">qqqqiiiqq")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_SESSION = struct.Struct(">qi")
_CHUNK_BYTES: Final = 1 << 20


def export_zookeeper(state: State, directory: Path) -> Path:
    """Write `version-2/snapshot.<zxid>` below `directory` and return its path.

    Raises:
        DataError: the target is not empty; ZooKeeper must not load an old snapshot instead.
    """
    target = directory / "version-2"
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise DataError(f"{target} is not empty: choose another directory")
    path = target / f"snapshot.{state.zxid:x}"
    with path.open("xb") as file:
        for chunk in _sealed(state):
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(target)
    return path


def ttl_warning(state: State) -> str | None:
    """Return the setting without which an ensemble deletes TTL nodes; None if there are none.

    By default ZooKeeper takes the owner of a TTL node for a session that has ended, and deletes the
    node. It always knows containers by their owner.

    Source: ZooKeeper `EphemeralType.get`.
    """
    if not state.tree.ttls:
        return None
    return (
        f"the export has TTL nodes ({len(state.tree.ttls)}): start every member of the ensemble "
        "with -Dzookeeper.extendedTypesEnabled=true, or it deletes them at its first start."
    )


def _sealed(state: State) -> Iterator[bytes]:
    """Yield the sections, each followed by a checksum of all bytes before it and a "/"."""
    checksum = zlib.adler32(b"")
    for chunk in _chunks(state):
        checksum = zlib.adler32(chunk, checksum)
        yield chunk
    seal = _LONG.pack(checksum) + _string("/")
    # There is no digest of the tree: zxid 0 means that there is none to compare.
    tail = seal + _NO_DIGEST
    yield tail + _LONG.pack(zlib.adler32(tail, checksum)) + _string("/")


def _chunks(state: State) -> Iterator[bytes]:
    out = bytearray(_FILE_HEADER)
    out += _INT.pack(len(state.timeouts_ms))
    for session in state.timeouts_ms.items():
        out += _SESSION.pack(*session)
    keys = _acl_keys(state)
    out += _INT.pack(len(keys) - 1)
    for acl, key in keys.items():
        if key != _OPEN_ACL_KEY:
            out += _LONG.pack(key) + _acl(acl)
    for path, node in state.tree.in_path_order():
        out += _string("" if path == "/" else path) + _node(node, keys[node.acl])
        if len(out) >= _CHUNK_BYTES:
            yield bytes(out)
            out.clear()
    yield bytes(out + _string("/"))


def _acl_keys(state: State) -> dict[tuple[Acl, ...], int]:
    keys = {OPEN_ACL: _OPEN_ACL_KEY}
    for _, node in state.tree.in_path_order():
        keys.setdefault(node.acl, len(keys))
    return keys


def _acl(acl: tuple[Acl, ...]) -> bytes:
    entries = [
        _INT.pack(entry.perms) + _string(entry.scheme or "") + _string(entry.id or "")
        for entry in acl
    ]
    return _INT.pack(len(entries)) + b"".join(entries)


def _node(node: Node, acl_key: int) -> bytes:
    stat = _PERSISTED_STAT.pack(
        node.czxid,
        node.mzxid,
        node.ctime,
        node.mtime,
        node.version,
        node.cversion,
        node.aversion,
        node.owner,
        node.pzxid,
    )
    data = _INT.pack(-1) if node.data is None else _INT.pack(len(node.data)) + node.data
    return data + _LONG.pack(acl_key) + stat


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT.pack(len(encoded)) + encoded

"""The durable state and its tree (decision): applies transactions, and reverts a failed multi.

Invariants: every node but the root has its parent in the tree; an ephemeral node has no children;
`ephemerals` lists exactly the nodes whose owner is a session. The root is stored as "/" and as ""
(the parent part of "/a").
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from coordination.protocol import node_path
from coordination.protocol.messages import OPEN_ACL, READ_ONLY_ACL, Acl, Stat
from coordination.server.state.sessions import session_number
from coordination.server.state.txns import (
    CONTAINER_OWNER,
    CloseTxn,
    CreateTxn,
    DeleteTxn,
    Entry,
    MultiTxn,
    NodeTxn,
    OwnerKind,
    SessionTxn,
    SetAclTxn,
    SetDataTxn,
    kind_of_owner,
)

MIN_SHARED_ACLS: Final = 1_000
"""Minimum of cached shared ACLs before unused ones are dropped."""
Undo: TypeAlias = list[Callable[[], None]]
_SIGN: Final = 1 << 31


def wrap32(number: int) -> int:
    """Return `number` as a signed 32 bit integer, as Java would."""
    return ((number + _SIGN) & 0xFFFFFFFF) - _SIGN


class Node:
    """A node; `cversion` counts creations of children, `owner` is the stored owner field."""

    __slots__ = (
        "acl",
        "aversion",
        "azxid",
        "children",
        "ctime",
        "cversion",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(
        self, data: bytes | None, acl: tuple[Acl, ...], owner: int, zxid: int, time_ms: int
    ) -> None:
        self.data = data
        self.acl = acl
        self.owner = owner
        self.czxid = self.mzxid = self.pzxid = self.azxid = zxid
        self.ctime = self.mtime = time_ms
        self.version = self.cversion = self.aversion = 0
        self.children: set[str] | None = None

    @property
    def changed_zxid(self) -> int:
        """Zxid of the last transaction with a visible effect on this node."""
        return max(self.mzxid, self.pzxid, self.azxid)

    def stat(self) -> Stat:
        """Return the metadata as clients see it.

        The stored `cversion` counts only creations; the visible one also counts deletions.
        """
        children = len(self.children) if self.children else 0
        # Bypasses the constructor, whose checks cost as much as everything else here.
        return tuple.__new__(
            Stat,
            (
                self.czxid,
                self.mzxid,
                self.ctime,
                self.mtime,
                self.version,
                wrap32(2 * self.cversion - children),
                self.aversion,
                self.owner if self.owner >= 0 else self._visible_owner(),
                len(self.data) if self.data else 0,
                children,
                self.pzxid,
            ),
        )

    def _visible_owner(self) -> int:
        return self.owner if kind_of_owner(self.owner) is OwnerKind.SESSION else 0


class Tree:
    """All nodes, with indexes of ephemeral nodes, containers and TTL nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.containers: dict[str, None] = {}
        self.ttls: dict[str, None] = {}
        self.data_bytes = 0
        self._acls: dict[tuple[Acl, ...], tuple[Acl, ...]] = {OPEN_ACL: OPEN_ACL}
        self._max_acls = MIN_SHARED_ACLS
        """Size of the table of ACLs at which the unused ones are dropped."""
        self._add_system_nodes()

    @property
    def node_count(self) -> int:
        """Number of nodes, including the root."""
        return len(self.nodes) - 1

    def _add_system_nodes(self) -> None:
        root = Node(b"", OPEN_ACL, 0, 0, 0)
        self.nodes[""] = self.nodes[node_path.ROOT] = root
        for path in (node_path.SYSTEM, node_path.QUOTA, node_path.CONFIG):
            self.restore(path, Node(b"", OPEN_ACL, 0, 0, 0))
        config = self.nodes[node_path.CONFIG]
        config.acl, config.aversion = READ_ONLY_ACL, -1

    def restore(self, path: str, node: Node) -> None:
        """Insert a node of a snapshot unchanged; its parent must exist."""
        if path == node_path.ROOT:
            node.children = self.nodes[""].children
            self.nodes[""] = self.nodes[node_path.ROOT] = node
            return
        old = self.nodes.get(path)
        if old is not None:
            node.children = old.children
        node.acl = self._shared(node.acl)
        self.data_bytes += len(node.data or b"")
        self.nodes[path] = node
        self._link(path)
        self._index(path, node.owner)

    def apply(self, txn: NodeTxn, zxid: int, time_ms: int, undo: Undo | None = None) -> None:
        """Apply a transaction; append a function that reverts it to `undo`."""
        if isinstance(txn, SetDataTxn):
            self._set_data(txn, zxid, time_ms, undo)
        elif isinstance(txn, CreateTxn):
            self._create(txn, zxid, time_ms, undo)
        elif isinstance(txn, DeleteTxn):
            self.delete(txn.path, zxid, undo)
        else:
            self._set_acl(txn, zxid, undo)

    def _create(self, txn: CreateTxn, zxid: int, time_ms: int, undo: Undo | None) -> None:
        path = txn.path
        parent = self.nodes[node_path.parent_of(path)]
        if undo is not None:
            before = (parent.cversion, parent.pzxid)
            undo.append(lambda: self._revert_create(path, parent, *before))
        node = Node(txn.data, self._shared(txn.acl), txn.owner, zxid, time_ms)
        self.nodes[path] = node
        self.data_bytes += len(txn.data or b"")
        self._link(path)
        parent.cversion = txn.parent_cversion
        parent.pzxid = zxid
        if txn.owner:
            self._index(path, txn.owner)

    def _revert_create(self, path: str, parent: Node, cversion: int, pzxid: int) -> None:
        self._remove(path)
        parent.cversion, parent.pzxid = cversion, pzxid

    def delete(self, path: str, zxid: int, undo: Undo | None = None) -> None:
        """Remove a node without children."""
        parent = self.nodes[node_path.parent_of(path)]
        before = parent.pzxid
        node = self._remove(path)
        parent.pzxid = zxid
        if undo is not None:
            undo.append(lambda: self._revert_delete(path, node, parent, before))

    def _revert_delete(self, path: str, node: Node, parent: Node, pzxid: int) -> None:
        self.nodes[path] = node
        self.data_bytes += len(node.data or b"")
        self._link(path)
        self._index(path, node.owner)
        parent.pzxid = pzxid

    def _set_data(self, txn: SetDataTxn, zxid: int, time_ms: int, undo: Undo | None) -> None:
        node = self.nodes[txn.path]
        if undo is not None:
            before = (node.data, node.version, node.mzxid, node.mtime)
            undo.append(lambda: self._put_data(node, *before))
        self._put_data(node, txn.data, txn.version, zxid, time_ms)

    def _put_data(
        self, node: Node, data: bytes | None, version: int, mzxid: int, mtime: int
    ) -> None:
        self.data_bytes += len(data or b"") - len(node.data or b"")
        node.data, node.version, node.mzxid, node.mtime = data, version, mzxid, mtime

    def _set_acl(self, txn: SetAclTxn, zxid: int, undo: Undo | None) -> None:
        node = self.nodes[txn.path]
        before = (node.acl, node.aversion, node.azxid)
        if undo is not None:
            undo.append(lambda: _put_acl(node, *before))
        _put_acl(node, self._shared(txn.acl), txn.aversion, zxid)

    def _link(self, path: str) -> None:
        parent_path, _, name = path.rpartition("/")
        parent = self.nodes[parent_path]
        if parent.children is None:
            parent.children = {name}
        else:
            parent.children.add(name)

    def _remove(self, path: str) -> Node:
        node = self.nodes.pop(path)
        parent_path, _, name = path.rpartition("/")
        parent = self.nodes[parent_path]
        assert parent.children is not None, "a node is listed by its parent"
        parent.children.discard(name)
        # An empty set takes 216 bytes, and most nodes are leaves.
        if not parent.children:
            parent.children = None
        self.data_bytes -= len(node.data or b"")
        if node.owner:
            self._unindex(path, node.owner)
        return node

    def _index(self, path: str, owner: int) -> None:
        match kind_of_owner(owner):
            case OwnerKind.SESSION:
                self.ephemerals.setdefault(owner, {})[path] = None
            case OwnerKind.CONTAINER:
                self.containers[path] = None
            case OwnerKind.TTL:
                self.ttls[path] = None
            case OwnerKind.NONE:
                pass

    def _unindex(self, path: str, owner: int) -> None:
        if owner == CONTAINER_OWNER:
            self.containers.pop(path, None)
        elif owner in self.ephemerals:
            owned = self.ephemerals[owner]
            owned.pop(path, None)
            if not owned:
                del self.ephemerals[owner]
        else:
            self.ttls.pop(path, None)

    def _shared(self, acl: tuple[Acl, ...]) -> tuple[Acl, ...]:
        if len(self._acls) > self._max_acls:
            self._acls = {
                OPEN_ACL: OPEN_ACL,
                **{node.acl: node.acl for node in self.nodes.values()},
            }
            # One more per node, so that each new ACL pays for the next visit of one of them.
            self._max_acls = MIN_SHARED_ACLS + len(self._acls) + len(self.nodes)
        return self._acls.setdefault(acl, acl)

    def count_below(self, path: str) -> int:
        """Return the number of descendants of `path`."""
        if path == node_path.ROOT:
            return len(self.nodes) - 2
        prefix = path + "/"
        return sum(1 for each in self.nodes if each.startswith(prefix))

    def in_path_order(self) -> Iterator[tuple[str, Node]]:
        """Yield every node, parents before their children, starting with the root."""
        yield node_path.ROOT, self.nodes[""]
        for path in sorted(self.nodes):
            if path not in ("", node_path.ROOT):
                yield path, self.nodes[path]


def _put_acl(node: Node, acl: tuple[Acl, ...], aversion: int, azxid: int) -> None:
    node.acl, node.aversion, node.azxid = acl, aversion, azxid


class State:
    """The durable state: tree, sessions and the last zxid.

    `apply` replays a log entry. Live requests change the tree with the same code, so a recovered
    coordinator has exactly the state in the log.
    """

    def __init__(self) -> None:
        self.tree = Tree()
        self.timeouts_ms: dict[int, int] = {}
        self.last_session_id = 0
        """The session id with the largest `session_number`; 0 before the first session."""
        self.zxid = 0

    def add_session(self, session_id: int, timeout_ms: int) -> None:
        """Add a session, or change its timeout."""
        self.timeouts_ms[session_id] = timeout_ms
        self.note_session_id(session_id)

    def note_session_id(self, session_id: int) -> None:
        """Never issue `session_id` again."""
        self.last_session_id = max(self.last_session_id, session_id, key=session_number)

    def apply(self, entry: Entry) -> None:
        """Apply the next entry; its zxid must be the next one."""
        assert entry.zxid == self.zxid + 1, f"entry {entry.zxid} after {self.zxid}"
        txn = entry.txn
        if isinstance(txn, MultiTxn):
            for each in txn.txns:
                self.tree.apply(each, entry.zxid, entry.time_ms)
        elif isinstance(txn, SessionTxn):
            self.add_session(entry.session_id, txn.timeout_ms)
        elif isinstance(txn, CloseTxn):
            for path in txn.paths:
                self.tree.delete(path, entry.zxid)
            self.timeouts_ms.pop(entry.session_id, None)
        else:
            self.tree.apply(txn, entry.zxid, entry.time_ms)
        self.zxid = entry.zxid

"""A coordinator in memory: versioned nodes, sessions, ephemeral nodes, multi.

It is more permissive to a zombie than a real one: it still applies the transactions of an expired
session, unless they create ephemeral nodes. The controller's fence alone must therefore reject
them.
"""

from dataclasses import dataclass

from clusterstate.plans import (
    UNREADABLE,
    UNREADABLE_VERSION,
    Answer,
    Check,
    Children,
    Create,
    Delete,
    ListChildren,
    Node,
    Nodes,
    Op,
    Outcome,
    Outcomes,
    Read,
    Refusal,
    SetData,
    Transaction,
    Write,
)


class SessionExpiredError(Exception):
    """The session has expired, and the request needs one."""


@dataclass(slots=True)
class _Znode:
    data: bytes | None
    version: int
    czxid: int
    owner: int
    created_ms: int = 0


class Coordinator:
    """The tree and its sessions."""

    def __init__(self) -> None:
        self.nodes: dict[str, _Znode] = {"/": _Znode(None, 0, 0, 0)}
        self.sessions: set[int] = set()
        self.now_ms = 0
        self.unreadable: set[str] = set()
        """Paths that no session may read."""
        self._zxid = 0
        self._last_session = 0
        self._sequence = 0

    def open_session(self) -> int:
        """Start a session."""
        self._last_session += 1
        self.sessions.add(self._last_session)
        return self._last_session

    def end_session(self, session: int) -> None:
        """End a session and delete its ephemeral nodes, in one transaction."""
        if session not in self.sessions:
            return
        self.sessions.discard(session)
        self._zxid += 1
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            del self.nodes[path]

    def perform(self, session: int, effect: Read | ListChildren | Write) -> Answer:
        """Perform one request of `session` and return its answer."""
        match effect:
            case Read(paths):
                return Nodes(tuple(self.read(path) for path in paths))
            case ListChildren(path):
                return Children(None if path in self.unreadable else tuple(self.children(path)))
            case Write(transactions):
                return Outcomes(tuple(self._apply(session, one) for one in transactions))

    def read(self, path: str) -> Node | None:
        """Return a node."""
        node = self.nodes.get(path)
        if node is None:
            return None
        if path in self.unreadable:
            return Node(UNREADABLE, UNREADABLE_VERSION, 0)
        return Node(node.data, node.version, node.czxid, node.owner, node.created_ms)

    def children(self, path: str) -> list[str]:
        """Return the names below a node."""
        prefix = path.rstrip("/") + "/"
        return sorted(
            one[len(prefix) :]
            for one in self.nodes
            if one.startswith(prefix) and "/" not in one[len(prefix) :] and one != "/"
        )

    def put(self, path: str, data: bytes | None = None) -> None:
        """Write a node and its missing parents, as a tool does."""
        parts = path.split("/")[1:]
        for count in range(1, len(parts)):
            parent = "/" + "/".join(parts[:count])
            if parent not in self.nodes:
                self._apply(0, (Create(parent, None),))
        op: Op = SetData(path, data, -1) if path in self.nodes else Create(path, data)
        self._apply(0, (op,))

    def remove(self, path: str) -> None:
        """Delete a node as a tool does."""
        self._apply(0, (Delete(path),))

    def _apply(self, session: int, transaction: Transaction) -> Outcome:
        if session not in self.sessions and any(
            isinstance(op, Create) and op.ephemeral for op in transaction
        ):
            raise SessionExpiredError
        transaction = tuple(self._numbered(op) for op in transaction)
        shadow = dict(self._versions(transaction))
        for number, op in enumerate(transaction):
            if refusal := self._refusal(op, shadow):
                return Outcome((), refusal, number)
            match op:
                case Create(path):
                    shadow[path] = 0
                case SetData(path):
                    shadow[path] = (shadow[path] or 0) + 1
                case Delete(path):
                    shadow[path] = None
                case Check():
                    pass
        self._zxid += 1
        return Outcome(tuple(self._do(session, op) for op in transaction))

    def _numbered(self, op: Op) -> Op:
        if not isinstance(op, Create) or not op.sequential:
            return op
        self._sequence += 1
        return op._replace(path=f"{op.path}{self._sequence:010d}")

    def _versions(self, transaction: Transaction) -> list[tuple[str, int | None]]:
        return [
            (op.path, node.version if (node := self.nodes.get(op.path)) else None)
            for op in transaction
        ]

    def _refusal(self, op: Op, versions: dict[str, int | None]) -> Refusal | None:
        version = versions[op.path]
        if isinstance(op, Create):
            parent = op.path.rpartition("/")[0] or "/"
            if version is not None:
                return Refusal.NODE_EXISTS
            has_parent = parent in self.nodes or versions.get(parent) is not None
            return None if has_parent else Refusal.NO_NODE
        if version is None:
            return Refusal.NO_NODE
        if op.version not in (-1, version):
            return Refusal.BAD_VERSION
        if isinstance(op, Delete):
            below = [f"{op.path}/{name}" for name in self.children(op.path)]
            if any(versions.get(path, 0) is not None for path in below):
                return Refusal.NOT_EMPTY
        return None

    def _do(self, session: int, op: Op) -> int:
        match op:
            case Create(path, data, ephemeral):
                owner = session if ephemeral else 0
                self.nodes[path] = _Znode(data, 0, self._zxid, owner, self.now_ms)
                return 0
            case SetData(path, data):
                node = self.nodes[path]
                node.data = data
                node.version += 1
                return node.version
            case Delete(path):
                del self.nodes[path]
                return 0
            case Check(path):
                return self.nodes[path].version

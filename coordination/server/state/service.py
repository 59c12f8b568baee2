"""The coordinator's semantics (decision): a request in; reply, watch events and log entries out.

It has no socket, file, clock or task. The server passes it requests and the time, and holds each
output back until the transaction of its tag is on disk.

Invariants: entries are in zxid order. The events of a change are delivered before the reply that
reflects it. A failed multi changes nothing.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from coordination.errors import ErrorCode, JuteError, OperationError
from coordination.protocol import frames, jute, multi, node_path
from coordination.protocol.messages import (
    MAX_WATCHED_PATHS,
    SHAPES,
    Acl,
    AddWatchMode,
    Create2Response,
    EventType,
    OpCode,
    PathResponse,
    SetWatches2Request,
    SetWatchesRequest,
    StatResponse,
)
from coordination.protocol.multi import Op, Result
from coordination.server.state import acl as access
from coordination.server.state.acl import Permission
from coordination.server.state.reads import Reads
from coordination.server.state.sessions import Session, SessionTable
from coordination.server.state.tree import Node, State, Undo
from coordination.server.state.txns import (
    CloseTxn,
    CreateTxn,
    DeleteTxn,
    Entry,
    MultiTxn,
    NodeTxn,
    OwnerKind,
    SessionTxn,
    Txn,
    kind_of_owner,
    ttl_of_owner,
)
from coordination.server.state.watches import Mode, Watches
from coordination.server.state.writes import Caller, prepare

_WRITES: Final = {
    int(op): op
    for op in (
        OpCode.CREATE,
        OpCode.CREATE2,
        OpCode.CREATE_CONTAINER,
        OpCode.CREATE_TTL,
        OpCode.DELETE,
        OpCode.DELETE_CONTAINER,
        OpCode.SET_DATA,
        OpCode.SET_ACL,
    )
}
# Bound once, because member lookup in an enum runs Python code.
_CREATE: Final = OpCode.CREATE
_CREATE2: Final = OpCode.CREATE2
_MULTI: Final = OpCode.MULTI

MAX_EXAMINED: Final = 2_000
"""Containers and TTL nodes that are examined at once: if all are deleted, some milliseconds."""


class Peer(Caller, Hashable, Protocol):
    """Connection of a client, as the service sees it."""

    def deliver(self, packet: bytes, tag: int) -> None:
        """Send a notification once transaction `tag` is on disk, before any later reply."""


class Reply(NamedTuple):
    """Reply to a request; it may be sent once transaction `tag` is on disk."""

    err: int
    body: bytes
    tag: int
    closes: bool = False


class _Change(NamedTuple):
    """A transaction, and the ACLs that its watchers need for a notification."""

    txn: NodeTxn
    acl: Sequence[Acl]
    parent_acl: Sequence[Acl]


class Service:
    """State and semantics of one coordinator, without I/O."""

    def __init__(self, state: State, next_session_id: int) -> None:
        self.state = state
        self.sessions = SessionTable()
        self.watches: Watches[Peer] = Watches()
        self.entries: list[Entry] = []
        self._reads = Reads(state, self.watches)
        self._next_session_id = next_session_id
        self._unexamined: Iterator[str] | None = None
        """Containers and TTL nodes that `delete_spent_nodes` has listed and not examined yet."""

    # -- sessions

    def adopt_sessions(self, now_ms: int) -> None:
        """Give every recovered session a full timeout from now on."""
        for session_id, timeout_ms in self.state.timeouts_ms.items():
            self.sessions.add(session_id, timeout_ms, now_ms)

    def open_session(self, timeout_ms: int, *, now_ms: int, wall_ms: int) -> Session:
        """Start a session; it is durable once its entry is on disk."""
        while self._next_session_id in self.state.timeouts_ms:
            self._next_session_id += 1
        session_id = self._next_session_id
        self._next_session_id += 1
        zxid = self._log(session_id, 0, wall_ms, SessionTxn(timeout_ms))
        self.state.add_session(session_id, timeout_ms)
        session = self.sessions.add(session_id, timeout_ms, now_ms)
        session.changed_zxid = zxid
        return session

    def reattach(self, session: Session, timeout_ms: int, *, now_ms: int, wall_ms: int) -> None:
        """Resume a session on a new connection, perhaps with another timeout."""
        if session.timeout_ms != timeout_ms:
            txn = SessionTxn(timeout_ms)
            session.changed_zxid = self._log(session.session_id, 0, wall_ms, txn)
            self.state.timeouts_ms[session.session_id] = timeout_ms
        self.sessions.change_timeout(session, timeout_ms, now_ms)

    def close_session(self, session_id: int, *, cxid: int, wall_ms: int) -> None:
        """End a session: delete its ephemeral nodes in one transaction, and notify watchers."""
        owned = tuple(self.state.tree.ephemerals.get(session_id, ()))
        zxid = self._log(session_id, cxid, wall_ms, CloseTxn(owned))
        changes = [self._change(DeleteTxn(path)) for path in owned]
        for path in owned:
            self.state.tree.delete(path, zxid)
        for change in changes:
            self._fire(change, zxid)
        self.state.timeouts_ms.pop(session_id, None)
        self.sessions.remove(session_id)

    # -- requests

    def handle(
        self, peer: Peer, xid: int, op: int, payload: bytes, start: int, wall_ms: int
    ) -> Reply:
        """Handle one request whose body begins at `start` of `payload`."""
        try:
            if (write := _WRITES.get(op)) is not None:
                return self._write(peer, xid, write, _body(op, payload, start), wall_ms)
            if (read := self._reads.find(op)) is not None:
                response, tag = read(peer, peer, _body(op, payload, start))
                return Reply(0, b"" if response is None else jute.encode(response), tag)
            if op == _MULTI:
                return self._multi(peer, xid, multi.decode_ops(op, payload, start), wall_ms)
            return self._other(peer, xid, op, payload, start, wall_ms)
        except OperationError as error:
            return Reply(error.code, b"", self.state.zxid)
        except JuteError:
            return Reply(ErrorCode.MARSHALLING_ERROR, b"", self.state.zxid)

    def _other(
        self, peer: Peer, xid: int, op: int, payload: bytes, start: int, wall_ms: int
    ) -> Reply:
        if op == OpCode.MULTI_READ:
            ops = multi.decode_ops(op, payload, start)
            results, tag = self._reads.run_many(peer, peer, ops)
            return Reply(0, multi.encode_results(results), tag)
        if op in (OpCode.SET_WATCHES, OpCode.SET_WATCHES2):
            self._set_watches(peer, _body(op, payload, start))
            return Reply(0, b"", self.state.zxid)
        if op == OpCode.CLOSE_SESSION:
            self.close_session(peer.session_id, cxid=xid, wall_ms=wall_ms)
            return Reply(0, b"", self.state.zxid, closes=True)
        # A lone check, reconfig, and unknown operations. As in ZooKeeper, an unknown one closes
        # the connection.
        closes = op not in (OpCode.CHECK, OpCode.RECONFIG)
        return Reply(ErrorCode.UNIMPLEMENTED, b"", self.state.zxid, closes=closes)

    def _write(
        self, peer: Peer, xid: int, op: OpCode, request: tuple[Any, ...], wall_ms: int
    ) -> Reply:
        txn = prepare(self.state.tree, peer, op, request)
        assert txn is not None, "every write has a transaction; a check is not a write"
        zxid = self._commit(peer.session_id, xid, wall_ms, txn)
        response = self._response(op, txn)
        return Reply(0, b"" if response is None else jute.encode(response), zxid)

    def _multi(self, peer: Peer, xid: int, ops: list[Op], wall_ms: int) -> Reply:
        undo: Undo = []
        changes: list[_Change] = []
        results: list[Result] = []
        zxid = self.state.zxid + 1
        for index, op in enumerate(ops):
            try:
                txn = prepare(self.state.tree, peer, op.type, op.request)
            except OperationError as error:
                for revert in reversed(undo):
                    revert()
                return self._failed_multi(len(ops), index, error.code)
            if txn is not None:
                changes.append(self._change(txn))
                self.state.tree.apply(txn, zxid, wall_ms, undo)
            results.append(self._result(op.type, txn))
        if changes:
            txns = tuple(change.txn for change in changes)
            self._log(peer.session_id, xid, wall_ms, MultiTxn(txns))
            for change in changes:
                self._fire(change, zxid)
        return Reply(0, multi.encode_results(results), self.state.zxid)

    def _failed_multi(self, count: int, failed: int, code: ErrorCode) -> Reply:
        codes = [ErrorCode.OK] * failed + [code]
        codes += [ErrorCode.RUNTIME_INCONSISTENCY] * (count - failed - 1)
        body = multi.encode_results([multi.error_result(each) for each in codes])
        return Reply(0, body, self.state.zxid)

    def _result(self, op: OpCode, txn: NodeTxn | None) -> Result:
        if isinstance(txn, CreateTxn):
            # As in ZooKeeper 3.8.0. Since 3.8.4, create2 returns the Stat, too.
            if op in (_CREATE, _CREATE2):
                return Result(_CREATE, PathResponse(txn.path))
            return Result(_CREATE2, self._response(op, txn))
        return Result(op, None if txn is None else self._response(op, txn))

    def _response(self, op: OpCode, txn: NodeTxn) -> tuple[Any, ...] | None:
        if isinstance(txn, DeleteTxn):
            return None
        if op is _CREATE:
            return PathResponse(txn.path)
        stat = self.state.tree.nodes[txn.path].stat()
        return Create2Response(txn.path, stat) if isinstance(txn, CreateTxn) else StatResponse(stat)

    def _commit(self, session_id: int, cxid: int, wall_ms: int, txn: NodeTxn) -> int:
        change = self._change(txn)
        zxid = self._log(session_id, cxid, wall_ms, txn)
        self.state.tree.apply(txn, zxid, wall_ms)
        self._fire(change, zxid)
        return zxid

    def _log(self, session_id: int, cxid: int, wall_ms: int, txn: Txn) -> int:
        zxid = self.state.zxid + 1
        self.state.zxid = zxid
        self.entries.append(Entry(zxid, wall_ms, session_id, cxid, txn))
        return zxid

    # -- watches

    def forget_peer(self, peer: Peer) -> bool:
        """Drop watches of a lost connection; return False if there are more: call again, later."""
        return self.watches.remove_watcher(peer)

    def _change(self, txn: NodeTxn) -> "_Change":
        """Return `txn` with the ACLs before it is applied, because it may delete the node."""
        nodes = self.state.tree.nodes
        acl = txn.acl if isinstance(txn, CreateTxn) else nodes[txn.path].acl
        return _Change(txn, acl, nodes[node_path.parent_of(txn.path)].acl)

    def _fire(self, change: "_Change", zxid: int) -> None:
        for kind, path, peers in self.watches.fire(change.txn):
            # Encoded once, because a node may have thousands of watchers.
            packet = frames.encode_event(kind, path)
            is_of_parent = kind is EventType.NODE_CHILDREN_CHANGED
            acl = change.parent_acl if is_of_parent else change.acl
            for peer in peers:
                # A watcher without READ permission gets no event, although its watch is used up.
                if access.allows(acl, Permission.READ, peer.identities):
                    peer.deliver(packet, zxid)

    def _set_watches(self, peer: Peer, request: SetWatchesRequest | SetWatches2Request) -> None:
        if sum(map(len, request[1:])) > MAX_WATCHED_PATHS:
            raise JuteError(f"more than {MAX_WATCHED_PATHS} paths in one request")
        since = request.relative_zxid
        for path in request.data_watches:
            node = self._node(path)
            changed = node is not None and node.mzxid > since
            self._rearm(peer, path, node, changed, EventType.NODE_DATA_CHANGED)
        for path in request.exist_watches:
            if self._node(path) is not None:
                self._notify(peer, EventType.NODE_CREATED, path)
            else:
                self.watches.data.add(path, peer, Mode.ONE_SHOT)
        for path in request.child_watches:
            node = self._node(path)
            changed = node is not None and node.pzxid > since
            self._rearm(peer, path, node, changed, EventType.NODE_CHILDREN_CHANGED)
        if isinstance(request, SetWatches2Request):
            self._rearm_persistent(peer, request)

    def _rearm(
        self, peer: Peer, path: str, node: Node | None, changed: bool, event: EventType
    ) -> None:
        if node is None:
            self._notify(peer, EventType.NODE_DELETED, path)
        elif changed:
            self._notify(peer, event, path)
        elif event is EventType.NODE_DATA_CHANGED:
            self.watches.data.add(path, peer, Mode.ONE_SHOT)
        else:
            self.watches.children.add(path, peer, Mode.ONE_SHOT)

    def _rearm_persistent(self, peer: Peer, request: SetWatches2Request) -> None:
        for path in request.persistent_watches:
            self.watches.add(path, peer, AddWatchMode.PERSISTENT)
        for path in request.persistent_recursive_watches:
            self.watches.add(path, peer, AddWatchMode.PERSISTENT_RECURSIVE)

    def _notify(self, peer: Peer, event: EventType, path: str) -> None:
        peer.deliver(frames.encode_event(event, path), self.state.zxid)

    def _node(self, path: str) -> Node | None:
        return self.state.tree.nodes.get(path)

    # -- housekeeping

    def delete_spent_nodes(self, wall_ms: int) -> int:
        """Delete empty containers and expired TTL nodes; return their number.

        One call examines up to `MAX_EXAMINED` nodes; while `is_examining`, call again, soon.
        """
        tree = self.state.tree
        if self._unexamined is None:
            self._unexamined = iter([*tree.containers, *tree.ttls])
        part = list(islice(self._unexamined, MAX_EXAMINED))
        if len(part) < MAX_EXAMINED:
            self._unexamined = None
        count = 0
        for path in part:
            if self._is_spent(path, wall_ms):
                self._commit(0, 0, wall_ms, DeleteTxn(path))
                count += 1
        return count

    @property
    def is_examining(self) -> bool:
        """Whether `delete_spent_nodes` has examined only a part of the nodes."""
        return self._unexamined is not None

    def _is_spent(self, path: str, wall_ms: int) -> bool:
        # It may have been deleted, and created again as another kind, since its path was listed.
        node = self._node(path)
        if node is None or node.children:
            return False
        if kind_of_owner(node.owner) is OwnerKind.TTL:
            return wall_ms - node.mtime > ttl_of_owner(node.owner)
        # A container that never had a child has `cversion` 0 and is kept.
        return kind_of_owner(node.owner) is OwnerKind.CONTAINER and node.cversion > 0


def _body(op: int, payload: bytes, start: int) -> Any:
    kind = SHAPES[op].request
    return None if kind is None else jute.decode(kind, payload, start)[0]

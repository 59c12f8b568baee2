"""A seeded script of operations, and the responses of a server in comparable form.

Transaction numbers and session ids are replaced by the order of their first appearance, times are
left out, and children are sorted. The result must be equal on every server.

The script leaves out two operations because of bugs in ZooKeeper 3.8.0: a check outside a multi,
which crashes it, and checkWatches, for which it also counts watches of other connections.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from coordination.errors import ErrorCode
from coordination.protocol import frames, jute, multi
from coordination.protocol.messages import (
    OPEN_ACL,
    SHAPES,
    Acl,
    AddWatchRequest,
    AuthRequest,
    CheckRequest,
    CreateRequest,
    CreateTtlRequest,
    DeleteRequest,
    GetEphemeralsRequest,
    OpCode,
    PathRequest,
    ReadRequest,
    ReplyHeader,
    SetAclRequest,
    SetDataRequest,
    SetWatchesRequest,
    Stat,
    WatcherEvent,
    WatchesRequest,
)
from coordination.protocol.multi import Op
from coordination.server.state.acl import digest_identity
from tests.integration.coordination.process import RawClient, session_of

NAMES = ("a", "b", "c")
ODD_PATHS = (
    "",
    "/",
    "nope",
    "/a/",
    "//a",
    "/a//b",
    "/..",
    "/a/./b",
    "/a\x01",
    "/\ud7ff",
    "/zookeeper",
)
BOB, EVE = digest_identity(b"bob:1").id, digest_identity(b"eve:2").id
ACLS = (
    OPEN_ACL,
    (Acl(31, "digest", BOB),),
    (Acl(1, "world", "anyone"), Acl(31, "digest", BOB)),
    (Acl(31, "auth", ""),),
    (Acl(30, "world", "anyone"), Acl(1, "ip", "127.0.0.1")),
    (Acl(15, "world", "anyone"), Acl(15, "world", "anyone")),
    (Acl(31, "ip", "bad"),),
    (Acl(31, "nobody", "x"),),
    (),
)
# The third connection has only persistent watches: 3.8.0 confuses them with one-shot ones.
PERSISTENT_CONNECTION = 2


class Step(NamedTuple):
    """One operation by one connection; an `op` of None closes the session and opens another."""

    connection: int
    op: OpCode | None
    request: Any


def script(seed: int, count: int) -> Iterator[Step]:
    """Yield `count` steps, the same for the same seed."""
    chance = random.Random(seed)
    makers: list[tuple[int, Callable[[random.Random], tuple[OpCode, Any]]]] = [
        (20, _create),
        (3, _create_special),
        (8, _delete),
        (10, _set_data),
        (12, _read),
        (3, _acl),
        (8, _multi),
        (3, _multi_read),
        (6, _about_watches),
        (4, _about_session),
    ]
    weights = [weight for weight, _ in makers]
    for number in range(count):
        connection = chance.randrange(3)
        if number % 97 == 96:
            yield Step(connection, None, None)
            continue
        if connection == PERSISTENT_CONNECTION and chance.random() < 0.3:
            yield Step(connection, *_persistent(chance))
            continue
        maker = chance.choices(makers, weights)[0][1]
        op, request = maker(chance)
        if connection == PERSISTENT_CONNECTION:
            op, request = _without_one_shot_watch(op, request)
        yield Step(connection, op, request)


def _without_one_shot_watch(op: OpCode, request: Any) -> tuple[OpCode, Any]:
    if isinstance(request, ReadRequest):
        return op, request._replace(watch=False)
    return (OpCode.WHO_AM_I, None) if op is OpCode.SET_WATCHES else (op, request)


def _path(chance: random.Random) -> str:
    if chance.random() < 0.06:
        return chance.choice(ODD_PATHS)
    return "".join(f"/{chance.choice(NAMES)}" for _ in range(chance.randint(1, 3)))


def _data(chance: random.Random) -> bytes | None:
    return chance.choice((None, b"", b"x", b"value" * chance.randint(1, 9)))


def _acl_value(chance: random.Random) -> tuple[Acl, ...]:
    return OPEN_ACL if chance.random() < 0.8 else chance.choice(ACLS)


def _version(chance: random.Random) -> int:
    return chance.choice((-1, -1, -1, 0, 0, 1, 2, 7))


def _create(chance: random.Random) -> tuple[OpCode, Any]:
    flags = chance.choice((0, 0, 0, 0, 1, 1, 2, 3, 9))
    request = CreateRequest(_path(chance), _data(chance), _acl_value(chance), flags)
    return chance.choice((OpCode.CREATE, OpCode.CREATE2)), request


def _create_special(chance: random.Random) -> tuple[OpCode, Any]:
    path, data = _path(chance), _data(chance)
    if chance.random() < 0.5:
        return OpCode.CREATE_CONTAINER, CreateRequest(path, data, OPEN_ACL, 4)
    ttl_ms = chance.choice((0, -5, 10**9, 1 << 41))
    return OpCode.CREATE_TTL, CreateTtlRequest(path, data, OPEN_ACL, chance.choice((5, 6)), ttl_ms)


def _delete(chance: random.Random) -> tuple[OpCode, Any]:
    return OpCode.DELETE, DeleteRequest(_path(chance), _version(chance))


def _set_data(chance: random.Random) -> tuple[OpCode, Any]:
    return OpCode.SET_DATA, SetDataRequest(_path(chance), _data(chance), _version(chance))


def _read(chance: random.Random) -> tuple[OpCode, Any]:
    reads = (OpCode.EXISTS, OpCode.GET_DATA, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2)
    return chance.choice(reads), ReadRequest(_path(chance), chance.random() < 0.6)


def _acl(chance: random.Random) -> tuple[OpCode, Any]:
    if chance.random() < 0.5:
        return OpCode.GET_ACL, PathRequest(_path(chance))
    return OpCode.SET_ACL, SetAclRequest(_path(chance), chance.choice(ACLS), _version(chance))


def _multi(chance: random.Random) -> tuple[OpCode, Any]:
    makers = (_create, _create, _create_special, _set_data, _delete, _check, _check)
    ops = [Op(*chance.choice(makers)(chance)) for _ in range(chance.randint(0, 4))]
    return OpCode.MULTI, ops


def _check(chance: random.Random) -> tuple[OpCode, Any]:
    return OpCode.CHECK, CheckRequest(_path(chance), _version(chance))


def _multi_read(chance: random.Random) -> tuple[OpCode, Any]:
    reads = (OpCode.GET_DATA, OpCode.GET_CHILDREN)
    ops = [Op(chance.choice(reads), ReadRequest(_path(chance), False)) for _ in range(4)]
    return OpCode.MULTI_READ, ops


def _about_watches(chance: random.Random) -> tuple[OpCode, Any]:
    path = _path(chance)
    if chance.random() < 0.5:
        return OpCode.REMOVE_WATCHES, WatchesRequest(path, chance.choice((1, 2, 3, 3, 9)))
    return OpCode.SYNC, PathRequest("/a")


def _persistent(chance: random.Random) -> tuple[OpCode, Any]:
    # One mode per path, for the same reason.
    deep = chance.random() < 0.5
    path = chance.choice(("/a", "/a/b") if deep else ("/b", "/c"))
    return OpCode.ADD_WATCH, AddWatchRequest(path, int(deep))


def _about_session(chance: random.Random) -> tuple[OpCode, Any]:
    return chance.choice(
        (
            (OpCode.WHO_AM_I, None),
            (OpCode.PING, None),
            (OpCode.GET_EPHEMERALS, GetEphemeralsRequest(chance.choice((None, "", "/", "/a")))),
            (OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest(_path(chance))),
            (OpCode.AUTH, AuthRequest(0, "digest", chance.choice((b"bob:1", b"eve:2")))),
            (OpCode.SET_WATCHES, SetWatchesRequest(1 << 60, ("/a",), ("/b",), ("/c",))),
        )
    )


Opener = Callable[[], tuple[RawClient, int]]


def _open(port: int) -> tuple[RawClient, int]:
    client = RawClient(port, 40_000)
    return client, session_of(client.shake_hands())[0]


class Player:
    """Connections to one server that play a script: three, or one by each of `openers`.

    An opener returns a connection and the id of its session.
    """

    def __init__(self, port: int, openers: Sequence[Opener] | None = None) -> None:
        self._openers = openers or [partial(_open, port)] * 3
        self._labels: dict[str, dict[int, int]] = {"zxid": {0: 0}, "session": {0: 0}}
        self._connections = [self._connect(number) for number in range(len(self._openers))]
        self._xid = 0

    def close(self) -> None:
        for client in self._connections:
            client.socket.close()

    def play(self, step: Step) -> tuple[Any, list[list[tuple[int, str]]]]:
        """Return the result of a step, and the events that it caused on each connection."""
        events: list[list[tuple[int, str]]] = [[] for _ in self._connections]
        result = self._result(step, events[step.connection])
        for client, seen in zip(self._connections, events, strict=True):
            # All events of an earlier write arrive before the reply to this.
            self._ask(client, OpCode.SYNC, jute.encode(PathRequest("/")), seen)
        return result, events

    def _result(self, step: Step, seen: list[tuple[int, str]]) -> Any:
        client = self._connections[step.connection]
        if step.op is None:
            header, _ = self._ask(client, OpCode.CLOSE_SESSION, b"", seen)
            client.socket.close()
            self._connections[step.connection] = self._connect(step.connection)
            return header.err
        header, body = self._ask(client, step.op, _encoded(step), seen)
        if step.op is OpCode.SET_WATCHES:
            # The fired events would depend on numbers that differ; with this zxid none fires.
            return header.err
        return header.err or self._comparable(_decoded(step.op, body))

    def _connect(self, number: int) -> RawClient:
        client, session_id = self._openers[number]()
        self._label("session", session_id)
        return client

    def _ask(
        self, client: RawClient, op: int, body: bytes, seen: list[tuple[int, str]]
    ) -> tuple[ReplyHeader, bytes]:
        self._xid += 1
        xid = {OpCode.PING: -2, OpCode.AUTH: -4}.get(OpCode(op), self._xid)
        client.socket.sendall(frames.encode_request(xid, op, body))
        while True:
            payload = client.receive()
            assert payload is not None, f"closed after {OpCode(op).name}"
            header, start = jute.decode(ReplyHeader, payload)
            if header.xid == xid:
                return header, payload[start:]
            assert header.xid == -1
            event, _ = jute.decode(WatcherEvent, payload, start)
            seen.append((event.type, event.path))

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, Stat):
            return (
                *(self._label("zxid", each) for each in (value.czxid, value.mzxid, value.pzxid)),
                value.version,
                value.cversion,
                value.aversion,
                self._label("session", value.ephemeral_owner),
                value.data_length,
                value.num_children,
            )
        if isinstance(value, multi.Result):
            return (value.type, value.err, self._comparable(value.response))
        if hasattr(value, "_asdict"):
            named = value._asdict()
            if "children" in named:
                named["children"] = sorted(named["children"])
            if "client_info" in named:
                named["client_info"] = sorted(named["client_info"])
            return {name: self._comparable(each) for name, each in named.items()}
        return [self._comparable(each) for each in value] if isinstance(value, list) else value

    def _label(self, kind: str, number: int) -> int:
        labels = self._labels[kind]
        return labels.setdefault(number, len(labels))


def _encoded(step: Step) -> bytes:
    if step.op in (OpCode.MULTI, OpCode.MULTI_READ):
        return multi.encode_ops(step.request)
    return b"" if step.request is None else jute.encode(step.request)


def _decoded(op: OpCode, body: bytes) -> Any:
    if op in (OpCode.MULTI, OpCode.MULTI_READ):
        return multi.decode_results(body)
    kind = SHAPES[op].response
    return None if kind is None else jute.decode(kind, body)[0]


def name_of(result: Any) -> str:
    """Return the name of a result, for a message."""
    if isinstance(result, int) and result < 0:
        return ErrorCode(result).name
    return str(result)

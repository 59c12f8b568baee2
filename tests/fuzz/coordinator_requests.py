"""Hostile byte streams for a coordinator: handshakes, requests, four-letter words, damaged data.

Half of the values exist in the coordinator (nodes, a session), so that requests pass the first
check. The others are edge cases of their type. Occasionally one list of a request is as long as a
packet allows. All choices come from one source of randomness.
"""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from coordination.protocol import frames, jute, multi
from coordination.protocol.frames import Handshake
from coordination.protocol.messages import (
    NO_PASSWORD,
    OPEN_ACL,
    Acl,
    AddWatchRequest,
    AuthRequest,
    CheckRequest,
    ConnectRequest,
    CreateRequest,
    CreateTtlRequest,
    DeleteRequest,
    GetEphemeralsRequest,
    OpCode,
    PathRequest,
    ReadRequest,
    SaslToken,
    SetAclRequest,
    SetDataRequest,
    SetWatches2Request,
    SetWatchesRequest,
    WatchesRequest,
)
from coordination.protocol.multi import Op
from coordination.server.four_letter import COMMANDS

INTS: Final = (0, 1, -1, 2, 3, 5, 7, 31, 0x7FFFFFFF, -0x80000000)
LONGS: Final = (0, 1, -1, 1 << 40, (1 << 63) - 1, -(1 << 63))
WORDS: Final = (
    "", "/", "//", "a", "/.", "/..", "/a/../b", "/\0", "/zookeeper", "/zookeeper/quota",
    "/\x1b[31m",
    "/zażółć", "/" + "x" * 5_000, "/d" * 2_000, "/e" * 200_000, "world", "anyone", "ip", "auth",
    "digest", "10.0.0.0/8", "::/0", "a:b", "super",
)  # fmt: skip
PROOF: Final = (
    b'username="bob"', b'realm="zk-sasl-md5"', b'nonce="n"', b"nc=00000001", b'cnonce="c"',
    b'digest-uri="zookeeper/zk-sasl-md5"', b"qop=auth", b"response=" + b"0" * 32, b"charset=utf-8",
)  # fmt: skip
"""Directives of a token of DIGEST-MD5."""
MOST_BODY_BYTES: Final = frames.MAX_REQUEST_BYTES - frames.REQUEST_HEADER_BYTES
MOST_REQUESTS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Nodes and a session that exist in the coordinator under test."""

    paths: Sequence[str]
    session_id: int
    password: bytes


class HostileRequests:
    """Generates streams for one coordinator."""

    def __init__(self, rng: random.Random, around: Surroundings) -> None:
        self._rng = rng
        self._around = around
        self._kinds: list[Callable[[], tuple[OpCode | int, bytes]]] = [
            self._create, self._create, self._delete, self._read, self._read, self._set_data,
            self._acl, self._watch, self._watches, self._set_watches, self._multi, self._multi_read,
            self._auth, self._sasl, self._noise, self._other,
        ]  # fmt: skip

    def stream(self) -> tuple[str, bytes]:
        """Return the kind of a stream, and its bytes for one connection."""
        rng = self._rng
        match rng.randrange(12):
            case 0:
                return "words", rng.choice([*COMMANDS, b"ruo", b"RUOK"]) + rng.randbytes(
                    rng.choice([0, 0, 3, 1000])
                )
            case 1:
                return "noise", rng.randbytes(rng.choice([1, 4, 5, 49, 4096]))
            case 2:
                return "handshakes", self._handshake() + self._handshake()
            case 3:
                return "damaged", self._damaged(self._requests())
            case _:
                return "requests", self._requests()

    def _requests(self) -> bytes:
        packets = [self._handshake() if self._rng.random() < 0.1 else self._greeting()]
        for _ in range(self._rng.randint(1, MOST_REQUESTS)):
            op, body = self._rng.choice(self._kinds)()
            packets.append(frames.encode_request(self._int(), op, body[:MOST_BODY_BYTES]))
            if len(body) > MOST_BODY_BYTES // 4:
                # One large request per stream is enough.
                break
        return b"".join(packets)

    def _greeting(self) -> bytes:
        hello = ConnectRequest(self._rng.choice([0, 1]), 0, 10_000, 0, NO_PASSWORD)
        return frames.encode_handshake(Handshake(hello, self._rng.choice([None, True, False])))

    def _handshake(self) -> bytes:
        rng, around = self._rng, self._around
        hello = ConnectRequest(
            rng.choice(INTS),
            rng.choice(LONGS),
            rng.choice([10_000, *INTS]),
            rng.choice([0, around.session_id, *LONGS]),
            rng.choice([None, b"", NO_PASSWORD, around.password, bytes(500), bytes(2_000)]),
        )
        return frames.encode_handshake(Handshake(hello, rng.choice([None, True])))

    def _damaged(self, stream: bytes) -> bytes:
        damaged, rng = bytearray(stream), self._rng
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(49, max(50, min(len(damaged), 300)))
            match rng.randrange(4):
                case 0:
                    damaged[place : place + 1] = rng.randbytes(1)
                case 1:
                    damaged[place : place + 4] = struct.pack(">i", rng.choice(INTS))
                case 2:
                    del damaged[place : place + rng.randint(1, 9)]
                case _:
                    damaged[place:place] = rng.randbytes(rng.randint(1, 9))
        return bytes(damaged)

    # -- values

    def _int(self) -> int:
        return self._rng.choice([*INTS, self._rng.getrandbits(31)])

    def _path(self) -> str:
        rng = self._rng
        match rng.randrange(5):
            case 0 | 1:
                return rng.choice(self._around.paths)
            case 2:
                return f"{rng.choice(self._around.paths)}/{rng.getrandbits(16):x}"
            case 3:
                return f"/f{rng.getrandbits(16):x}"
            case _:
                return rng.choice(WORDS)

    def _data(self) -> bytes | None:
        sizes = [0, 1, 100, 100, 10_000, MOST_BODY_BYTES - 1_000]
        return self._rng.choice([None, bytes(self._rng.choice(sizes))])

    def _entries(self) -> Sequence[Acl]:
        rng = self._rng
        if rng.random() < 0.5:
            return OPEN_ACL
        count = rng.choice([0, 1, 1, 3, 101, 5_000, 60_000])
        scheme, name = rng.choice(WORDS[-9:]), rng.choice(WORDS[-9:])
        return tuple(Acl(rng.choice(INTS), scheme, f"{name}{n % 7}") for n in range(count))

    def _paths(self, count: int) -> tuple[str, ...]:
        if self._rng.random() < 0.3:
            return (self._path()[:50],) * count
        return tuple(f"/w{number:x}" for number in range(count))

    # -- requests

    def _create(self) -> tuple[OpCode, bytes]:
        op = self._rng.choice([OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER])
        if self._rng.random() < 0.1:
            ttl = self._rng.choice(LONGS)
            request = CreateTtlRequest(
                self._path(), self._data(), self._entries(), self._flag(), ttl
            )
            return OpCode.CREATE_TTL, jute.encode(request)
        return op, jute.encode(self._create_request())

    def _create_request(self) -> CreateRequest:
        return CreateRequest(self._path(), self._data(), self._entries(), self._flag())

    def _flag(self) -> int:
        return self._rng.choice([0, 0, 1, 2, 3, 4, 5, 6, 7, -1])

    def _delete(self) -> tuple[OpCode, bytes]:
        if self._rng.random() < 0.2:
            return OpCode.DELETE_CONTAINER, jute.encode(PathRequest(self._path()))
        return OpCode.DELETE, jute.encode(DeleteRequest(self._path(), self._int()))

    def _set_data(self) -> tuple[OpCode, bytes]:
        return OpCode.SET_DATA, jute.encode(SetDataRequest(self._path(), self._data(), -1))

    def _read(self) -> tuple[OpCode, bytes]:
        op = self._rng.choice(
            [OpCode.GET_DATA, OpCode.EXISTS, OpCode.GET_CHILDREN, OpCode.GET_CHILDREN2]
        )
        return op, jute.encode(ReadRequest(self._path(), self._rng.random() < 0.7))

    def _acl(self) -> tuple[OpCode, bytes]:
        if self._rng.random() < 0.5:
            return OpCode.GET_ACL, jute.encode(PathRequest(self._path()))
        return OpCode.SET_ACL, jute.encode(SetAclRequest(self._path(), self._entries(), -1))

    def _watch(self) -> tuple[OpCode, bytes]:
        request = AddWatchRequest(self._path(), self._rng.choice([0, 1, 1, 2, -1]))
        return OpCode.ADD_WATCH, jute.encode(request)

    def _watches(self) -> tuple[OpCode, bytes]:
        op = self._rng.choice([OpCode.CHECK_WATCHES, OpCode.REMOVE_WATCHES])
        return op, jute.encode(WatchesRequest(self._path(), self._rng.choice([1, 2, 3, 0, 9])))

    def _set_watches(self) -> tuple[OpCode, bytes]:
        rng = self._rng
        lists = [self._paths(rng.choice([0, 1, 10, 3_000, 9_900, 150_000])) for _ in range(5)]
        if rng.random() < 0.5:
            lists = [each if place == 0 else () for place, each in enumerate(lists)]
        rng.shuffle(lists)
        since = rng.choice(LONGS)
        if rng.random() < 0.5:
            return OpCode.SET_WATCHES, jute.encode(SetWatchesRequest(since, *lists[:3]))
        return OpCode.SET_WATCHES2, jute.encode(SetWatches2Request(since, *lists))

    def _multi(self) -> tuple[OpCode, bytes]:
        kinds: list[Callable[[], Op]] = [
            lambda: Op(OpCode.CREATE, self._create_request()),
            lambda: Op(OpCode.CREATE, CreateRequest("/", b"", OPEN_ACL, 2)),
            lambda: Op(OpCode.DELETE, DeleteRequest(self._path(), -1)),
            lambda: Op(OpCode.SET_DATA, SetDataRequest(self._path(), b"", -1)),
            lambda: Op(OpCode.CHECK, CheckRequest(self._path(), self._int())),
            lambda: Op(OpCode.GET_DATA, ReadRequest(self._path(), False)),
        ]
        return OpCode.MULTI, self._ops(kinds)

    def _multi_read(self) -> tuple[OpCode, bytes]:
        return OpCode.MULTI_READ, self._ops(
            [
                lambda: Op(OpCode.GET_DATA, ReadRequest(self._path(), True)),
                lambda: Op(OpCode.GET_CHILDREN, ReadRequest(self._path(), False)),
            ]
        )

    def _ops(self, kinds: list[Callable[[], Op]]) -> bytes:
        rng = self._rng
        if rng.random() < 0.3:
            one = multi.encode_ops([rng.choice(kinds)()])[:-9]
            count = rng.choice([100, multi.MAX_OPS, multi.MAX_OPS + 1, 60_000])
            return one * min(count, MOST_BODY_BYTES // len(one)) + multi.encode_ops([])
        return multi.encode_ops([rng.choice(kinds)() for _ in range(rng.randint(0, 20))])

    def _auth(self) -> tuple[OpCode, bytes]:
        scheme = self._rng.choice(["digest", "digest", "ip", "world", "super", "sasl", "", "x509"])
        credentials = self._rng.choice([b"a:b", b"", b":", bytes(5_000), self._rng.randbytes(9)])
        return OpCode.AUTH, jute.encode(AuthRequest(0, scheme, credentials))

    def _sasl(self) -> tuple[OpCode, bytes]:
        directives = [*PROOF, b"", b'"', b"=", b"\xff", b'username="\\"', b"a=" + bytes(3_000)]
        count = self._rng.choice([0, 1, 6, len(PROOF)])
        token = b",".join(self._rng.choice(directives) for _ in range(count))
        return OpCode.SASL, jute.encode(
            SaslToken(self._rng.choice([token, token, None, bytes(9**6)]))
        )

    def _other(self) -> tuple[int, bytes]:
        prefix = GetEphemeralsRequest(self._path())
        plain: list[tuple[int, tuple[Any, ...] | None]] = [
            (OpCode.SYNC, PathRequest(self._path())),
            (OpCode.PING, None),
            (OpCode.GET_EPHEMERALS, prefix),
            (OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest(self._path())),
            (OpCode.WHO_AM_I, None),
            (OpCode.CLOSE_SESSION, None),
            (OpCode.CHECK, CheckRequest(self._path(), -1)),
            (OpCode.RECONFIG, None),
            (OpCode.SASL, None),
            (self._int(), None),
        ]
        op, request = self._rng.choice(plain)
        return op, b"" if request is None else jute.encode(request)

    def _noise(self) -> tuple[OpCode, bytes]:
        return self._rng.choice(list(OpCode)), self._rng.randbytes(self._rng.choice([0, 9, 500]))

"""A service without a server, and peers that record their events; in memory only."""

from collections.abc import Sequence
from typing import Any

from coordination.protocol import frames, jute, multi
from coordination.protocol.messages import (
    OPEN_ACL,
    SHAPES,
    Acl,
    CreateFlag,
    CreateRequest,
    OpCode,
    ReplyHeader,
    WatcherEvent,
)
from coordination.protocol.multi import Op, Result
from coordination.server.state.acl import Identity
from coordination.server.state.service import Reply, Service
from coordination.server.state.tree import State

WALL_MS = 1_700_000_000_000


class FakePeer:
    """Connection of one session; `seen` holds (event type, path) in order of delivery."""

    def __init__(self, service: Service, session_id: int = 0, address: str = "127.0.0.1") -> None:
        self.service = service
        self.session_id = session_id
        self.identities: Sequence[Identity] = (Identity("ip", address),)
        self.seen: list[tuple[int, str]] = []
        self.tags: list[int] = []
        self._xid = 0

    def deliver(self, event: bytes, tag: int) -> None:
        _, start = jute.decode(ReplyHeader, event, 4)
        decoded, _ = jute.decode(WatcherEvent, event, start)
        self.seen.append((decoded.type, decoded.path))
        self.tags.append(tag)

    def raw(self, op: int, body: bytes, wall_ms: int = WALL_MS) -> Reply:
        self._xid += 1
        return self.service.handle(self, self._xid, op, body, 0, wall_ms)

    def ask(self, op: OpCode, request: tuple[Any, ...] | None, wall_ms: int = WALL_MS) -> Any:
        """Run a request; return its error code, or its response (None without a body)."""
        reply = self.raw(op, b"" if request is None else jute.encode(request), wall_ms)
        kind = SHAPES[op].response
        if reply.err:
            return reply.err
        return None if kind is None else jute.decode(kind, reply.body)[0]

    def create(
        self,
        path: str,
        data: bytes | None = b"",
        flags: CreateFlag = CreateFlag.PERSISTENT,
        acl: tuple[Acl, ...] = OPEN_ACL,
    ) -> Any:
        response = self.ask(OpCode.CREATE, CreateRequest(path, data, acl, flags))
        return response if isinstance(response, int) else response.path

    def multi(self, *ops: Op) -> list[Result]:
        reply = self.raw(OpCode.MULTI, multi.encode_ops(ops))
        assert reply.err == 0
        return multi.decode_results(reply.body)


def service() -> Service:
    return Service(State(), next_session_id=1 << 56)


def peer(of: Service, timeout_ms: int = 10_000) -> FakePeer:
    session = of.open_session(timeout_ms, now_ms=0, wall_ms=WALL_MS)
    return FakePeer(of, session.session_id)


def event_packet_path(packet: bytes) -> str:
    return jute.decode(WatcherEvent, packet, 4 + frames.REPLY_HEADER_BYTES)[0].path

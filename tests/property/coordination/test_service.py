"""Random requests: agreement with a naive model, replay, and robustness of the service."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from coordination.errors import ErrorCode
from coordination.protocol import jute, multi, node_path
from coordination.protocol.messages import (
    OPEN_ACL,
    CheckRequest,
    CreateRequest,
    DeleteRequest,
    OpCode,
    ReadRequest,
    SetDataRequest,
)
from coordination.protocol.multi import Op
from coordination.server.state.tree import State
from tests.unit.coordination.fakes import FakePeer, peer, service

NAMES = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map(lambda n: "/" + "/".join(n))
VERSIONS = st.sampled_from([-1, 0, 1])
WRITES = st.one_of(
    st.builds(
        lambda path, flags: Op(OpCode.CREATE, CreateRequest(path, b"", OPEN_ACL, flags)),
        NAMES,
        st.sampled_from([0, 0, 1, 2]),
    ),
    st.builds(lambda p, v: Op(OpCode.SET_DATA, SetDataRequest(p, b"x", v)), NAMES, VERSIONS),
    st.builds(lambda p, v: Op(OpCode.DELETE, DeleteRequest(p, v)), NAMES, VERSIONS),
)
CHECKS = st.builds(lambda p, v: Op(OpCode.CHECK, CheckRequest(p, v)), NAMES, VERSIONS)
MULTIS = st.lists(st.one_of(WRITES, WRITES, CHECKS), max_size=4)


class Model:
    """The tree as a flat mapping: path to (version, is ephemeral, children ever created)."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[int, bool, int]] = {"/": (0, False, 0)}

    def apply(self, op: Op) -> int:
        """Return the code of the operation, and apply its change if the code is 0."""
        request: Any = op.request
        if op.type is OpCode.CREATE:
            return self._create(request.path, request.flags)
        if op.type is OpCode.DELETE:
            return self._delete(request.path, request.version)
        if request.path not in self.nodes:
            return ErrorCode.NO_NODE
        version, ephemeral, created = self.nodes[request.path]
        if request.version not in (-1, version):
            return ErrorCode.BAD_VERSION
        if op.type is OpCode.SET_DATA:
            self.nodes[request.path] = (version + 1, ephemeral, created)
        return 0

    def _create(self, path: str, flags: int) -> int:
        parent = node_path.parent_of(path) or "/"
        if parent not in self.nodes:
            return ErrorCode.NO_NODE
        version, ephemeral, created = self.nodes[parent]
        path = f"{path}{created:010d}" if flags == 2 else path
        if path in self.nodes:
            return ErrorCode.NODE_EXISTS
        if ephemeral:
            return ErrorCode.NO_CHILDREN_FOR_EPHEMERALS
        self.nodes[parent] = (version, ephemeral, created + 1)
        self.nodes[path] = (0, flags == 1, 0)
        return 0

    def _delete(self, path: str, version: int) -> int:
        if (node_path.parent_of(path) or "/") not in self.nodes or path not in self.nodes:
            return ErrorCode.NO_NODE
        if version not in (-1, self.nodes[path][0]):
            return ErrorCode.BAD_VERSION
        if any(each.startswith(path + "/") for each in self.nodes):
            return ErrorCode.NOT_EMPTY
        del self.nodes[path]
        return 0


def look(client: FakePeer) -> dict[str, tuple[int, bool, int]]:
    nodes = client.service.state.tree.nodes
    return {
        path: (node.version, node.owner != 0, node.cversion)
        for path, node in nodes.items()
        if path and not path.startswith("/zookeeper")
    }


@given(st.lists(MULTIS, max_size=25))
@settings(max_examples=150, deadline=None)
def test_multis_agree_with_a_flat_mapping_and_are_whole_or_absent(script: list[list[Op]]) -> None:
    client, model = peer(service()), Model()
    for ops in script:
        before = dict(model.nodes)
        codes: list[int] = []
        for op in ops:
            codes.append(model.apply(op))
            if codes[-1]:
                model.nodes = before
                codes = [0] * (len(codes) - 1) + [codes[-1]]
                codes += [ErrorCode.RUNTIME_INCONSISTENCY] * (len(ops) - len(codes))
                break
        assert [result.err for result in client.multi(*ops)] == codes
        assert look(client) == model.nodes


@given(st.lists(MULTIS, max_size=25))
@settings(max_examples=100, deadline=None)
def test_replay_gives_the_same_state(script: list[list[Op]]) -> None:
    client = peer(service())
    for ops in script:
        client.multi(*ops)
    client.service.close_session(client.session_id, cxid=0, wall_ms=1)
    replayed = State()
    for entry in client.service.entries:
        replayed.apply(entry)
    live = client.service.state
    assert replayed.zxid == live.zxid
    assert replayed.tree.ephemerals == live.tree.ephemerals == {}
    assert {path: node.stat() for path, node in replayed.tree.nodes.items()} == {
        path: node.stat() for path, node in live.tree.nodes.items()
    }


@given(st.sampled_from([int(op) for op in OpCode if op != OpCode.CLOSE_SESSION]), st.binary())
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_do_not_break_the_service(op: int, body: bytes) -> None:
    client = peer(service())
    before = client.service.state.zxid
    reply = client.raw(op, body)
    assert reply.err in set(ErrorCode)
    if reply.err:
        assert client.service.state.zxid == before


@given(MULTIS)
def test_a_multi_survives_encoding(ops: list[Op]) -> None:
    assert multi.decode_ops(OpCode.MULTI, multi.encode_ops(ops)) == ops


@given(st.text(max_size=8).map(lambda text: "/" + text))
@settings(max_examples=300)
def test_a_path_is_created_exactly_when_it_is_valid(path: str) -> None:
    try:
        body = jute.encode(CreateRequest(path, b"", OPEN_ACL, 0))
    except UnicodeEncodeError:
        return
    client = peer(service())
    client.raw(OpCode.CREATE, body)
    exists = client.ask(OpCode.EXISTS, ReadRequest(path, False))
    created = path in client.service.state.tree.nodes and not isinstance(exists, int)
    if created:
        assert node_path.is_valid(path)
    elif node_path.is_valid(path):
        assert node_path.parent_of(path) not in ("", *client.service.state.tree.nodes)

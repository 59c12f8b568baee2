"""Requests through the whole service: multi, sessions, tags, housekeeping, malformed input."""

import pytest

from coordination.errors import ErrorCode, OperationError
from coordination.protocol import jute, multi, node_path
from coordination.protocol.messages import (
    MAX_WATCHED_PATHS,
    OPEN_ACL,
    Acl,
    AddWatchRequest,
    CheckRequest,
    Create2Response,
    CreateFlag,
    CreateRequest,
    CreateTtlRequest,
    DeleteRequest,
    EventType,
    GetEphemeralsRequest,
    OpCode,
    PathRequest,
    ReadRequest,
    SetAclRequest,
    SetDataRequest,
    SetWatchesRequest,
)
from coordination.protocol.multi import Op
from coordination.server.state.acl import SUPER, digest_identity
from coordination.server.state.reads import MAX_MULTI_READ_BYTES
from coordination.server.state.service import Service
from coordination.server.state.tree import MIN_SHARED_ACLS, State, Tree, Undo
from coordination.server.state.txns import CloseTxn, CreateTxn, MultiTxn, SetAclTxn
from coordination.server.state.writes import prepare
from tests.unit.coordination.fakes import WALL_MS, FakePeer, peer, service


def create_op(path: str, flags: int = 0) -> Op:
    return Op(OpCode.CREATE, CreateRequest(path, b"", OPEN_ACL, flags))


def set_op(path: str, version: int = -1) -> Op:
    return Op(OpCode.SET_DATA, SetDataRequest(path, b"x", version))


def delete_op(path: str) -> Op:
    return Op(OpCode.DELETE, DeleteRequest(path, -1))


def check_op(path: str, version: int) -> Op:
    return Op(OpCode.CHECK, CheckRequest(path, version))


def snapshot(client: FakePeer) -> dict[str, object]:
    tree = client.service.state.tree
    return {path: (node.data, node.acl, node.stat()) for path, node in tree.nodes.items()}


def test_later_operations_of_a_multi_see_the_earlier_ones() -> None:
    client = peer(service())
    results = client.multi(
        create_op("/m"), set_op("/m", 0), create_op("/m/c"), delete_op("/m/c"), check_op("/m", 1)
    )
    assert [result.type for result in results] == [
        OpCode.CREATE,
        OpCode.SET_DATA,
        OpCode.CREATE,
        OpCode.DELETE,
        OpCode.CHECK,
    ]
    node = client.service.state.tree.nodes["/m"]
    assert (node.czxid, node.mzxid, node.pzxid) == (client.service.state.zxid,) * 3


@pytest.mark.parametrize("last", [check_op("/kept", 9), create_op("/kept"), delete_op("/none")])
def test_a_failed_multi_changes_nothing_at_all(last: Op) -> None:
    client = peer(service())
    client.create("/kept", b"old")
    client.create("/kept/eph", b"", CreateFlag.EPHEMERAL)
    client.create("/doomed")
    client.ask(OpCode.CREATE_CONTAINER, CreateRequest("/box", b"", OPEN_ACL, 4))
    client.ask(OpCode.EXISTS, ReadRequest("/new", True))
    before, entries = snapshot(client), len(client.service.entries)
    owned = {key: dict(value) for key, value in client.service.state.tree.ephemerals.items()}
    results = client.multi(
        set_op("/kept"),
        create_op("/new", CreateFlag.EPHEMERAL),
        delete_op("/kept/eph"),
        delete_op("/doomed"),
        delete_op("/box"),
        last,
        set_op("/kept"),
    )
    failed = results[5].err
    assert [r.err for r in results] == [0] * 5 + [failed, ErrorCode.RUNTIME_INCONSISTENCY]
    assert failed < -100
    assert snapshot(client) == before
    assert len(client.service.entries) == entries
    assert client.service.state.tree.ephemerals == owned
    assert list(client.service.state.tree.containers) == ["/box"]
    assert client.seen == []


def test_a_multi_is_one_transaction_and_fires_per_operation_in_order() -> None:
    client = peer(service())
    client.ask(OpCode.EXISTS, ReadRequest("/a", True))
    client.ask(OpCode.GET_CHILDREN, ReadRequest("/", True))
    before = client.service.state.zxid
    client.multi(create_op("/a"), set_op("/a"), create_op("/b"))
    assert client.service.state.zxid == before + 1
    assert isinstance(client.service.entries[-1].txn, MultiTxn)
    assert client.seen == [
        (EventType.NODE_CREATED, "/a"),
        (EventType.NODE_CHILDREN_CHANGED, "/"),
    ]


def test_create2_in_a_multi_returns_only_the_path() -> None:
    client = peer(service())
    op = Op(OpCode.CREATE2, CreateRequest("/a", b"", OPEN_ACL, 0))
    assert client.multi(op)[0].type == OpCode.CREATE


@pytest.mark.parametrize(
    ("kind", "request_"),
    [
        (OpCode.CREATE_CONTAINER, CreateRequest("/a", b"", OPEN_ACL, 4)),
        (OpCode.CREATE_TTL, CreateTtlRequest("/a", b"", OPEN_ACL, 5, 1_000)),
    ],
    ids=["container", "time to live"],
)
def test_special_nodes_in_a_multi_return_their_stat(
    kind: OpCode, request_: CreateRequest | CreateTtlRequest
) -> None:
    client = peer(service())
    [result] = client.multi(Op(kind, request_))
    stat = client.service.state.tree.nodes["/a"].stat()
    assert result == (OpCode.CREATE2, Create2Response("/a", stat), 0)


def test_an_empty_multi_succeeds_without_an_entry() -> None:
    client = peer(service())
    entries = len(client.service.entries)
    assert client.multi() == []
    assert len(client.service.entries) == entries


@pytest.mark.parametrize("op", [OpCode.MULTI, OpCode.MULTI_READ])
def test_reads_and_writes_do_not_mix_in_a_multi(op: OpCode) -> None:
    client = peer(service())
    mixed = multi.encode_ops([create_op("/a"), Op(OpCode.GET_DATA, ReadRequest("/", False))])
    assert client.raw(op, mixed).err == ErrorCode.MARSHALLING_ERROR
    assert "/a" not in client.service.state.tree.nodes


@pytest.mark.parametrize(
    ("kind", "op"),
    [
        (OpCode.MULTI, Op(OpCode.GET_DATA, ReadRequest("/", False))),
        (OpCode.MULTI, Op(OpCode.GET_CHILDREN, ReadRequest("/none", False))),
        (OpCode.MULTI_READ, create_op("/a")),
        (OpCode.MULTI_READ, Op(OpCode.CHECK, CheckRequest("/", -1))),
    ],
)
def test_a_multi_only_writes_and_a_multi_read_only_reads(kind: OpCode, op: Op) -> None:
    client = peer(service())
    assert client.raw(kind, multi.encode_ops([op])).err == ErrorCode.MARSHALLING_ERROR
    assert "/a" not in client.service.state.tree.nodes


def test_a_multi_read_has_a_result_per_read() -> None:
    client = peer(service())
    client.create("/a", b"1")
    ops = [
        Op(OpCode.GET_DATA, ReadRequest("/a", False)),
        Op(OpCode.GET_DATA, ReadRequest("/none", False)),
        Op(OpCode.GET_CHILDREN, ReadRequest("/", False)),
    ]
    reply = client.raw(OpCode.MULTI_READ, multi.encode_ops(ops))
    results = multi.decode_results(reply.body)
    assert [result.err for result in results] == [0, ErrorCode.NO_NODE, 0]


@pytest.mark.parametrize("op", [OpCode.CHECK, OpCode.RECONFIG])
def test_unsupported_operations_are_refused_without_closing(op: OpCode) -> None:
    reply = peer(service()).raw(op, jute.encode(CheckRequest("/", -1)))
    assert (reply.err, reply.closes) == (ErrorCode.UNIMPLEMENTED, False)


def test_an_unknown_operation_is_refused_and_the_connection_closed() -> None:
    reply = peer(service()).raw(9999, b"")
    assert (reply.err, reply.closes) == (ErrorCode.UNIMPLEMENTED, True)


def test_a_malformed_body_is_a_marshalling_error() -> None:
    client = peer(service())
    for op in (OpCode.CREATE, OpCode.GET_DATA, OpCode.MULTI, OpCode.SET_WATCHES2):
        assert client.raw(op, b"\x7f\xff\xff\xff").err == ErrorCode.MARSHALLING_ERROR


def test_a_read_is_tagged_by_its_node_and_an_error_by_the_tree() -> None:
    client = peer(service())
    client.create("/old")
    touched = client.service.state.zxid
    client.create("/new")
    fresh = client.raw(OpCode.GET_DATA, jute.encode(ReadRequest("/old", False)))
    missing = client.raw(OpCode.GET_DATA, jute.encode(ReadRequest("/none", False)))
    assert (fresh.tag, missing.tag) == (touched, touched + 1)
    client.ask(OpCode.SET_ACL, SetAclRequest("/old", OPEN_ACL, -1))
    changed = client.raw(OpCode.GET_ACL, jute.encode(PathRequest("/old")))
    assert changed.tag == touched + 2


def test_a_closed_session_deletes_its_nodes_in_one_transaction() -> None:
    client = peer(service())
    client.create("/a", b"", CreateFlag.EPHEMERAL)
    client.create("/b", b"", CreateFlag.EPHEMERAL)
    reply = client.raw(OpCode.CLOSE_SESSION, b"")
    assert reply.closes
    assert client.service.entries[-1].txn == CloseTxn(("/a", "/b"))
    assert client.service.state.timeouts_ms == {}
    assert client.service.sessions.find(client.session_id) is None


def test_ephemerals_are_listed_for_their_owner_only() -> None:
    owner = peer(service())
    owner.create("/a", b"", CreateFlag.EPHEMERAL)
    owner.create("/b", b"", CreateFlag.EPHEMERAL)
    other = peer(owner.service)
    everything = owner.ask(OpCode.GET_EPHEMERALS, GetEphemeralsRequest(None)).children
    assert sorted(everything) == ["/a", "/b"]
    assert owner.ask(OpCode.GET_EPHEMERALS, GetEphemeralsRequest("/a")).children == ("/a",)
    assert owner.ask(OpCode.GET_EPHEMERALS, GetEphemeralsRequest(" /a ")).children == ()
    assert len(owner.ask(OpCode.GET_EPHEMERALS, GetEphemeralsRequest(" / ")).children) == 2
    assert other.ask(OpCode.GET_EPHEMERALS, GetEphemeralsRequest("")).children == ()


def test_descendants_are_counted_at_any_depth() -> None:
    client = peer(service())
    for path in ("/a", "/a/b", "/a/b/c", "/ab"):
        client.create(path)
    count = client.ask(OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest("/a"))
    everything = client.ask(OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest("/"))
    assert (count.total_number, everything.total_number) == (2, 7)


def test_an_empty_container_is_deleted_once_it_had_a_child() -> None:
    client = peer(service())
    for path in ("/used", "/unused"):
        client.ask(OpCode.CREATE_CONTAINER, CreateRequest(path, b"", OPEN_ACL, 4))
    client.create("/used/x")
    assert client.service.delete_spent_nodes(WALL_MS) == 0
    client.ask(OpCode.DELETE, DeleteRequest("/used/x", -1))
    assert client.service.delete_spent_nodes(WALL_MS) == 1
    assert "/used" not in client.service.state.tree.nodes
    assert "/unused" in client.service.state.tree.nodes


def test_an_expired_ttl_node_without_children_is_deleted() -> None:
    client = peer(service())
    for path in ("/t", "/u"):
        client.ask(OpCode.CREATE_TTL, CreateTtlRequest(path, b"", OPEN_ACL, 5, 1000))
    client.create("/u/x")
    assert client.service.delete_spent_nodes(WALL_MS + 1000) == 0
    assert client.service.delete_spent_nodes(WALL_MS + 1001) == 1
    assert "/t" not in client.service.state.tree.nodes


def test_expired_nodes_are_deleted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordination.server.state.service.MAX_EXAMINED", 2)
    client = peer(service())
    for path in ("/a", "/b", "/c", "/d"):
        client.ask(OpCode.CREATE_TTL, CreateTtlRequest(path, b"", OPEN_ACL, 5, 1000))
    counts = [client.service.delete_spent_nodes(WALL_MS + 1001)]
    was_examining = client.service.is_examining
    # The others change before they are examined.
    for path in ("/c", "/d"):
        client.ask(OpCode.DELETE, DeleteRequest(path, -1))
    client.create("/d")
    counts += [client.service.delete_spent_nodes(WALL_MS + 1001) for _ in range(2)]
    assert counts == [2, 0, 0]
    assert (was_examining, client.service.is_examining) == (True, False)
    assert "/d" in client.service.state.tree.nodes


def test_replaying_the_entries_gives_the_same_state() -> None:
    client = peer(service())
    client.create("/a", b"1")
    client.multi(create_op("/a/b", CreateFlag.EPHEMERAL), set_op("/a"))
    client.ask(OpCode.CREATE_TTL, CreateTtlRequest("/t", b"", OPEN_ACL, 5, 1000))
    client.ask(OpCode.DELETE, DeleteRequest("/t", -1))
    replayed = State()
    for entry in client.service.entries:
        replayed.apply(entry)
    expected = client.service.state
    assert replayed.zxid == expected.zxid
    assert replayed.timeouts_ms == expected.timeouts_ms
    assert {path: node.stat() for path, node in replayed.tree.nodes.items()} == {
        path: node.stat() for path, node in expected.tree.nodes.items()
    }


def test_an_empty_container_can_be_deleted_by_a_request() -> None:
    client = peer(service())
    client.ask(OpCode.CREATE_CONTAINER, CreateRequest("/box", b"", OPEN_ACL, 4))
    client.create("/box/x")
    client.create("/e", b"", CreateFlag.EPHEMERAL)
    delete = OpCode.DELETE_CONTAINER
    assert client.ask(delete, PathRequest("/box")) == ErrorCode.NOT_EMPTY
    assert client.ask(delete, PathRequest("/e")) == ErrorCode.BAD_VERSION
    assert client.ask(delete, PathRequest("/none")) == ErrorCode.NO_NODE
    assert client.ask(delete, PathRequest("/")) == ErrorCode.BAD_ARGUMENTS
    client.ask(OpCode.DELETE, DeleteRequest("/box/x", -1))
    assert client.ask(delete, PathRequest("/box")) is None
    assert "/box" not in client.service.state.tree.containers


def test_whoami_returns_the_identities_of_the_connection() -> None:
    client = peer(service())
    client.identities = (SUPER, digest_identity(b"bob:1"), *client.identities)
    found = client.ask(OpCode.WHO_AM_I, None).client_info
    assert found == (("super", ""), ("digest", "bob"), ("ip", "127.0.0.1"))


def test_an_unknown_watch_mode_is_refused() -> None:
    client = peer(service())
    request = AddWatchRequest("/a", 7)
    assert client.ask(OpCode.ADD_WATCH, request) == ErrorCode.MARSHALLING_ERROR


def test_a_resumed_session_may_negotiate_another_timeout() -> None:
    owner = peer(service())
    session = owner.service.sessions.find(owner.session_id)
    assert session is not None
    before = owner.service.state.zxid
    owner.service.reattach(session, session.timeout_ms, now_ms=5, wall_ms=WALL_MS)
    assert owner.service.state.zxid == before
    owner.service.reattach(session, 4321, now_ms=5, wall_ms=WALL_MS)
    assert owner.service.state.timeouts_ms == {owner.session_id: 4321}
    assert owner.service.state.zxid == before + 1


def test_recovered_sessions_get_a_full_timeout_from_now() -> None:
    state = State()
    state.timeouts_ms[1 << 56] = 1000
    recovered = Service(state, next_session_id=1 << 56)
    recovered.adopt_sessions(now_ms=50_000)
    assert recovered.sessions.expired(50_999) == []
    assert len(recovered.sessions.expired(51_000)) == 1
    other = recovered.open_session(1000, now_ms=0, wall_ms=WALL_MS)
    assert other.session_id == (1 << 56) + 1, "the id of a live session is not reused"


def test_a_sync_and_a_ping_are_answered() -> None:
    client = peer(service())
    assert client.ask(OpCode.SYNC, PathRequest("/a")).path == "/a"
    assert client.ask(OpCode.PING, None) is None


def test_replaying_a_closed_session_gives_the_same_state() -> None:
    client = peer(service())
    client.create("/kept", b"1")
    client.create("/mine", b"", CreateFlag.EPHEMERAL)
    client.multi(set_op("/kept"), create_op("/kept/child"))
    client.raw(OpCode.CLOSE_SESSION, b"")
    again = State()
    for entry in client.service.entries:
        again.apply(entry)
    assert snapshot(client) == {
        path: (node.data, node.acl, node.stat()) for path, node in again.tree.nodes.items()
    }
    assert (again.timeouts_ms, again.zxid) == ({}, client.service.state.zxid)


def test_a_ttl_without_the_ttl_flag_is_refused() -> None:
    request = CreateTtlRequest("/t", b"", OPEN_ACL, CreateFlag.PERSISTENT, 1000)
    assert peer(service()).ask(OpCode.CREATE_TTL, request) == ErrorCode.BAD_ARGUMENTS


def test_prepare_refuses_a_read_request() -> None:
    client = peer(service())
    with pytest.raises(OperationError, match="unimplemented"):
        prepare(client.service.state.tree, client, OpCode.SYNC, ReadRequest("/a", False))


def test_a_changed_acl_can_be_reverted() -> None:
    tree = Tree()
    undo: Undo = []
    tree.apply(CreateTxn("/a", b"", OPEN_ACL, 0, 1), 1, WALL_MS)
    before = tree.nodes["/a"].stat()
    tree.apply(SetAclTxn("/a", (), 1), 2, WALL_MS, undo)
    assert (tree.nodes["/a"].acl, tree.nodes["/a"].aversion) == ((), 1)
    for revert in reversed(undo):
        revert()
    assert (tree.nodes["/a"].acl, tree.nodes["/a"].stat()) == (OPEN_ACL, before)


def test_a_multi_read_throttles_reads_beyond_its_limit() -> None:
    client = peer(service())
    client.create("/big", bytes(MAX_MULTI_READ_BYTES // 4))
    client.create("/small")
    reads = ["/big"] * 5 + ["/small"]
    ops = [Op(OpCode.GET_DATA, ReadRequest(path, False)) for path in reads]
    results = multi.decode_results(client.raw(OpCode.MULTI_READ, multi.encode_ops(ops)).body)
    assert [result.err for result in results] == [0] * 4 + [ErrorCode.THROTTLED_OP] * 2
    children = Op(OpCode.GET_CHILDREN, ReadRequest("/", False))
    [listed] = multi.decode_results(
        client.raw(OpCode.MULTI_READ, multi.encode_ops([children])).body
    )
    assert listed.err == 0


def test_the_length_of_a_path_is_limited() -> None:
    client = peer(service())
    longest = "/" + "a" * (node_path.MAX_CREATED_CHARS - 1)
    assert client.create(longest) == longest
    assert client.create(longest + "a") == ErrorCode.BAD_ARGUMENTS


def test_the_paths_of_set_watches_are_limited() -> None:
    client = peer(service())
    half = tuple(f"/{number}" for number in range(MAX_WATCHED_PATHS // 2))
    assert client.ask(OpCode.SET_WATCHES, SetWatchesRequest(0, (), half, half)) is None
    refused = client.ask(OpCode.SET_WATCHES, SetWatchesRequest(0, ("/x",), half, half))
    assert refused == ErrorCode.MARSHALLING_ERROR
    assert not client.service.watches.data.has("/x", client)


def test_a_tree_with_an_acl_for_each_node_is_seldom_visited_as_a_whole() -> None:
    client = peer(service())
    client.identities = (SUPER,)
    tree = client.service.state.tree
    visit_count, count = 0, 3 * MIN_SHARED_ACLS
    for number in range(count):
        known = tree._acls
        client.create(f"/{number}", acl=(Acl(31, "ip", f"10.0.{number >> 8}.{number & 255}"),))
        visit_count += tree._acls is not known
    for number in range(count):
        known = tree._acls
        acl = (Acl(31, "ip", f"10.1.{number >> 8}.{number & 255}"),)
        client.ask(OpCode.SET_ACL, SetAclRequest("/0", acl, -1))
        visit_count += tree._acls is not known
    assert visit_count < 5
    assert len(tree._acls) < 5 * count


def test_unused_shared_acls_are_dropped() -> None:
    client = peer(service())
    client.create("/a")
    tree = client.service.state.tree
    for number in range(3 * MIN_SHARED_ACLS):
        acl = (Acl(31, "ip", f"10.0.{number >> 8}.{number & 255}"),)
        # Passes every check, also after the change.
        client.identities = (SUPER,)
        client.ask(OpCode.SET_ACL, SetAclRequest("/a", acl, -1))
    assert len(tree._acls) <= MIN_SHARED_ACLS + 20
    client.create("/b")
    assert tree.nodes["/b"].acl is OPEN_ACL

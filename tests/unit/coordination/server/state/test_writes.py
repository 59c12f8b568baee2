"""Errors of refused writes in ZooKeeper's order of checks, and the contents of a Stat."""

import pytest

from coordination.errors import ErrorCode
from coordination.protocol.messages import (
    OPEN_ACL,
    Acl,
    CreateFlag,
    CreateRequest,
    CreateTtlRequest,
    DeleteRequest,
    OpCode,
    PathRequest,
    ReadRequest,
    SetAclRequest,
    SetDataRequest,
    Stat,
)
from coordination.server.state.acl import digest_identity
from coordination.server.state.tree import wrap32
from tests.unit.coordination.fakes import WALL_MS, FakePeer, peer, service

LOCKED = (Acl(31, "digest", digest_identity(b"bob:secret").id),)


@pytest.fixture
def client() -> FakePeer:
    client = peer(service())
    client.create("/g", b"data")
    client.create("/g/eph", b"", CreateFlag.EPHEMERAL)
    client.create("/locked", b"", acl=LOCKED)
    return client


@pytest.mark.parametrize(
    ("path", "flags", "acl", "code"),
    [
        pytest.param("nope", 0, OPEN_ACL, ErrorCode.BAD_ARGUMENTS, id="no slash"),
        pytest.param("/a\0b", 0, OPEN_ACL, ErrorCode.BAD_ARGUMENTS, id="NUL"),
        pytest.param("/a", 9, OPEN_ACL, ErrorCode.BAD_ARGUMENTS, id="unknown flag"),
        pytest.param("/a", 5, OPEN_ACL, ErrorCode.BAD_ARGUMENTS, id="TTL flag without a TTL"),
        pytest.param("/x/y", 0, (), ErrorCode.INVALID_ACL, id="ACL before parent"),
        pytest.param("/g//x", 0, OPEN_ACL, ErrorCode.NO_NODE, id="parent before path"),
        pytest.param("/t/", 0, OPEN_ACL, ErrorCode.NO_NODE, id="trailing slash"),
        pytest.param("/locked/..", 0, OPEN_ACL, ErrorCode.NO_AUTH, id="permission before path"),
        pytest.param("/..", 0, OPEN_ACL, ErrorCode.BAD_ARGUMENTS, id="relative path"),
        pytest.param("/g/\U0001f600", 0, OPEN_ACL, ErrorCode.BAD_ARGUMENTS, id="surrogates"),
        pytest.param("/", 0, OPEN_ACL, ErrorCode.NODE_EXISTS, id="root"),
        pytest.param("/g/eph", 0, OPEN_ACL, ErrorCode.NODE_EXISTS, id="exists"),
        pytest.param("/g/eph/c", 0, OPEN_ACL, ErrorCode.NO_CHILDREN_FOR_EPHEMERALS, id="eph"),
        pytest.param("/a", 0, (Acl(31, "ip", "x"),), ErrorCode.INVALID_ACL, id="bad address"),
        pytest.param(
            "/a", 0, (Acl(31, "auth", None),), ErrorCode.INVALID_ACL, id="auth without identities"
        ),
        pytest.param("/a", 0, (Acl(31, "digest", "b"),), ErrorCode.INVALID_ACL, id="bad digest"),
        pytest.param("/a", 0, (Acl(31, None, None),), ErrorCode.INVALID_ACL, id="null scheme"),
    ],
)
def test_create_is_refused_with_zookeepers_code(
    client: FakePeer, path: str, flags: int, acl: tuple[Acl, ...], code: ErrorCode
) -> None:
    assert client.ask(OpCode.CREATE, CreateRequest(path, b"", acl, flags)) == code


@pytest.mark.parametrize(
    ("path", "version", "code"),
    [
        pytest.param("/", -1, ErrorCode.BAD_ARGUMENTS, id="root"),
        pytest.param("/zookeeper/quota", -1, ErrorCode.BAD_ARGUMENTS, id="system node"),
        pytest.param("/no/such", -1, ErrorCode.NO_NODE, id="no parent"),
        pytest.param("/locked/x", -1, ErrorCode.NO_AUTH, id="permission before node"),
        pytest.param("/g/none", 7, ErrorCode.NO_NODE, id="node before version"),
        pytest.param("/g", 7, ErrorCode.BAD_VERSION, id="version before children"),
        pytest.param("/g", -1, ErrorCode.NOT_EMPTY, id="children"),
    ],
)
def test_delete_is_refused_with_zookeepers_code(
    client: FakePeer, path: str, version: int, code: ErrorCode
) -> None:
    assert client.ask(OpCode.DELETE, DeleteRequest(path, version)) == code


@pytest.mark.parametrize(
    ("path", "version", "code"),
    [
        pytest.param("/g/", 0, ErrorCode.BAD_ARGUMENTS, id="path first"),
        pytest.param("/none", 7, ErrorCode.NO_NODE, id="then the node"),
        pytest.param("/locked", 7, ErrorCode.NO_AUTH, id="then permission"),
        pytest.param("/g", 7, ErrorCode.BAD_VERSION, id="then the version"),
    ],
)
def test_set_data_is_refused_with_zookeepers_code(
    client: FakePeer, path: str, version: int, code: ErrorCode
) -> None:
    assert client.ask(OpCode.SET_DATA, SetDataRequest(path, b"", version)) == code
    if code is not ErrorCode.BAD_ARGUMENTS:
        request = SetAclRequest(path, OPEN_ACL, version)
        assert client.ask(OpCode.SET_ACL, request) == code


def test_the_visible_child_version_counts_creations_and_deletions(client: FakePeer) -> None:
    client.ask(OpCode.DELETE, DeleteRequest("/g/eph", -1))
    client.create("/g/a")
    stat = stat_of(client, "/g")
    assert (stat.cversion, stat.num_children, stat.version) == (3, 1, 0)


def test_the_sequence_suffix_counts_all_creations_of_the_parent(client: FakePeer) -> None:
    assert client.create("/g/s-", flags=CreateFlag.PERSISTENT_SEQUENTIAL) == "/g/s-0000000001"
    client.ask(OpCode.DELETE, DeleteRequest("/g/s-0000000001", -1))
    assert client.create("/g/s-", flags=CreateFlag.EPHEMERAL_SEQUENTIAL) == "/g/s-0000000002"
    assert client.create("/g/", flags=CreateFlag.PERSISTENT_SEQUENTIAL) == "/g/0000000003"


def test_a_fresh_tree_equals_a_fresh_zookeeper() -> None:
    client = peer(service())
    root, system, config = (stat_of(client, p) for p in ("/", "/zookeeper", "/zookeeper/config"))
    assert root == Stat(0, 0, 0, 0, 0, -1, 0, 0, 0, 1, 0)
    assert (system.cversion, system.num_children) == (-2, 2)
    assert config.aversion == -1
    assert client.ask(OpCode.GET_ACL, PathRequest("/zookeeper/config")).acl == (
        Acl(1, "world", "anyone"),
    )


def test_a_stat_holds_zxids_times_owner_and_length(client: FakePeer) -> None:
    created = client.service.state.zxid
    client.create("/n", b"12345", CreateFlag.EPHEMERAL)
    response = client.ask(OpCode.SET_DATA, SetDataRequest("/n", b"123", 0), WALL_MS + 5)
    assert response.stat == Stat(
        created + 1,
        created + 2,
        WALL_MS,
        WALL_MS + 5,
        1,
        0,
        0,
        client.session_id,
        3,
        0,
        created + 1,
    )


def test_containers_and_ttl_nodes_show_no_owner(client: FakePeer) -> None:
    container = client.ask(OpCode.CREATE_CONTAINER, CreateRequest("/c", b"", OPEN_ACL, 4))
    timed = client.ask(OpCode.CREATE_TTL, CreateTtlRequest("/t", b"", OPEN_ACL, 5, 1000))
    assert (container.stat.ephemeral_owner, timed.stat.ephemeral_owner) == (0, 0)
    assert client.create("/c/x") == "/c/x"


@pytest.mark.parametrize("ttl_ms", [0, -1, 1 << 40])
def test_a_ttl_outside_its_range_is_refused(client: FakePeer, ttl_ms: int) -> None:
    request = CreateTtlRequest("/t", b"", OPEN_ACL, CreateFlag.TTL, ttl_ms)
    assert client.ask(OpCode.CREATE_TTL, request) == ErrorCode.BAD_ARGUMENTS


def test_versions_wrap_but_never_become_minus_one(client: FakePeer) -> None:
    node = client.service.state.tree.nodes["/g"]
    node.version = 0x7FFFFFFF
    wrapped = client.ask(OpCode.SET_DATA, SetDataRequest("/g", b"", 0x7FFFFFFF))
    assert wrapped.stat.version == -0x80000000
    node.version = -2
    assert client.ask(OpCode.SET_DATA, SetDataRequest("/g", b"", -2)).stat.version == 0
    assert wrap32(0x80000000) == -0x80000000


def test_null_data_stays_null(client: FakePeer) -> None:
    client.create("/null", None)
    response = client.ask(OpCode.GET_DATA, ReadRequest("/null", False))
    assert (response.data, response.stat.data_length) == (None, 0)


def stat_of(client: FakePeer, path: str) -> Stat:
    response = client.ask(OpCode.EXISTS, ReadRequest(path, False))
    assert isinstance(response.stat, Stat)
    return response.stat

"""Each identity gets the same answers from Ottla's coordinator and from ZooKeeper 3.8.4.

Identities are anonymous, by password (digest), by DIGEST-MD5 (sasl) and by certificate (x509), each
also as a super user. ZooKeeper is the one in Kafka's jars.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from coordination.client import Login
from coordination.client.login import LoginExchange
from coordination.errors import ErrorCode
from coordination.protocol.messages import (
    OPEN_ACL,
    Acl,
    AddWatchRequest,
    AuthRequest,
    CheckRequest,
    CreateRequest,
    DeleteRequest,
    GetEphemeralsRequest,
    OpCode,
    PathRequest,
    ReadRequest,
    SetAclRequest,
    SetDataRequest,
    WatchesRequest,
)
from coordination.protocol.multi import Op
from coordination.server.state.acl import digest_identity
from tests.certificates import Authority, Certificate, needs_openssl
from tests.integration.coordination.process import (
    Coordinator,
    RawClient,
    ZooKeeper,
    session_of,
)
from tests.interop.coordination.script import Opener, Player, Step, name_of
from tests.interop.kafka_jars import JARS, needs_jars
from tests.ports import free_port

pytestmark = [*needs_jars, needs_openssl]

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule required"
SUPER = digest_identity(b"super:root").id
BOB = digest_identity(b"bob:1").id
LISTS = {
    "open": OPEN_ACL,
    "bob": (Acl(31, "digest", BOB),),
    "ann": (Acl(31, "sasl", "ann"),),
    "alice": (Acl(31, "x509", "CN=alice,O=Org"),),
    "read": (Acl(1, "world", "anyone"), Acl(31, "sasl", "ann")),
    "write": (Acl(2, "world", "anyone"), Acl(31, "digest", BOB)),
    "create": (Acl(4, "world", "anyone"), Acl(31, "digest", BOB)),
    "delete": (Acl(8, "world", "anyone"), Acl(31, "x509", "CN=alice,O=Org")),
    "admin": (Acl(16, "world", "anyone"), Acl(31, "digest", BOB)),
    "local": (Acl(31, "ip", "127.0.0.1"),),
    "nobody": (Acl(31, "sasl", "nobody"),),
}
NEW_LISTS: tuple[tuple[Acl, ...], ...] = (
    (Acl(31, "auth", ""),),
    (Acl(31, "auth", ""), Acl(1, "world", "anyone")),
    (Acl(31, "x509", "CN=a,O=b"),),
    (Acl(31, "x509", "a"),),
    (Acl(31, "sasl", "a/b@C"),),
    (Acl(31, "sasl", "a@b@c"),),
    (Acl(31, "super", ""),),
    (Acl(31, "digest", "a:"),),
    (Acl(31, "ip", "300.1.1.1"),),
    (),
)
IDENTITIES = (
    "anonymous", "digest", "digest-super", "sasl", "sasl-super-user", "sasl-named-super",
    "x509", "x509-super",
)  # fmt: skip


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def players(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Player, Player]]:
    folder = tmp_path_factory.mktemp("servers")
    login = folder / "login.conf"
    login.write_text(f'Server {{ {DIGEST} user_ann="a" user_ops="o" user_super="s"; }};')
    server = authority.issue("server")
    certificates = {
        "x509": authority.issue("alice", "/O=Org/CN=alice"),
        "x509-super": authority.issue("ops"),
    }
    our_port, their_port = free_port(), free_port()
    ours = Coordinator(
        folder / "ours",
        f"--login-config={login}",
        "--super-user=ops",
        f"--super-digest={SUPER}",
        "--x509-super-user=CN=ops",
        f"--tls-listen=127.0.0.1:{our_port}",
        f"--tls-cert={server.certificate}",
        f"--tls-key={server.key}",
        f"--tls-ca={authority.own.certificate}",
    )
    theirs = ZooKeeper(
        folder / "theirs",
        f"secureClientPort={their_port}",
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={server.store}",
        f"ssl.trustStore.location={authority.own.store}",
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "superUser=ops",
        f"DigestAuthenticationProvider.superDigest={SUPER}",
        "X509AuthenticationProvider.superUser=CN=ops",
        classpath=f"{JARS}/*",
        properties=[f"java.security.auth.login.config={login}"],
    )
    try:
        theirs.start()
        opened = [
            Player(
                port, [opener(each, port, secure, authority, certificates) for each in IDENTITIES]
            )
            for port, secure in ((ours.port, our_port), (theirs.port, their_port))
        ]
        yield opened[0], opened[1]
        for player in opened:
            player.close()
    finally:
        ours.kill()
        theirs.kill()


def opener(
    identity: str, port: int, secure: int, authority: Authority, known: dict[str, Certificate]
) -> Opener:
    """Return the function that opens a connection with an identity."""
    match identity:
        case "digest":
            return partial(by_digest, port, b"bob:1")
        case "digest-super":
            return partial(by_digest, port, b"super:root")
        case "sasl":
            return partial(by_sasl, port, Login(user="ann", password="a"))
        case "sasl-super-user":
            return partial(by_sasl, port, Login(user="ops", password="o"))
        case "sasl-named-super":
            return partial(by_sasl, port, Login(user="super", password="s"))
        case "anonymous":
            return partial(connected, port)
        case _:
            return partial(connected, secure, authority, known[identity])


def connected(
    port: int, authority: Authority | None = None, own: Certificate | None = None
) -> tuple[RawClient, int]:
    client = RawClient(port, 40_000)
    if authority is not None:
        context = authority.context(own)
        client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
    return client, session_of(client.shake_hands())[0]


def by_digest(port: int, credentials: bytes) -> tuple[RawClient, int]:
    client, session_id = connected(port)
    assert client.ask(-4, OpCode.AUTH, AuthRequest(0, "digest", credentials))[0].err == 0
    return client, session_id


def by_sasl(port: int, login: Login) -> tuple[RawClient, int]:
    client, session_id = connected(port)
    exchange = LoginExchange(login, lambda: "nonce")
    packet: bytes | None = exchange.first()
    while packet is not None:
        client.socket.sendall(packet)
        payload = client.receive()
        assert payload is not None, "the server closed during the login"
        packet = exchange.answer(payload)
    return client, session_id


def steps() -> Iterator[Step]:
    """Yield each operation by each identity on each node."""
    root = IDENTITIES.index("digest-super")
    for name, acl in LISTS.items():
        yield Step(root, OpCode.CREATE, CreateRequest(f"/{name}", b"0", acl, 0))
        yield Step(root, OpCode.CREATE, CreateRequest(f"/{name}/old", b"0", OPEN_ACL, 0))
    for number, identity in enumerate(IDENTITIES):
        yield Step(number, OpCode.WHO_AM_I, None)
        for scheme in ("ip", "x509"):
            if scheme == "ip" or identity.startswith("x509"):
                yield Step(number, OpCode.AUTH, AuthRequest(0, scheme, b""))
        for index, new in enumerate(NEW_LISTS):
            path = f"/open/new-{number}-{index}"
            yield Step(number, OpCode.CREATE2, CreateRequest(path, b"", new, 0))
            yield Step(number, OpCode.GET_ACL, PathRequest(path))
            yield Step(number, OpCode.SET_ACL, SetAclRequest("/open/old", new, -1))
            yield Step(root, OpCode.SET_ACL, SetAclRequest("/open/old", OPEN_ACL, -1))
        for name, acl in LISTS.items():
            for op, request in on_node(f"/{name}", number, acl):
                yield Step(number, op, request)


def on_node(path: str, number: int, acl: tuple[Acl, ...]) -> Iterator[tuple[OpCode, Any]]:
    new = f"{path}/by-{number}"
    yield OpCode.EXISTS, ReadRequest(path, True)
    yield OpCode.GET_DATA, ReadRequest(path, True)
    yield OpCode.GET_CHILDREN, ReadRequest(path, True)
    yield OpCode.GET_CHILDREN2, ReadRequest(path, False)
    yield OpCode.GET_ACL, PathRequest(path)
    yield OpCode.SET_DATA, SetDataRequest(path, b"1", -1)
    yield OpCode.CREATE, CreateRequest(new, b"", OPEN_ACL, 1)
    yield OpCode.CREATE2, CreateRequest(f"{new}-s-", b"", OPEN_ACL, 2)
    yield OpCode.DELETE, DeleteRequest(new, -1)
    yield OpCode.DELETE, DeleteRequest(f"{path}/missing", -1)
    yield OpCode.SET_ACL, SetAclRequest(path, acl, -1)
    check = Op(OpCode.CHECK, CheckRequest(path, -1))
    change = Op(OpCode.SET_DATA, SetDataRequest(path, b"2", -1))
    yield OpCode.MULTI, [check]
    yield OpCode.MULTI, [check, change]
    yield OpCode.MULTI, [Op(OpCode.CREATE, CreateRequest(new, b"", OPEN_ACL, 0)), change]
    yield OpCode.MULTI, [Op(OpCode.DELETE, DeleteRequest(new, -1))]
    reads = (OpCode.GET_DATA, OpCode.GET_CHILDREN)
    yield OpCode.MULTI_READ, [Op(op, ReadRequest(path, False)) for op in reads]
    yield OpCode.SYNC, PathRequest(path)
    yield OpCode.GET_ALL_CHILDREN_NUMBER, PathRequest(path)
    yield OpCode.GET_EPHEMERALS, GetEphemeralsRequest(path)
    yield OpCode.REMOVE_WATCHES, WatchesRequest(path, 3)
    # Stays, so that the changes of the following identities make events.
    yield OpCode.ADD_WATCH, AddWatchRequest(path, 1)


def test_every_identity_gets_zookeepers_answers(players: tuple[Player, Player]) -> None:
    ours, theirs = players
    outcomes: Counter[str] = Counter()
    differences: list[str] = []
    event_count = 0
    for step in steps():
        our_result, our_events = ours.play(step)
        their_result, their_events = theirs.play(step)
        if (our_result, our_events) != (their_result, their_events):
            who = IDENTITIES[step.connection]
            differences.append(
                f"{who}: {step.op!r} {step.request}\n  {name_of(our_result)} {our_events}\n"
                f"  {name_of(their_result)} {their_events}"
            )
        outcomes[name_of(our_result) if isinstance(our_result, int) else "answered"] += 1
        event_count += sum(len(seen) for seen in their_events)
    assert differences == [], "\n".join(differences[:10])
    assert outcomes[ErrorCode.NO_AUTH.name] > 300, outcomes
    assert outcomes[ErrorCode.INVALID_ACL.name] > 50, outcomes
    assert outcomes["answered"] > 800, outcomes
    assert event_count > 400


@pytest.mark.parametrize("identity", ["sasl", "digest"])
def test_a_refused_identity_gets_zookeepers_answer(
    players: tuple[Player, Player], identity: str
) -> None:
    found = []
    for player in players:
        port = player._connections[0].socket.getpeername()[1]
        client, _ = connected(port)
        with client:
            if identity == "digest":
                header, body = client.ask(-4, OpCode.AUTH, AuthRequest(0, "unknown", b"x"))
            else:
                wrong = LoginExchange(Login(user="ann", password="wrong"), lambda: "nonce")
                client.socket.sendall(wrong.first())
                payload = client.receive()
                assert payload is not None
                packet = wrong.answer(payload)
                assert packet is not None
                client.socket.sendall(packet)
                payload = client.receive()
                assert payload is not None
                header, body = payload[12:16], payload[16:]  # type: ignore[assignment]
            found.append((header, body, client.is_closed()))
    ours, theirs = found
    if identity == "digest":
        assert (ours[0].err, ours[1:]) == (theirs[0].err, theirs[1:])
    else:
        assert ours == theirs

"""Access control lists: checks, storage, and masking."""

import pytest

from coordination.errors import ErrorCode, OperationError
from coordination.protocol.messages import OPEN_ACL, Acl, OpCode, PathRequest, ReadRequest
from coordination.server.state import acl
from coordination.server.state.acl import SUPER, Identity, Permission, digest_identity
from tests.unit.coordination.fakes import peer, service

BOB = digest_identity(b"bob:secret")
LOCAL = Identity("ip", "10.1.2.3")
ANN = Identity("x509", "CN=ann")


def test_a_digest_is_zookeepers() -> None:
    # The digest that ZooKeeper's documentation and kazoo's harness give for this password.
    assert digest_identity(b"super:test").id == "super:D/InIHSb7yEEbrWz8b9l71RjZJU="


@pytest.mark.parametrize(
    ("entry", "identities", "allowed"),
    [
        pytest.param(Acl(31, "world", "anyone"), (), True, id="world"),
        pytest.param(Acl(30, "world", "anyone"), (), False, id="world without READ"),
        pytest.param(Acl(1, "digest", BOB.id), (BOB,), True, id="right digest"),
        pytest.param(Acl(1, "digest", "bob:other"), (BOB,), False, id="wrong digest"),
        pytest.param(Acl(1, "ip", "10.1.2.3"), (LOCAL,), True, id="address"),
        pytest.param(Acl(1, "ip", "10.1.0.0/16"), (LOCAL,), True, id="network"),
        pytest.param(Acl(1, "ip", "10.2.0.0/16"), (LOCAL,), False, id="other network"),
        pytest.param(Acl(1, "ip", "010.01.02.3/+16"), (LOCAL,), True, id="numbers of Java"),
        pytest.param(Acl(0, "digest", "x:y"), (SUPER,), True, id="super"),
        pytest.param(Acl(1, "x509", "CN=ann"), (ANN,), True, id="certificate"),
        pytest.param(Acl(1, "sasl", "CN=ann"), (ANN,), False, id="other scheme"),
        pytest.param(Acl(1, "sasl", "bob"), (Identity("sasl", "super"),), True, id="SASL super"),
        pytest.param(Acl(1, "digest", "a:b"), (Identity("sasl", "super"),), False, id="its scheme"),
    ],
)
def test_read_permission(entry: Acl, identities: tuple[Identity, ...], allowed: bool) -> None:
    if allowed:
        acl.require((entry,), Permission.READ, identities, "/a")
    else:
        with pytest.raises(OperationError) as caught:
            acl.require((entry,), Permission.READ, identities, "/a")
        assert caught.value.code is ErrorCode.NO_AUTH


def test_auth_expands_to_the_identities_of_the_caller() -> None:
    assert acl.resolve((Acl(31, "auth", ""),), (BOB, LOCAL), "/a") == (Acl(31, "digest", BOB.id),)


def test_duplicates_are_stored_once() -> None:
    entry = Acl(31, "ip", "10.0.0.1")
    assert acl.resolve((entry, entry), (), "/a") == (entry,)
    assert acl.resolve(tuple(OPEN_ACL), (), "/a") is OPEN_ACL


def test_readers_without_admin_see_masked_digests() -> None:
    client = peer(service())
    client.identities = (BOB, LOCAL)
    own = (Acl(31, "digest", BOB.id), Acl(1, "world", "anyone"))
    client.create("/mine", b"", acl=own)
    other = peer(client.service)
    assert client.ask(OpCode.GET_ACL, PathRequest("/mine")).acl == own
    assert other.ask(OpCode.GET_ACL, PathRequest("/mine")).acl == (
        Acl(31, "digest", "bob:x"),
        Acl(1, "world", "anyone"),
    )


def test_a_node_without_read_permission_shows_nothing() -> None:
    client = peer(service())
    client.create("/locked", b"x", acl=(Acl(31, "digest", BOB.id),))
    assert client.ask(OpCode.GET_DATA, ReadRequest("/locked", False)) == ErrorCode.NO_AUTH
    assert client.ask(OpCode.GET_CHILDREN, ReadRequest("/locked", False)) == ErrorCode.NO_AUTH
    assert client.ask(OpCode.GET_ACL, PathRequest("/locked")) == ErrorCode.NO_AUTH
    assert client.ask(OpCode.EXISTS, ReadRequest("/locked", True)) == ErrorCode.NO_AUTH
    assert not client.service.watches.data.has("/locked", client), "a refused watch was set"
    assert client.ask(OpCode.EXISTS, ReadRequest("/absent", True)) == ErrorCode.NO_NODE
    assert client.service.watches.data.has("/absent", client)


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param((Acl(31, "digest", "a:" + "b" * acl.MAX_ID_CHARS),), id="one long id"),
        pytest.param(
            tuple(Acl(31, "digest", f"{number}:" + "b" * 1_000) for number in range(20)), id="many"
        ),
        pytest.param((Acl(31, "auth", ""),), id="long identities of the caller"),
    ],
)
def test_the_ids_of_one_acl_are_limited(entries: tuple[Acl, ...]) -> None:
    known = [Identity("digest", f"{number}:" + "x" * 4_000) for number in range(5)]
    with pytest.raises(OperationError) as caught:
        acl.resolve(entries, known, "/a")
    assert caught.value.code is ErrorCode.INVALID_ACL


def test_a_long_address_is_refused_without_work() -> None:
    known = acl._network.cache_info()
    with pytest.raises(OperationError):
        acl.resolve((Acl(31, "ip", "1." * acl.MAX_NETWORK_CHARS),), (), "/a")
    assert acl._network.cache_info() == known


def test_a_client_without_an_ip_address_matches_no_network() -> None:
    nowhere = Identity("ip", "unix socket")
    assert not acl.allows((Acl(31, "ip", "10.0.0.0/8"),), Permission.READ, (nowhere,))


def test_auth_expands_to_all_identities_with_credentials() -> None:
    known = (Identity("x509", "CN=ann"), Identity("sasl", "ann"), BOB, LOCAL, SUPER)
    resolved = acl.resolve((Acl(31, "auth", ""),), known, "/a")
    assert [entry.scheme for entry in resolved] == ["x509", "sasl", "digest"]


def test_a_super_identity_of_any_name_passes() -> None:
    assert acl.allows((Acl(0, "digest", "x:y"),), Permission.READ, (Identity("super", "CN=ops"),))


def test_the_number_of_identities_is_limited() -> None:
    known: tuple[Identity, ...] = (LOCAL,)
    for number in range(acl.MAX_IDENTITIES - 1):
        found = acl.authenticate("digest", b"user%d:x" % number, known, None)
        assert found is not None
        assert len(found) == len(known) + 1
        known = found
    assert acl.authenticate("digest", b"one-more:x", known, None) is None
    assert acl.authenticate("digest", b"user0:x", known, None) is not None, "known already"


def test_unknown_schemes_and_long_credentials_are_refused() -> None:
    assert acl.authenticate("kerberos", b"x", (LOCAL,), None) is None
    assert acl.authenticate("digest", bytes(acl.MAX_CREDENTIALS_BYTES + 1), (LOCAL,), None) is None
    assert acl.authenticate("ip", b"", (LOCAL,), None) == (LOCAL,)
    assert acl.authenticate("digest", b"bob:secret", (LOCAL,), BOB.id) == (SUPER, BOB, LOCAL)


def test_the_number_of_acl_entries_is_limited() -> None:
    entries = [Acl(1, "ip", f"10.0.0.{number}") for number in range(acl.MAX_ENTRIES)]
    assert len(acl.resolve(entries, (), "/a")) == acl.MAX_ENTRIES
    for too_many in ([*entries, Acl(1, "world", "anyone")], [*entries[1:], Acl(1, "auth", "")]):
        with pytest.raises(OperationError) as caught:
            acl.resolve(too_many, (BOB, Identity("digest", "eve:x")), "/a")
        assert caught.value.code is ErrorCode.INVALID_ACL


@pytest.mark.parametrize(
    ("scheme", "name", "is_valid"),
    [
        ("x509", "CN=ann,O=Org", True),
        ("x509", "ann", False),
        ("x509", None, False),
        ("sasl", "ann", True),
        ("sasl", "ann/host@REALM", True),
        ("sasl", "ann/host/x@REALM", False),
        ("sasl", "ann@b@c", False),
        ("sasl", None, False),
        ("digest", "ann:hash", True),
        ("digest", "ann:", False),
        ("digest", ":hash", True),
        ("digest", "a:b:c", False),
        ("digest", "a:b:", True),
        ("super", "", False),
        ("ip", "10.1.2.3", True),
        ("ip", "10.001.2.3", True),
        ("ip", "+10.1.2.3/+8", True),
        ("ip", "10.1.2.3/0", True),
        ("ip", "10.1.2.3/33", False),
        ("ip", "10.1.2.3/255.0.0.0", False),
        ("ip", "10.1.2.256", False),
        ("ip", "10.1.2.-1", False),
        ("ip", "10.1.2.\u0663", False),
        ("ip", "10.1.2", False),
        ("ip", ".".join("1" * 16), False),
        ("ip", "fe80::/10", True),
        ("ip", "", False),
        ("ip", None, False),
    ],
)
def test_ids_are_valid_as_in_zookeeper(scheme: str, name: str | None, is_valid: bool) -> None:
    entry = Acl(31, scheme, name)
    if is_valid:
        assert acl.resolve((entry,), (), "/a") == (entry,)
        return
    with pytest.raises(OperationError) as caught:
        acl.resolve((entry,), (), "/a")
    assert caught.value.code is ErrorCode.INVALID_ACL


def test_a_certificate_can_be_shown_again_by_a_packet() -> None:
    assert acl.authenticate("x509", b"", (ANN, LOCAL), None) == (ANN, LOCAL)
    assert acl.authenticate("x509", b"", (LOCAL,), None) is None
    assert acl.authenticate("sasl", b"", (LOCAL,), None) is None


def test_users_are_shown_without_digests_and_super_without_a_name() -> None:
    known = (BOB, ANN, Identity("super", "CN=ops"), LOCAL)
    assert [acl.user_of(each) for each in known] == ["bob", "CN=ann", "", "10.1.2.3"]

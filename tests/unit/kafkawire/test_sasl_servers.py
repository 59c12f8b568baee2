"""The server's side of PLAIN and SCRAM: `kafkawire.sasl_servers`, against our client's side."""

import base64
import hashlib
import hmac
import random

import pytest

from kafkawire.sasl_clients import PlainClient, ScramClient
from kafkawire.sasl_servers import (
    MAX_MESSAGE_BYTES,
    PlainServer,
    SaslError,
    SaslServer,
    ScramServer,
)
from kafkawire.scram import HASHES, SALT_DIGITS, Credential, encode_base64, salt_of

USERS = {"alice": "s3cret", "Ü": "ß\u20ac"}


def salted(password: str, mechanism: str = "SCRAM-SHA-256") -> bytes:
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), b"salt", 4096)


def scram(
    mechanism: str = "SCRAM-SHA-256", user: str = "alice", secret: bytes = b"x"
) -> ScramServer:
    credential = Credential.of(mechanism, salted(USERS["alice"], mechanism), b"salt", 4096)
    return ScramServer(mechanism, {user: credential}.get, "server", secret)


# PLAIN


@pytest.mark.parametrize("user", USERS)
def test_plain_accepts_the_password(user: str) -> None:
    server: SaslServer = PlainServer(USERS)
    assert server.answer(PlainClient(user, USERS[user]).first()) == b""
    assert server.user == user


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0alice\0",
        b"\0\0s3cret",
        b"\0alice\0wrong",
        b"\0bob\0s3cret",
        b"\0bob\0\0",
        b"alice\0s3cret",
        b"\0alice\0s3cret\0",
        b"bob\0alice\0s3cret",
        b"\0alice\0s3cre\xff",
        b"\0alice\0" + b"s" * MAX_MESSAGE_BYTES,
    ],
)
def test_plain_refuses_everything_else(message: bytes) -> None:
    server = PlainServer(USERS)
    with pytest.raises(SaslError) as caught:
        server.answer(message)
    assert server.user is None
    assert "s3cre" not in str(caught.value)


def test_plain_accepts_a_client_that_acts_for_itself() -> None:
    server = PlainServer(USERS)
    server.answer(b"alice\0alice\0s3cret")
    assert server.user == "alice"


# SCRAM


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("user", ["alice", "a=b,c", "Ü"])
def test_scram_accepts_the_password_and_proves_that_it_knows_it(mechanism: str, user: str) -> None:
    server, client = scram(mechanism, user), ScramClient(mechanism, user, USERS["alice"], "client")
    challenge = server.answer(client.first())
    assert challenge.startswith(b"r=clientserver,s=")
    assert server.user is None
    final = client.answer(challenge)
    assert final is not None
    assert client.answer(server.answer(final)) is None, "the client verifies the signature"
    assert server.user == user


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("bob", "s3cret")])
def test_scram_refuses_at_the_proof(user: str, password: str) -> None:
    server, client = scram(), ScramClient("SCRAM-SHA-256", user, password, "client")
    final = client.answer(server.answer(client.first()))
    assert final is not None
    with pytest.raises(SaslError, match="Invalid username or password"):
        server.answer(final)
    assert server.user is None


def test_the_challenge_of_an_unknown_user_is_always_the_same() -> None:
    first = ScramClient("SCRAM-SHA-256", "bob", "x", "client").first()
    assert scram().answer(first) == scram().answer(first)
    assert scram(secret=b"y").answer(first) != scram().answer(first)
    assert scram().answer(first).endswith(b",i=4096")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"y,,n=alice,r=c",
        b"p=tls-unique,,n=alice,r=c",
        b"n,a=bob,n=alice,r=c",
        b"n,,r=c,n=alice",
        b"n,,m=x,n=alice,r=c",
        b"n,,n=,r=c",
        b"n,,n=al=ice,r=c",
        b"n,,n=al\0ice,r=c",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=\x07",
        b"n,,n=alice,r=c,n=alice",
        b"n,,n=alice,r=c,tokenauth",
        b"n,,n=alice,r=c,t0=true",
        b"n,,n=\xff,r=c",
    ],
)
def test_scram_refuses_a_malformed_first_message(message: bytes) -> None:
    with pytest.raises(SaslError):
        scram().answer(message)


def test_a_client_may_act_for_itself_and_send_extensions() -> None:
    server = scram()
    assert server.answer(b"n,a=alice,n=alice,r=c,x=y").startswith(b"r=cserver,")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"c=biws", b"c=eSws"),
        (b"r=client", b"r=other"),
        (b"r=clientserver", b"r=xclientserver"),
        (b",p=", b",q="),
        (b",p=", b",p=!"),
        (b",p=", b",x=1,p="),
    ],
)
def test_scram_refuses_a_changed_final_message(old: bytes, new: bytes) -> None:
    server, client = scram(), ScramClient("SCRAM-SHA-256", "alice", "s3cret", "client")
    final = client.answer(server.answer(client.first()))
    assert final is not None
    assert old in final
    with pytest.raises(SaslError):
        server.answer(final.replace(old, new))
    assert server.user is None


def test_scram_refuses_a_proof_of_another_length() -> None:
    server = scram()
    server.answer(b"n,,n=alice,r=c")
    with pytest.raises(SaslError, match="wrong length"):
        server.answer(b"c=biws,r=cserver,p=" + encode_base64(b"short").encode())


def test_a_recorded_proof_does_not_fit_another_nonce() -> None:
    server, client = scram(), ScramClient("SCRAM-SHA-256", "alice", "s3cret", "client")
    final = client.answer(server.answer(client.first()))
    assert final is not None
    other = scram()
    other._nonce = "fresh"
    other.answer(client.first())
    with pytest.raises(SaslError, match="nonce"):
        other.answer(final)


@pytest.mark.parametrize("has_new_password", [True, False])
def test_a_password_that_changes_during_the_exchange_is_refused(has_new_password: bool) -> None:
    users = {"alice": Credential.of("SCRAM-SHA-256", salted("s3cret"), b"salt", 4096)}
    server = ScramServer("SCRAM-SHA-256", users.get, "server", b"x")
    client = ScramClient("SCRAM-SHA-256", "alice", "s3cret", "client")
    final = client.answer(server.answer(client.first()))
    assert final is not None
    if has_new_password:
        users["alice"] = Credential.of("SCRAM-SHA-256", salted("changed"), b"salt", 4096)
    else:
        del users["alice"]
    with pytest.raises(SaslError, match="Invalid username or password"):
        server.answer(final)
    assert server.user is None


def test_salts_of_unknown_users_look_like_those_of_existing_ones() -> None:
    answers = [
        scram(secret=b"of the cluster").answer(f"n,,n=user{number},r=c".encode())
        for number in range(200)
    ]
    salts = [base64.b64decode(answer.split(b",s=")[1].split(b",")[0]) for answer in answers]
    made = [salt_of(random.randbytes(32)) for _ in range(200)]
    assert {len(each) for each in made} >= {25, 26}
    assert {len(each) for each in salts} >= {25, 26}
    for each in (*made, *salts):
        assert len(each) <= 26
        assert set(each.decode()) <= set(SALT_DIGITS)
    assert len(set(salts)) == len(salts)
    assert {answer.rpartition(b"=")[2] for answer in answers} == {b"4096", b"8192"}


@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_challenges_take_the_same_work_for_existing_and_unknown_users(
    monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    server = scram()
    calls = []
    digest = hmac.digest

    def counted(key: bytes, message: bytes, hash_name: str) -> bytes:
        calls.append(key)
        return digest(key, message, hash_name)

    monkeypatch.setattr(hmac, "digest", counted)
    server.answer(f"n,,n={user},r=c".encode())
    assert len(calls) == 2


def test_no_representation_shows_a_key() -> None:
    credential = Credential.of("SCRAM-SHA-256", b"salted", b"salt", 4096)
    assert "key" not in repr(credential)


@pytest.mark.fresh_seeds(20)
def test_random_messages_never_authenticate(seed: int) -> None:
    rng = random.Random(seed)
    pieces = [b"n,,", b"n=", b"alice", b"r=", b"c", b",", b"=", b"p=", b"c=biws", b"\0", b"\xff"]
    servers: list[SaslServer] = [PlainServer(USERS), scram()]
    for server in servers:
        for _ in range(200):
            try:
                server.answer(b"".join(rng.choices(pieces, k=rng.randrange(12))))
            except SaslError:
                continue
            assert server.user is None

"""DIGEST-MD5: `coordination.protocol.digest_md5`."""

import re

import pytest

from coordination.errors import SaslError
from coordination.protocol.digest_md5 import MAX_TOKEN_BYTES, DigestClient, DigestServer, parse

USERS = {"böb": "pässwörd", "ann": "日本", 'a"b\\c': "x"}
# Recorded from javax.security.sasl of Java 17.
NONCE = "DljSW10AlF8I/HYvmJeBHr+eV/7Wv12GHP26sgXe"
CHALLENGE = f'realm="zk-sasl-md5",nonce="{NONCE}",charset=utf-8,algorithm=md5-sess'
PROOF = (
    f'charset=utf-8,username="böb",realm="zk-sasl-md5",nonce="{NONCE}",nc=00000001,'
    'cnonce="HGPOFzz3hRQ6w3zTUBsXr1GR1SS0iKwepRSi/mcS",digest-uri="zookeeper/zk-sasl-md5",'
    'maxbuf=65536,response=34ea07e2b53e01ea2eb852c48fbf04ed,qop=auth,authzid="böb"'
)
SERVER_PROOF = b"rspauth=afda00eb06e655ef704d2093ef9ce69a"


def challenged() -> DigestServer:
    server = DigestServer(USERS, NONCE)
    assert server.answer(b"") == CHALLENGE.encode()
    return server


def test_the_servers_tokens_are_javas() -> None:
    server = challenged()
    assert server.answer(PROOF.encode()) == SERVER_PROOF
    assert server.user == "böb"


@pytest.mark.parametrize(
    "proof",
    [
        pytest.param(PROOF.replace(",", ", ") + ",", id="blanks, and a comma at the end"),
        pytest.param(PROOF.replace(",qop=auth", ""), id="without qop"),
        pytest.param(PROOF.replace("maxbuf=65536", "unknown=x"), id="an unknown directive"),
    ],
)
def test_variants_that_java_accepts_are_accepted(proof: str) -> None:
    server = challenged()
    assert server.answer(proof.encode()) == SERVER_PROOF


@pytest.mark.parametrize(
    "proof",
    [
        pytest.param("", id="empty"),
        pytest.param("hello", id="no directive"),
        pytest.param('username="böb', id="open quote"),
        pytest.param(PROOF + ',username="eve"', id="two users"),
        pytest.param(PROOF.replace('realm="zk-sasl-md5",', ""), id="no realm"),
        pytest.param(PROOF.replace("zookeeper/zk", "zookeeper/other"), id="other server"),
        pytest.param(PROOF.replace(NONCE, "other"), id="other nonce"),
        pytest.param(PROOF.replace("nc=00000001", "nc=00000002"), id="nonce used before"),
        pytest.param(PROOF.replace("qop=auth", "qop=auth-int"), id="other protection"),
        pytest.param(re.sub('cnonce="[^"]*",', "", PROOF), id="no client nonce"),
        pytest.param(PROOF.replace('username="böb"', 'username="eve"'), id="unknown user"),
        pytest.param(PROOF.replace('authzid="böb"', 'authzid="ann"'), id="other authzid"),
        pytest.param(PROOF.replace("=34ea", "=34EA"), id="other proof"),
        pytest.param(re.sub("response=[^,]*,", "", PROOF), id="no proof"),
    ],
)
def test_another_proof_is_refused_and_ends_the_exchange(proof: str) -> None:
    server = challenged()
    with pytest.raises(SaslError) as caught:
        server.answer(proof.encode())
    assert "pässwörd" not in str(caught.value)
    assert server.user is None
    with pytest.raises(SaslError, match="over"):
        server.answer(PROOF.encode())


def test_a_proof_is_accepted_once() -> None:
    server = challenged()
    server.answer(PROOF.encode())
    with pytest.raises(SaslError, match="over"):
        server.answer(b"")


def test_a_client_does_not_begin_with_a_token() -> None:
    with pytest.raises(SaslError, match="must be empty"):
        DigestServer(USERS, NONCE).answer(PROOF.encode())


def test_a_user_without_a_password_cannot_log_in() -> None:
    server, client = DigestServer({"bob": ""}, "n"), DigestClient("bob", "", "c")
    proof = client.answer(server.answer(client.first()))
    assert proof is not None
    with pytest.raises(SaslError):
        server.answer(proof)


@pytest.mark.parametrize("user", USERS)
def test_both_sides_agree(user: str) -> None:
    server, client = DigestServer(USERS, NONCE), DigestClient(user, USERS[user], "c")
    proof = client.answer(server.answer(client.first()))
    assert proof is not None
    assert client.answer(server.answer(proof)) is None
    assert (server.user, client.is_complete) == (user, True)


def test_the_client_refuses_a_server_that_does_not_know_the_password() -> None:
    client = DigestClient("ann", "right", "c")
    proof = client.answer(CHALLENGE.encode())
    assert proof is not None
    with pytest.raises(SaslError, match="does not know"):
        client.answer(SERVER_PROOF)
    assert not client.is_complete


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        (None, "no users"),
        (b"", "not one of DIGEST-MD5"),
        (CHALLENGE.replace("-sess", "").encode(), "not one of DIGEST-MD5"),
        (CHALLENGE.encode() + b',qop="auth-conf"', "demands protection"),
    ],
)
def test_the_client_refuses_other_challenges(challenge: bytes | None, message: str) -> None:
    with pytest.raises(SaslError, match=message):
        DigestClient("ann", "x", "c").answer(challenge)


def test_a_token_is_limited_and_must_be_text() -> None:
    with pytest.raises(SaslError, match="at most 4096 bytes"):
        parse(b"a" * (MAX_TOKEN_BYTES + 1))
    with pytest.raises(SaslError, match="UTF-8"):
        parse(b"username=\xff")
    with pytest.raises(SaslError, match="malformed"):
        parse(b'a="' + b"\\\\" * (MAX_TOKEN_BYTES // 2 - 2))
    assert parse(b'a=1,b="x\\"y", c=') == {"a": "1", "b": 'x"y', "c": ""}

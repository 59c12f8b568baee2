"""The client's side of SASL: `kafkawire.sasl_clients` and `kafkawire.scram`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.sasl_clients import OAuthBearerClient, PlainClient, SaslClient, ScramClient
from kafkawire.scram import (
    GS2_HEADER,
    HASHES,
    Keys,
    ScramError,
    decode_base64,
    encode_base64,
    encode_name,
    parse_attributes,
    parse_challenge,
)

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def rfc_client() -> ScramClient:
    """Return the client of the example in RFC 7677."""
    return ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_plain_sends_user_and_password_once() -> None:
    client: SaslClient = PlainClient("älice", "pässword")
    assert client.first() == "\0älice\0pässword".encode()
    assert client.answer(b"") is None


def test_oauthbearer_sends_a_token() -> None:
    client = OAuthBearerClient("t.o.k")
    assert client.first() == b"n,,\x01auth=Bearer t.o.k\x01\x01"
    assert client.answer(b"") is None


def test_oauthbearer_acknowledges_a_refusal() -> None:
    assert OAuthBearerClient("t").answer(b'{"status":"invalid_token"}') == b"\x01"


def test_scram_exchanges_the_messages_of_the_rfc() -> None:
    client = rfc_client()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.answer(SERVER_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert client.answer(SERVER_FINAL) is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\xff", "not UTF-8"),
        (b"", "not a list"),
        (b"r=x,r=y", "not a list"),
        (SERVER_FIRST.replace(b"r=rOpr", b"r=xxxx"), "does not continue"),
        (b"r=" + NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not continue"),
        (SERVER_FIRST.replace(b"s=W22", b"s=!22"), "not base64"),
        (SERVER_FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", b""), "not base64"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=1000001"), "1000001 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=" + b"9" * 5000), "no number"),
        (SERVER_FIRST.replace(b"i=4096", b"i=-4096"), "no number"),
        (SERVER_FIRST.replace(b",i=4096", b""), "no number"),
    ],
)
def test_scram_refuses_a_bad_challenge(message: bytes, reason: str) -> None:
    with pytest.raises(ScramError, match=reason):
        rfc_client().answer(message)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"e=other-error", "reports an error"),
        (SERVER_FINAL.replace(b"v=6", b"v=7"), "does not know the password"),
        (b"x=y", "not base64"),
        (b"", "not a list"),
    ],
)
def test_scram_refuses_a_server_that_proves_nothing(message: bytes, reason: str) -> None:
    client = rfc_client()
    client.answer(SERVER_FIRST)
    with pytest.raises(ScramError, match=reason):
        client.answer(message)


@given(
    mechanism=st.sampled_from(sorted(HASHES)),
    username=st.text(min_size=1).map(lambda text: text.replace("\0", "=,")),
    password=st.text(min_size=1),
    salt=st.binary(min_size=1, max_size=32),
)
def test_a_server_with_the_password_is_accepted(
    mechanism: str, username: str, password: str, salt: bytes
) -> None:
    try:
        username.encode()
        password.encode()
    except UnicodeEncodeError:
        return
    client = ScramClient(mechanism, username, password, "abc")
    bare = client.first().removeprefix(GS2_HEADER)
    assert parse_attributes(bare) == {"n": encode_name(username), "r": "abc"}
    challenge = f"r=abcdef,s={encode_base64(salt)},i=4096".encode()
    final = client.answer(challenge)
    assert final is not None
    unproven, _, proof = final.rpartition(b",p=")
    auth_message = b",".join((bare, challenge, unproven))
    keys = Keys(mechanism, password, salt, 4096)
    assert decode_base64(proof.decode()) == keys.proof(auth_message)
    assert client.answer(f"v={encode_base64(keys.server_signature(auth_message))}".encode()) is None


@given(st.binary(max_size=100))
def test_random_bytes_raise_nothing_else(message: bytes) -> None:
    for parse in (parse_attributes, lambda each: parse_challenge(each, "abc")):
        try:
            parse(message)
        except ScramError:
            continue

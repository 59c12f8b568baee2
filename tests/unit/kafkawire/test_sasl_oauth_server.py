"""The server's side of OAUTHBEARER: `kafkawire.sasl_oauth_server`."""

import pytest

from kafkawire.sasl_clients import OAuthBearerClient
from kafkawire.sasl_oauth_server import (
    INVALID_TOKEN,
    MAX_MESSAGE_BYTES,
    AcceptedToken,
    OAuthBearerServer,
    TokenError,
)
from kafkawire.sasl_servers import SaslError


def validate(token: str) -> AcceptedToken:
    if token == "valid":
        return AcceptedToken("al=i,ce", 5000)
    raise TokenError("no scope", "[a, b]") if token == "narrow" else TokenError("wrong")


def first(token: str = "valid", acts_for: str = "", more: str = "") -> bytes:
    return f"n,{acts_for},\x01auth=Bearer {token}\x01{more}\x01".encode()


@pytest.mark.parametrize(
    "message",
    [
        first(),
        first(acts_for="a=al=3Di=2Cce"),
        first(more="traceId=1 2\x01group=x=y\x01"),
        b"n,,\x01host=h\x01auth=bEARER   valid\x01\x01",
        OAuthBearerClient("valid").first(),
    ],
)
def test_a_valid_token_authenticates_its_user(message: bytes) -> None:
    server = OAuthBearerServer(validate)
    assert server.answer(message) == b""
    assert (server.user, server.lifetime_ms) == ("al=i,ce", 5000)


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("wrong", INVALID_TOKEN),
        ("narrow", '{"status":"insufficient_scope", "scope":"[a, b]"}'),
    ],
)
@pytest.mark.parametrize("second", [b"\x01", first(), b""])
def test_a_refusal_is_explained_before_the_exchange_ends(
    token: str, shown: str, second: bytes
) -> None:
    server = OAuthBearerServer(validate)
    assert server.answer(first(token)).decode() == shown
    with pytest.raises(SaslError) as caught:
        server.answer(second)
    assert caught.value.shown == shown
    assert server.user is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "malformed"),
        (b"\x01", "not sent"),
        (b"n,,\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer valid\x01", "malformed"),
        (b"n,,\x01auth=Bearer valid\x01\x01 ", "malformed"),
        (b"n,,\x01auth=Basic valid\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer val id\x01\x01", "no bearer token"),
        (b"n,,\x01auth=Bearer valid\x01auth=Bearer valid\x01\x01", "or several"),
        (b"y,,\x01auth=Bearer valid\x01\x01", "malformed"),
        (b"p=tls-unique,,\x01auth=Bearer valid\x01\x01", "malformed"),
        (first(more="k\xc3=v\x01"), "malformed"),
        (first(more="key=\xff\x01"), "malformed"),
        (first(acts_for="a="), "malformed"),
        (first(acts_for="a=bob"), "another user"),
        (first(more="k=" + "x" * MAX_MESSAGE_BYTES + "\x01"), "at most"),
    ],
)
def test_other_messages_end_the_exchange(message: bytes, reason: str) -> None:
    server = OAuthBearerServer(validate)
    with pytest.raises(SaslError, match=reason) as caught:
        server.answer(message)
    assert caught.value.shown == ""
    assert server.user is None
    assert "valid" not in str(caught.value)

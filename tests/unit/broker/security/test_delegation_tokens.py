"""The rules of delegation tokens, and logins by them: `broker.security.delegation_tokens`."""

import hashlib
import hmac
from dataclasses import replace

import pytest

from broker.security import delegation_tokens
from broker.security.delegation_tokens import (
    DelegationTokens,
    TokenLifetimes,
    is_expired,
    new_token,
    renewed,
    shortened,
)
from broker.security.principal import Principal
from clusterstate.znodes.delegation_token import DelegationToken
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.sasl_clients import ScramClient
from kafkawire.sasl_servers import SaslError, ScramServer
from kafkawire.scram import HASHES, encode_base64

OWNER, OTHER, RENEWER = (Principal("User", name) for name in ("alice", "bob", "carol"))
LIFETIMES = TokenLifetimes(max_ms=1_000, renewal_ms=100)
NOW_MS = 5_000


def make(max_lifetime_ms: int = -1, token_id: str = "t1") -> DelegationToken:
    return new_token(
        token_id,
        OWNER,
        OTHER,
        [RENEWER],
        max_lifetime_ms=max_lifetime_ms,
        lifetimes=LIFETIMES,
        now_ms=NOW_MS,
    )


@pytest.mark.parametrize(
    ("max_lifetime_ms", "max_ms", "expiry_ms"),
    [(-1, 6_000, 5_100), (0, 6_000, 5_100), (50, 5_050, 5_050), (2**62, 6_000, 5_100)],
)
def test_a_token_has_two_ends(max_lifetime_ms: int, max_ms: int, expiry_ms: int) -> None:
    token = make(max_lifetime_ms)
    assert (token.issue_ms, token.max_ms, token.expiry_ms) == (NOW_MS, max_ms, expiry_ms)
    assert (token.owner, token.requester) == ("User:alice", "User:bob")
    assert [is_expired(token, each) for each in (expiry_ms, expiry_ms + 1)] == [False, True]


@pytest.mark.parametrize("sender", [OWNER, RENEWER])
def test_owner_and_renewers_change_the_expiry(sender: Principal) -> None:
    token = make()
    for period_ms, expiry_ms in ((-1, 5_150), (20, 5_070), (0, 5_050), (2**62, 6_000)):
        after = renewed(token, sender, period_ms, lifetimes=LIFETIMES, now_ms=5_050)
        assert after == replace(token, expiry_ms=expiry_ms)
        if period_ms >= 0:
            assert shortened(token, sender, period_ms, now_ms=5_050) == after
    assert shortened(token, sender, -1, now_ms=5_050) is None
    # An expired token can be deleted, but not prolonged.
    assert shortened(token, sender, -1, now_ms=9_000) is None
    with pytest.raises(ApiError) as caught:
        renewed(token, sender, -1, lifetimes=LIFETIMES, now_ms=9_000)
    assert caught.value.code is ErrorCode.DELEGATION_TOKEN_EXPIRED
    with pytest.raises(ApiError) as caught:
        shortened(token, sender, 0, now_ms=9_000)
    assert caught.value.code is ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_others_do_not_change_a_token() -> None:
    cases = [
        (make(), ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (None, ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
    ]
    for token, code in cases:
        # The requester of a token for another owner is no renewer.
        with pytest.raises(ApiError) as caught:
            renewed(token, OTHER, -1, lifetimes=LIFETIMES, now_ms=NOW_MS)
        assert caught.value.code is code
        with pytest.raises(ApiError) as caught:
            shortened(token, OTHER, -1, now_ms=NOW_MS)
        assert caught.value.code is code


def tokens() -> DelegationTokens:
    made = DelegationTokens(b"s3cret")
    made.set("t1", make())
    return made


def test_the_secret_is_kafkas() -> None:
    secret = hmac.digest(b"s3cret", b"t1", "sha512")
    assert tokens().hmac_of("t1") == secret
    assert tokens().id_of(secret) == "t1"
    assert "s3cret" not in repr(tokens())
    for wrong in (b"", secret[:-1], bytes(64)):
        with pytest.raises(ApiError) as caught:
            tokens().id_of(wrong)
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def log_in(found: DelegationTokens, mechanism: str, token_id: str, now_ms: int) -> ScramServer:
    """Log in as a client with the secret of `token_id`; return the server."""
    password = encode_base64(hmac.digest(b"s3cret", token_id.encode(), "sha512"))
    client = ScramClient(mechanism, token_id, password, "nonce", is_token=True)
    server = ScramServer(
        mechanism,
        lambda _name: None,
        "server",
        b"secret",
        lambda name: found.login(mechanism, name, now_ms),
    )
    message: bytes | None = client.first()
    while message is not None:
        message = client.answer(server.answer(message))
    return server


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_token_authenticates_as_its_owner(mechanism: str) -> None:
    found = tokens()
    for now_ms in (NOW_MS, 5_090):
        server = log_in(found, mechanism, "t1", now_ms)
        assert (server.user, server.uses_token) == ("alice", True)
        assert server.lifetime_ms == 5_100 - now_ms
    assert log_in(found, mechanism, "t1", 5_100).lifetime_ms == 1


def test_a_token_that_is_gone_or_expired_authenticates_nobody() -> None:
    found = tokens()
    foreign = make(token_id="t2")
    found.set("t2", replace(foreign, owner="Group:alice"))
    log_in(found, "SCRAM-SHA-256", "t1", NOW_MS)
    for token_id, now_ms in (("t1", 5_101), ("t2", NOW_MS), ("t3", NOW_MS)):
        with pytest.raises(SaslError, match="Invalid username or password"):
            log_in(found, "SCRAM-SHA-256", token_id, now_ms)
    found.set("t1", None)
    found.set("t1", None)
    with pytest.raises(SaslError):
        log_in(found, "SCRAM-SHA-256", "t1", NOW_MS)
    with pytest.raises(ApiError):
        found.id_of(hmac.digest(b"s3cret", b"t1", "sha512"))


@pytest.mark.parametrize("extension", ["tokenauth=false", "tokenauth=TRUE", "tokenauth=", "x=true"])
def test_a_token_must_be_announced(extension: str) -> None:
    found = tokens()
    server = ScramServer(
        "SCRAM-SHA-256",
        lambda name: pytest.fail("no user") if name != "t1" else None,
        "server",
        b"secret",
        lambda _name: pytest.fail("no token was announced"),
    )
    server.answer(f"n,,n=t1,r=nonce,{extension}".encode())
    assert not server.uses_token
    assert found.expired(NOW_MS) == []


def test_a_password_of_a_user_is_no_token_of_that_name() -> None:
    with pytest.raises(SaslError):
        log_in(DelegationTokens(b"s3cret"), "SCRAM-SHA-512", "alice", NOW_MS)


def test_a_credential_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    real = hashlib.pbkdf2_hmac

    def salt_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
        calls.append(mechanism)
        return real(HASHES[mechanism], password.encode(), salt, iterations)

    monkeypatch.setattr(delegation_tokens, "salt_password", salt_password)
    found = tokens()
    for _ in range(3):
        found.login("SCRAM-SHA-256", "t1", NOW_MS)
        found.login("SCRAM-SHA-256", "unknown", NOW_MS)
    assert calls == ["SCRAM-SHA-256"]


def test_tokens_are_listed_by_owners_renewers_and_requesters() -> None:
    found = tokens()
    found.set(
        "t2",
        replace(make(token_id="t2"), owner="User:bob", requester="User:service", renewers=()),
    )
    for owners, ids in (
        (None, ["t1", "t2"]),
        ([], []),
        ([OWNER], ["t1"]),
        ([RENEWER], ["t1"]),
        # Its owner is OWNER, but OTHER has requested it.
        ([OTHER], ["t1", "t2"]),
        ([Principal("User", "service")], ["t2"]),
        ([OTHER, OWNER], ["t1", "t2"]),
    ):
        assert [each.token_id for each in found.owned_by(owners)] == ids
    assert found.expired(5_100) == []
    assert found.expired(5_101) == ["t1", "t2"]


def test_the_tokens_of_an_owner_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS_PER_OWNER", 1)
    tokens().check_new(replace(make(token_id="t2"), owner="User:bob"))
    with pytest.raises(ApiError, match="User:alice has 1 tokens") as caught:
        tokens().check_new(make(token_id="t2"))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION


def test_the_size_of_a_token_is_limited() -> None:
    with pytest.raises(ApiError, match="name fewer renewers") as caught:
        tokens().check_new(replace(make(token_id="t2"), renewers=("User:x",) * 2_000))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION

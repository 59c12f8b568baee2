"""Text and claims of tokens: `broker.security.oauth`, as far as it needs no library."""

import base64
import json
import random
from typing import Any

import pytest

from broker.security.oauth.json_text import MAX_DEPTH, JsonError, parse_object
from broker.security.oauth.token_claims import MAX_LIFETIME_MS, MAX_USER_BYTES, ClaimRules, accept
from broker.security.oauth.token_text import (
    MAX_CLAIMS_CHARS,
    MAX_HEADER_CHARS,
    MAX_SIGNATURE_CHARS,
    parse_token,
)
from broker.security.oauth.unsecured_tokens import accept_unsecured, make_unsecured
from kafkawire.sasl_oauth_server import AcceptedToken, TokenError
from tests.oauth_tokens import encode, encode_json, unsecured

NOW_MS = 1_000_000
CLAIMS = {"sub": "alice", "iat": 900, "exp": 1_100}
UNSECURED = ClaimRules(ignores_audience=True, needs_issue_time=False)
SIGNED = ClaimRules(clock_skew_ms=30_000)


def check(token: str, **rules: Any) -> AcceptedToken:
    made = ClaimRules(**{"ignores_audience": True, "needs_issue_time": False, **rules})
    return accept_unsecured(token, made, NOW_MS)


def test_a_token_names_its_user_and_its_lifetime() -> None:
    assert check(unsecured(CLAIMS)) == AcceptedToken("alice", 100_000)
    named = unsecured({**CLAIMS, "login": "bob", "scp": ["a", " b "]})
    rules = {"user_claim": "login", "scope_claim": "scp", "required_scopes": ("b",)}
    assert check(named, **rules).user == "bob"
    assert check(unsecured({**CLAIMS, "scope": "a"}), required_scopes=("a",)).user == "alice"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "three parts"),
        ("a.b", "three parts"),
        ("a.b.c.d", "three parts"),
        ("a.b.c.d.e", "three parts"),
        ("=.b.", "base64url"),
        ("a+/b.b.", "base64url"),
        ("aaaaa.b.", "base64url"),
        ("\u00e9.b.", "base64url"),
        (f"{'a' * (MAX_HEADER_CHARS + 1)}.b.", "too large"),
        (f"{encode_json({'alg': 'none'})}.{'a' * (MAX_CLAIMS_CHARS + 1)}.", "too large"),
        (f"{encode_json({'alg': 'none'})}.b.{'a' * (MAX_SIGNATURE_CHARS + 1)}", "too large"),
        (f"{encode(b'[]')}.e30.", "not an object"),
        (f"{encode(b'{')}.e30.", "is not JSON"),
        (f"{encode(bytes([0xFF]))}.e30.", "is not JSON"),
        (unsecured(CLAIMS, crit=["b64"]), "an extension"),
        (unsecured(CLAIMS, alg="RS256"), "needs none"),
        (unsecured(CLAIMS, alg="None"), "needs none"),
        (unsecured(CLAIMS, alg=["none"]), "needs none"),
        (unsecured(CLAIMS) + "abcd", "needs none"),
    ],
)
def test_a_malformed_token_is_refused(text: str, reason: str) -> None:
    with pytest.raises(TokenError, match=reason) as caught:
        check(text)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"a":NaN}', "a number that JSON"),
        (b'{"a":-Infinity}', "a number that JSON"),
        (b'{"a":1,"a":2}', "a name twice"),
        (b'{"b":{"a":1,"a":2}}', "a name twice"),
        (b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}", "too many levels"),
        (b"[" * 50_000, "too many levels"),
        (b'{"a":' * 50_000, "too many levels"),
        (b"1" * 5_000, "is not JSON"),
        (b"null", "is not an object"),
        # These would cost a second if the search for strings started at each quote again.
        (b'{"' + b'\\"' * 200_000, "is not JSON"),
        (b'{"' + b"\\" * 200_000, "is not JSON"),
    ],
)
def test_json_that_two_readers_might_understand_differently_is_refused(
    data: bytes, reason: str
) -> None:
    with pytest.raises(JsonError, match=reason):
        parse_object(data)


def test_brackets_in_strings_have_no_depth() -> None:
    text = {"a": "[" * 100, "b": '\\"[' * 100, "c": [[1], {"d": "}"}]}
    assert parse_object(json.dumps(text).encode()) == text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sub": None}, "no text in the claim sub"),
        ({"sub": ""}, "no text in the claim sub"),
        ({"sub": 7}, "no text in the claim sub"),
        ({"sub": " alice"}, "blanks around"),
        ({"sub": "alice\u00a0"}, "blanks around"),
        ({"sub": "al\nice"}, "control characters"),
        ({"sub": "al\x00ice"}, "control characters"),
        ({"sub": "\ud800"}, "control characters"),
        ({"sub": "\u00e9" * MAX_USER_BYTES}, "longer than"),
        ({"exp": None}, "no time of expiry"),
        ({"exp": "1100"}, "exp is not a number"),
        ({"exp": True}, "exp is not a number"),
        ({"exp": [1100]}, "exp is not a number"),
        ({"exp": -1}, "exp is not a time"),
        ({"exp": 1e999}, "exp is not a time"),
        ({"exp": 10**20}, "exp is not a time"),
        ({"exp": 10**400}, "exp is not a time"),
        ({"exp": float("nan")}, "exp is not a time"),
        ({"iat": 10**400}, "iat is not a time"),
        ({"exp": 970}, "has expired"),
        ({"iat": None}, "no time of issue"),
        ({"iat": 1031}, "issued in the future"),
        ({"iat": 1025, "exp": 1025}, "before its issue"),
        ({"nbf": 1031}, "not valid yet"),
        ({"nbf": "x"}, "nbf is not a number"),
        ({"aud": "kafka"}, "none is expected"),
        ({"aud": ["kafka", 7]}, "neither a text nor a list"),
        ({"aud": {"kafka": 1}}, "neither a text nor a list"),
        ({"scope": 7}, "neither a text nor a list"),
    ],
)
def test_a_claim_that_is_missing_or_wrong_is_refused(
    change: dict[str, object], reason: str
) -> None:
    with pytest.raises(TokenError, match=reason):
        accept({**CLAIMS, **change}, SIGNED, NOW_MS)


@pytest.mark.parametrize(
    ("change", "lifetime_ms"),
    [
        ({}, 100_000),
        ({"exp": 1100.5}, 100_500),
        # Within the tolerance for clocks; 0 would mean no limit.
        ({"exp": 971}, 1),
        ({"exp": 2**53}, MAX_LIFETIME_MS),
        ({"iat": 1030, "nbf": 1030}, 100_000),
        ({"aud": []}, 100_000),
        ({"iat": 1030.0009}, 100_000),
    ],
)
def test_times_have_the_tolerance_for_clocks(change: dict[str, object], lifetime_ms: int) -> None:
    claims = {**CLAIMS, **change}
    if claims["exp"] == 971:
        claims["iat"] = 900
    assert accept(claims, SIGNED, NOW_MS) == AcceptedToken("alice", lifetime_ms)


@pytest.mark.parametrize(
    ("issuer", "audience", "is_right"),
    [
        ("me", "kafka", True),
        ("me", ["other", "kafka"], True),
        ("me", "other", False),
        ("me", [], False),
        ("me", None, False),
        ("you", "kafka", False),
        (None, "kafka", False),
        (["me"], "kafka", False),
    ],
)
def test_issuer_and_audience_are_compared(issuer: object, audience: object, is_right: bool) -> None:
    rules = ClaimRules(issuer="me", audiences={"kafka", "logs"})
    claims = {**CLAIMS, "iss": issuer, "aud": audience}
    if is_right:
        assert accept(claims, rules, NOW_MS).user == "alice"
        return
    with pytest.raises(TokenError, match="expected"):
        accept(claims, rules, NOW_MS)


@pytest.mark.parametrize("scope", [None, [], ["a"], "a b", "A", ["b", "A"]])
def test_a_missing_scope_is_named(scope: object) -> None:
    with pytest.raises(TokenError) as caught:
        check(unsecured({**CLAIMS, "scope": scope}), required_scopes=("a", "b"))
    assert caught.value.missing_scope == "[a, b]"


@pytest.mark.fresh_seeds(20)
def test_a_changed_token_never_names_another_user(seed: int) -> None:
    rng = random.Random(seed)
    token = unsecured({**CLAIMS, "aud": ["a", "b"], "more": {"deep": [1, {"er": None}]}})
    for _ in range(300):
        changed = bytearray(token, "ascii")
        for _ in range(rng.choice((1, 1, 2, 8))):
            changed[rng.randrange(len(changed))] = rng.randrange(128)
        try:
            accepted = check(changed.decode())
        except TokenError:
            continue
        text = parse_token(changed.decode())
        assert json.loads(text.claims)["sub"] == accepted.user
        assert 1 <= accepted.lifetime_ms <= MAX_LIFETIME_MS


def test_an_own_token_is_accepted() -> None:
    token = make_unsecured({"sub": "broker"}, 60, NOW_MS)
    assert check(token) == AcceptedToken("broker", 60_000)


def test_the_standard_decoder_agrees_about_parts() -> None:
    token = parse_token(unsecured(CLAIMS))
    assert json.loads(base64.urlsafe_b64decode(unsecured(CLAIMS).split(".")[1] + "==")) == CLAIMS
    assert json.loads(token.claims) == CLAIMS

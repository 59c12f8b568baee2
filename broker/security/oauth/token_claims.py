"""The claims of a JSON Web Token, and the rules for them (decision).

Source: RFC 7519, section 4.1; Kafka 3.9's validators of signed and unsecured tokens. Stricter than
Kafka: a token issued in the future, a user name with blanks around it or with control characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from kafkawire.sasl_oauth_server import AcceptedToken, TokenError

MAX_USER_BYTES: Final = 1024
MAX_LIFETIME_MS: Final = 365 * 24 * 3600 * 1000
"""Longest session; clients compute with nanoseconds, which must not overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """Names of claims, and the values that they must have.

    An empty `issuer` is not compared. With empty `audiences`, a token must have no audience, unless
    `ignores_audience`. The list `required_scopes` must be part of the token's scopes.
    """

    user_claim: str = "sub"
    scope_claim: str = "scope"
    issuer: str = ""
    audiences: Set[str] = field(default_factory=frozenset)
    ignores_audience: bool = False
    needs_issue_time: bool = True
    required_scopes: tuple[str, ...] = ()
    clock_skew_ms: int = 0


def accept(claims: Mapping[str, object], rules: ClaimRules, now_ms: int) -> AcceptedToken:
    """Return the user of valid claims.

    Raises:
        TokenError: a claim is missing, malformed, or against a rule.
    """
    expiry_ms = _check_times(claims, rules, now_ms)
    if rules.issuer and claims.get("iss") != rules.issuer:
        raise TokenError("the issuer is not the expected one")
    if not rules.ignores_audience:
        _check_audience(claims, rules)
    _check_scopes(claims, rules)
    # At least 1, because 0 would mean no limit.
    lifetime_ms = max(1, min(expiry_ms - now_ms, MAX_LIFETIME_MS))
    return AcceptedToken(_user(claims, rules.user_claim), lifetime_ms)


def _check_times(claims: Mapping[str, object], rules: ClaimRules, now_ms: int) -> int:
    """Return the time of expiry."""
    expiry_ms = _time_ms(claims, "exp")
    if expiry_ms is None:
        raise TokenError("the token has no time of expiry")
    if now_ms - rules.clock_skew_ms >= expiry_ms:
        raise TokenError("the token has expired")
    issued_ms = _time_ms(claims, "iat")
    if issued_ms is None:
        if rules.needs_issue_time:
            raise TokenError("the token has no time of issue")
    elif issued_ms > now_ms + rules.clock_skew_ms:
        raise TokenError("the token was issued in the future")
    elif issued_ms >= expiry_ms:
        raise TokenError("the token expires before its issue")
    not_before_ms = _time_ms(claims, "nbf")
    if not_before_ms is not None and not_before_ms > now_ms + rules.clock_skew_ms:
        raise TokenError("the token is not valid yet")
    return expiry_ms


def _time_ms(claims: Mapping[str, object], name: str) -> int | None:
    seconds = claims.get(name)
    if seconds is None:
        return None
    # A bool is an int to Python, but not to JSON.
    if type(seconds) not in (int, float):
        raise TokenError(f"the claim {name} is not a number")
    assert isinstance(seconds, int | float), "its type was compared"
    # False for NaN, too. A conversion to float would fail for an integer of 400 digits.
    if not 0 <= seconds <= 2**53:
        raise TokenError(f"the claim {name} is not a time")
    # Rounded down, so that a token of this millisecond was not issued in the future.
    return int(seconds * 1000)


def _check_audience(claims: Mapping[str, object], rules: ClaimRules) -> None:
    found = _texts(claims, "aud")
    if not rules.audiences and found:
        raise TokenError("the token has an audience, and none is expected")
    if rules.audiences and rules.audiences.isdisjoint(found):
        raise TokenError("the audience is not an expected one")


def _check_scopes(claims: Mapping[str, object], rules: ClaimRules) -> None:
    scopes = [each.strip() for each in _texts(claims, rules.scope_claim)]
    if not set(rules.required_scopes) <= set(scopes):
        wanted = ", ".join(rules.required_scopes)
        raise TokenError("the token lacks a scope", f"[{wanted}]")


def _texts(claims: Mapping[str, object], name: str) -> list[str]:
    """Return the texts of a claim that is a text or a list of texts."""
    value = claims.get(name)
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    texts = [each for each in values if isinstance(each, str)]
    if len(texts) < len(values):
        raise TokenError(f"the claim {name} is neither a text nor a list of texts")
    return texts


def _user(claims: Mapping[str, object], name: str) -> str:
    user = claims.get(name)
    if not isinstance(user, str) or not user:
        raise TokenError(f"the token has no text in the claim {name}")
    if user != user.strip() or not user.isprintable():
        # Blanks would make another user look like this one. Lone surrogates are not printable.
        raise TokenError(f"the claim {name} has blanks around it or control characters")
    if len(user.encode()) > MAX_USER_BYTES:
        raise TokenError(f"the claim {name} is longer than {MAX_USER_BYTES} bytes")
    return user

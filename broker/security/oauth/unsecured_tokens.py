"""Tokens without a signature, for tests: every client can make one for any user (decision).

Source: OAuthBearerUnsecuredValidatorCallbackHandler, OAuthBearerUnsecuredLoginCallbackHandler of
Kafka 3.9.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from broker.security.oauth.token_claims import ClaimRules, accept
from broker.security.oauth.token_text import parse_claims, parse_token
from kafkawire.sasl_oauth_server import AcceptedToken, TokenError


def accept_unsecured(text: str, rules: ClaimRules, now_ms: int) -> AcceptedToken:
    """Return the user that a token names.

    Raises:
        TokenError: the token is malformed, signed, or against a rule.
    """
    token = parse_token(text)
    if token.header.get("alg") != "none" or token.has_signature:
        raise TokenError("the token has an algorithm or a signature, and needs none")
    return accept(parse_claims(token.claims), rules, now_ms)


def make_unsecured(claims: Mapping[str, str], lifetime_s: int, now_ms: int) -> str:
    """Return a token with `claims` that is valid from now on."""
    now_s = now_ms / 1000
    timed = {**claims, "iat": now_s, "exp": now_s + lifetime_s}
    return f"{_encoded({'alg': 'none'})}.{_encoded(timed)}."


def _encoded(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")

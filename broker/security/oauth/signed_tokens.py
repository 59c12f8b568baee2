"""Accepts tokens that a key of an issuer has signed (edge).

Needs the libraries of the extra `security`; only brokers that accept such tokens import it.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.security.oauth.key_set import UnknownKeyError
from broker.security.oauth.key_set_reader import KeySetReader
from broker.security.oauth.token_claims import ClaimRules, accept
from broker.security.oauth.token_text import parse_claims, parse_token
from kafkawire.sasl_oauth_server import AcceptedToken, TokenError


class SignedTokens:
    """Accepts tokens by the current keys of a source."""

    def __init__(self, keys: KeySetReader, rules: ClaimRules, now_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._rules = rules
        self._now_ms = now_ms

    def accept(self, text: str) -> AcceptedToken:
        """Return the user that a token names; at most 0.5 ms of signatures are computed.

        Raises:
            TokenError: the token is malformed, not signed by a current key, or against a rule.
        """
        token = parse_token(text)
        keys = self._keys.current
        if keys is None:
            raise TokenError("the keys of the issuer could not be read yet")
        try:
            keys.verify(token)
        except UnknownKeyError:
            self._keys.expedite()
            raise
        return accept(parse_claims(token.claims), self._rules, self._now_ms())

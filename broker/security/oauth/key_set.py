"""Public keys, and signatures of tokens by them (edge: it calls a library).

Only a key that suits the algorithm by its own type verifies a signature, so that a public key can
never serve as the secret of an HMAC. Keys inside a token, and addresses of keys, are ignored.

Source: RFC 7515, RFC 7517, RFC 7518, RFC 8725.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
import structlog

from broker.security.oauth.json_text import JsonError, parse_object
from broker.security.oauth.token_text import TokenText
from kafkawire.sasl_oauth_server import TokenError

RSA: Final = "RSA"
ALGORITHMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), RSA),
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
}
"""The type of key that each algorithm needs: RSA, or a curve."""
MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {"RSA": ("n", "e"), "EC": ("crv", "x", "y")}
"""The public members of each type of key."""
MAX_KEYS: Final = 64
MAX_CANDIDATES: Final = 4
"""Limit of the keys that are tried for a token without a key id."""
MIN_RSA_BITS: Final = 2048
MAX_RSA_BITS: Final = 8192

log = structlog.get_logger(__name__)


class KeySetError(ValueError):
    """Not a key set, or one without a key that can be used."""


class UnknownKeyError(TokenError):
    """No key suits a token; there may be a newer key set."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key for signatures, and the restrictions of its use."""

    kind: str
    key_id: str | None
    algorithm: str | None
    key: Any = field(repr=False)

    def suits(self, algorithm: str, key_id: str | None) -> bool:
        """Whether it may have signed a token with this header."""
        return (
            ALGORITHMS[algorithm] == self.kind
            and self.algorithm in (None, algorithm)
            and key_id in (None, self.key_id)
        )


class KeySet:
    """The keys of an issuer."""

    def __init__(self, data: bytes) -> None:
        """Read a JSON Web Key Set; keys that cannot be used are left out.

        Raises:
            KeySetError: it is malformed, too large, or no key is left.
        """
        try:
            found = parse_object(data).get("keys")
        except JsonError as error:
            raise KeySetError(f"the key set {error}") from None
        if not isinstance(found, list) or len(found) > MAX_KEYS:
            raise KeySetError(f"the key set has no list of at most {MAX_KEYS} keys")
        self.keys = [key for each in found if (key := _public_key(each)) is not None]
        if not self.keys:
            raise KeySetError("the key set has no key of RSA or EC for signatures")
        if len(self.keys) < len(found):
            log.warning("jwks.keys_ignored", key_count=len(found) - len(self.keys))

    def verify(self, token: TokenText) -> None:
        """Check the signature of a token.

        Raises:
            UnknownKeyError: no key suits the token.
            TokenError: the algorithm is not served, or the signature is wrong.
        """
        algorithm, key_id = token.header.get("alg"), token.header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise TokenError("the algorithm of the token is not served")
        if key_id is not None and not isinstance(key_id, str):
            raise TokenError("the key id of the token is not a text")
        candidates = [each for each in self.keys if each.suits(algorithm, key_id)]
        if not candidates:
            raise UnknownKeyError("no key of the key set suits the token")
        if not any(_has_signed(each, algorithm, token) for each in candidates[:MAX_CANDIDATES]):
            raise TokenError("the signature of the token is wrong")


def _has_signed(key: PublicKey, algorithm: str, token: TokenText) -> bool:
    try:
        jwt.PyJWS().decode(token.text, key.key, algorithms=[algorithm])
    except jwt.PyJWTError:
        return False
    return True


def _public_key(data: object) -> PublicKey | None:
    """Return a key; None if it is malformed, too weak, or not for signatures."""
    if not isinstance(data, dict) or data.get("use", "sig") != "sig":
        return None
    operations = data.get("key_ops", ["verify"])
    key_type, key_id, algorithm = (data.get(name) for name in ("kty", "kid", "alg"))
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    if not all(each is None or isinstance(each, str) for each in (key_id, algorithm)):
        return None
    if not isinstance(key_type, str) or key_type not in MEMBERS:
        return None
    # Private members stay unread.
    members = {name: data.get(name) for name in MEMBERS[key_type]}
    if not all(isinstance(each, str) for each in members.values()):
        return None
    kind = RSA if key_type == RSA else str(members["crv"])
    fitting = next((each for each, needed in ALGORITHMS.items() if needed == kind), None)
    if fitting is None:
        return None
    try:
        key = jwt.PyJWK({"kty": key_type, **members}, fitting).key
    except (jwt.PyJWTError, ValueError):
        return None
    if kind == RSA and not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
        return None
    return PublicKey(kind, key_id, algorithm, key)

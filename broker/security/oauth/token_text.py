"""The text of a JSON Web Token: three parts of bounded size (decision).

Nothing here trusts a token. Its size, depth and form are checked before its signature; therefore a
hostile token costs little. No error quotes a token.

Source: RFC 7515, section 4.1.11 and 7.1; RFC 7519; RFC 8725.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from broker.security.oauth.json_text import JsonError, parse_object
from kafkawire.sasl_oauth_server import TokenError

MAX_HEADER_CHARS: Final = 4 * 1024
MAX_CLAIMS_CHARS: Final = 48 * 1024
MAX_SIGNATURE_CHARS: Final = 2 * 1024
"""Limits of the parts of a token; a signature of RSA with 8192 bits has 1366 characters."""
PARTS: Final = 3
LIMITS: Final = (MAX_HEADER_CHARS, MAX_CLAIMS_CHARS, MAX_SIGNATURE_CHARS)

_BASE64URL: Final = re.compile(r"[-_a-zA-Z0-9]*")


@dataclass(frozen=True, slots=True)
class TokenText:
    """A token: its header, which nobody vouches for, its claims, and all of it as text."""

    header: Mapping[str, object]
    claims: bytes = field(repr=False)
    has_signature: bool
    text: str = field(repr=False)


def parse_token(text: str) -> TokenText:
    """Return a token in parts.

    Raises:
        TokenError: it does not have three parts, or is too large, or its header is malformed.
    """
    parts = text.split(".", PARTS)
    if len(parts) != PARTS:
        raise TokenError("the token does not consist of three parts")
    if any(len(part) > limit for part, limit in zip(parts, LIMITS, strict=True)):
        raise TokenError("the token is too large")
    header, claims, signature = map(_decode, parts)
    fields = parse_claims(header)
    if "crit" in fields:
        raise TokenError("the token demands an extension of JSON Web Signature")
    return TokenText(fields, claims, bool(signature), text)


def parse_claims(data: bytes) -> dict[str, object]:
    """Return the fields of a decoded part.

    Raises:
        TokenError: they are malformed.
    """
    try:
        return parse_object(data)
    except JsonError as error:
        raise TokenError(f"a part of the token {error}") from None


def _decode(part: str) -> bytes:
    if _BASE64URL.fullmatch(part):
        try:
            return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
        except binascii.Error:
            pass
    raise TokenError("a part of the token is not in base64url without padding")

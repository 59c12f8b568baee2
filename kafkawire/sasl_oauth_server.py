"""The server's side of OAUTHBEARER (decision).

A client sends a token in its first message. A token that is not accepted is answered with a reason
in JSON; the client acknowledges that, and only then the exchange ends with an error. No error text
contains a token.

Source: RFC 7628; KIP-255. Kafka 3.9 differs: after a refusal it accepts another token.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkawire.sasl_servers import SaslError

MAX_MESSAGE_BYTES: Final = 64 * 1024
"""Limit of the message with the token."""
INVALID_TOKEN: Final = '{"status":"invalid_token"}'

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIRS: Final = r"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<acts_for>{_NAME}))?,\x01(?P<pairs>{_PAIRS})\x01")
_BEARER: Final = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_ACKNOWLEDGEMENT: Final = b"\x01"


class TokenError(ValueError):
    """A token is not accepted; `missing_scope` is the scope that it would need, if any."""

    def __init__(self, reason: str, missing_scope: str = "") -> None:
        super().__init__(reason)
        self.missing_scope = missing_scope


@dataclass(frozen=True, slots=True)
class AcceptedToken:
    """The user of a valid token, and the time for which it stays valid: at least 1 ms."""

    user: str
    lifetime_ms: int


Validate = Callable[[str], AcceptedToken]
"""Returns the meaning of a token, or raises TokenError."""


class OAuthBearerServer:
    """OAUTHBEARER: hands the token to `validate`."""

    def __init__(self, validate: Validate) -> None:
        self.user: str | None = None
        self.lifetime_ms: int | None = None
        self.uses_token = False
        self._validate = validate
        # The reason of a refusal, and its text for the client.
        self._refusal: tuple[str, str] | None = None

    def answer(self, message: bytes) -> bytes:
        """Check the token, or end the exchange after a refusal."""
        if self._refusal is not None:
            # Another token has to wait for a new connection, like another password.
            reason, shown = self._refusal
            raise SaslError(reason, shown)
        acts_for, token = _parse(message)
        try:
            accepted = self._validate(token)
        except TokenError as error:
            self._refusal = str(error), _refusal_text(error)
            return self._refusal[1].encode()
        if acts_for not in ("", accepted.user):
            raise SaslError("the client wants to act for another user")
        self.user, self.lifetime_ms = accepted.user, accepted.lifetime_ms
        return b""


def _parse(message: bytes) -> tuple[str, str]:
    """Return the user to act for, which may be empty, and the token."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise SaslError(f"a message of {len(message)} bytes; at most {MAX_MESSAGE_BYTES}")
    if message == _ACKNOWLEDGEMENT:
        raise SaslError("the message acknowledges a refusal that was not sent")
    first = _FIRST.fullmatch(message.decode("latin-1"))
    if first is None:
        raise SaslError("the first message is malformed")
    pairs = [each.partition("=") for each in first["pairs"].split("\x01") if each]
    values = [value for key, _, value in pairs if key == "auth"]
    bearer = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if bearer is None:
        raise SaslError("the first message has no bearer token, or several")
    acts_for = (first["acts_for"] or "").replace("=2C", ",").replace("=3D", "=")
    return acts_for, bearer["token"]


def _refusal_text(error: TokenError) -> str:
    """Return the JSON text of a refusal, as Kafka writes it."""
    if not error.missing_scope:
        return INVALID_TOKEN
    return f'{{"status":"insufficient_scope", "scope":"{error.missing_scope}"}}'

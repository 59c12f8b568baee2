"""The client's side of the SASL mechanisms (decision).

A mechanism sends `first`, and then an answer to each of the server's messages until `answer` is
None. No error text contains a password or a token.

Source: RFC 4616 (PLAIN), RFC 5802 (SCRAM), RFC 7628 (OAUTHBEARER) with KIP-255.
"""

import hmac
from collections.abc import Mapping
from typing import Protocol

from kafkawire.scram import (
    GS2_HEADER,
    Keys,
    ScramError,
    decode_base64,
    encode_base64,
    encode_name,
    parse_attributes,
    parse_challenge,
)


class SaslClient(Protocol):
    """One exchange of one connection."""

    def first(self) -> bytes:
        """Return the first message."""
        ...

    def answer(self, message: bytes) -> bytes | None:
        """Return the answer to a message of the server, None if the exchange is complete.

        May compute for some milliseconds.

        Raises:
            ScramError: the server violates the protocol, or cannot prove that it knows the
                password.
        """
        ...


class PlainClient:
    """PLAIN: sends the password as it is."""

    def __init__(self, username: str, password: str) -> None:
        self._message = b"\0" + username.encode() + b"\0" + password.encode()

    def first(self) -> bytes:
        """Return the only message."""
        return self._message

    def answer(self, message: bytes) -> None:
        """Complete the exchange; the server has accepted the password."""


class OAuthBearerClient:
    """OAUTHBEARER: sends a token of printable characters."""

    def __init__(self, token: str) -> None:
        self._message = GS2_HEADER + f"\x01auth=Bearer {token}\x01\x01".encode()

    def first(self) -> bytes:
        """Return the message with the token."""
        return self._message

    def answer(self, message: bytes) -> bytes | None:
        """Acknowledge the reason of a refusal; the server then ends the exchange with an error."""
        return b"\x01" if message else None


class ScramClient:
    """SCRAM with one of the mechanisms in `scram.HASHES`, for a fresh random `nonce`.

    With `is_token`, name and password are the id and the HMAC of a delegation token.
    """

    def __init__(
        self, mechanism: str, username: str, password: str, nonce: str, *, is_token: bool = False
    ) -> None:
        self._mechanism, self._password, self._nonce = mechanism, password, nonce
        extension = ",tokenauth=true" if is_token else ""
        self._first_bare = f"n={encode_name(username)},r={nonce}{extension}".encode()
        self._expected: bytes | None = None

    def first(self) -> bytes:
        """Return the message with the user's name and the nonce."""
        return GS2_HEADER + self._first_bare

    def answer(self, message: bytes) -> bytes | None:
        """Prove the password, and then verify the server's proof."""
        if self._expected is not None:
            self._verify(parse_attributes(message), self._expected)
            return None
        challenge = parse_challenge(message, self._nonce)
        keys = Keys(self._mechanism, self._password, challenge.salt, challenge.iterations)
        final = f"c={encode_base64(GS2_HEADER)},r={challenge.nonce}".encode()
        auth_message = b",".join((self._first_bare, message, final))
        self._expected = keys.server_signature(auth_message)
        return final + f",p={encode_base64(keys.proof(auth_message))}".encode()

    @staticmethod
    def _verify(attributes: Mapping[str, str], expected: bytes) -> None:
        if "e" in attributes:
            raise ScramError("the server reports an error")
        if not hmac.compare_digest(decode_base64(attributes.get("v", "")), expected):
            raise ScramError("the server does not know the password")

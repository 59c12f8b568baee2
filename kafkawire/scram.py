"""SCRAM's messages and arithmetic, for both sides (decision).

A password never crosses the wire. The server keeps a salt, a number of iterations and two keys that
are derived from the password; each side proves to the other that it knows its key.

Source: RFC 5802, RFC 7677; KIP-84 for the mechanisms' names, and for names and passwords as UTF-8
without SASLprep.
"""

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final, Self

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash function of each mechanism."""
NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""Kafka's number of each mechanism, in requests that change users."""
MIN_ITERATIONS: Final = 4096
USUAL_ITERATIONS: Final = (4096, 8192)
"""The defaults of Kafka's tools and of Ottla's."""
MAX_ITERATIONS: Final = 1_000_000
"""Limit for the work that a server can demand from a client: about half a second."""
SALT_BITS: Final = 130
SALT_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
GS2_HEADER: Final = b"n,,"
"""No channel binding, and no user to act for."""


class ScramError(ValueError):
    """A message of the peer violates the protocol, or its proof is wrong."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The first message of a server."""

    nonce: str
    salt: bytes
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """The keys that a server keeps of a user's password."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(cls, mechanism: str, salted_password: bytes, salt: bytes, iterations: int) -> Self:
        """Return the credential of a password that is salted already."""
        hash_name = HASHES[mechanism]
        client_key = hmac.digest(salted_password, b"Client Key", hash_name)
        return cls(
            salt=salt,
            stored_key=hashlib.new(hash_name, client_key).digest(),
            server_key=hmac.digest(salted_password, b"Server Key", hash_name),
            iterations=iterations,
        )


def salt_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted hash of a password, from which all keys are derived."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def salt_of(entropy: bytes) -> bytes:
    """Return a salt for 17 random bytes or more.

    It looks like a salt of Kafka's tools: a number of 130 bits in base 36.
    """
    number = int.from_bytes(entropy, "big") % (1 << SALT_BITS)
    digits = ""
    while number or not digits:
        number, digit = divmod(number, len(SALT_DIGITS))
        digits = SALT_DIGITS[digit] + digits
    return digits.encode()


def encode_name(name: str) -> str:
    """Return a user name as it stands in messages."""
    return name.replace("=", "=3D").replace(",", "=2C")


def decode_name(text: str) -> str:
    """Return the user name that stands in a message as `text`.

    Raises:
        ScramError: it is empty, or an escape is not one of the two that exist.
    """
    name = text.replace("=2C", ",").replace("=3D", "=")
    if not text or "\0" in text or encode_name(name) != text:
        raise ScramError("a name is malformed")
    return name


def parse_attributes(message: bytes) -> dict[str, str]:
    """Return the attributes of a message, by their letters, or the names of extensions.

    Raises:
        ScramError: the message is not a list of attributes.
    """
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise ScramError("a message is not UTF-8") from None
    attributes: dict[str, str] = {}
    for part in text.split(","):
        letter, separator, value = part.partition("=")
        is_name = letter.isascii() and letter.isalpha()
        if not is_name or not separator or letter in attributes:
            raise ScramError("a message is not a list of attributes")
        attributes[letter] = value
    return attributes


def parse_challenge(message: bytes, client_nonce: str) -> Challenge:
    """Return the challenge in the first message of a server.

    Raises:
        ScramError: it is malformed, does not continue `client_nonce`, or demands too few or too
            many iterations.
    """
    attributes = parse_attributes(message)
    nonce = attributes.get("r", "")
    if not nonce.startswith(client_nonce) or len(nonce) == len(client_nonce):
        raise ScramError("the server's nonce does not continue the client's")
    iterations = attributes.get("i", "")
    # Longer numbers are out of range, and expensive to parse.
    if not iterations.isascii() or not iterations.isdecimal() or len(iterations) > 9:
        raise ScramError("the number of iterations is no number")
    if not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
        raise ScramError(
            f"the server demands {iterations} iterations; allowed are {MIN_ITERATIONS} to "
            f"{MAX_ITERATIONS}"
        )
    return Challenge(nonce, decode_base64(attributes.get("s", "")), int(iterations))


def decode_base64(text: str) -> bytes:
    """Return the bytes of a base64 value.

    Raises:
        ScramError: it is empty, or not base64.
    """
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if not value:
        raise ScramError("a value is not base64")
    return value


def encode_base64(value: bytes) -> str:
    """Return `value` in base64."""
    return base64.b64encode(value).decode()


class Keys:
    """The keys that are derived from a password."""

    def __init__(self, mechanism: str, password: str, salt: bytes, iterations: int) -> None:
        self._hash = HASHES[mechanism]
        salted = salt_password(mechanism, password, salt, iterations)
        self._client_key = self._hmac(salted, b"Client Key")
        self._server_key = self._hmac(salted, b"Server Key")

    def proof(self, auth_message: bytes) -> bytes:
        """Return the client's proof that it knows the password."""
        stored_key = hashlib.new(self._hash, self._client_key).digest()
        signature = self._hmac(stored_key, auth_message)
        return bytes(one ^ other for one, other in zip(self._client_key, signature, strict=True))

    def server_signature(self, auth_message: bytes) -> bytes:
        """Return the server's proof that it knows the password's keys."""
        return self._hmac(self._server_key, auth_message)

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)

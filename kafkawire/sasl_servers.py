"""The server's side of the SASL mechanisms (decision).

A mechanism answers each of the client's messages. It is complete once `user` is set, and useless
after an error. No error text contains a password, and none shows whether a user exists.

Source: RFC 4616 (PLAIN), RFC 5802 (SCRAM); KIP-84. Kafka 3.9 differs: it accepts a client nonce
that only ends with the right one, and does not compare the channel binding.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kafkawire.scram import (
    HASHES,
    MIN_ITERATIONS,
    Credential,
    ScramError,
    decode_base64,
    decode_name,
    encode_base64,
    parse_attributes,
)

MAX_MESSAGE_BYTES: Final = 16 * 1024
"""Limit of a message of PLAIN or SCRAM; names, passwords and nonces are much shorter."""
PLAIN_PARTS: Final = 3
# Fake salts look like the salts of Kafka's tools: 25 digits of base 36.
_SALT_BYTES: Final = 25
_SALT_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


class SaslError(ValueError):
    """The client's message violates the mechanism, or its credentials are wrong."""


class SaslServer(Protocol):
    """One exchange of one connection."""

    user: str | None
    """The authenticated user, None until the exchange is complete."""

    def answer(self, message: bytes) -> bytes:
        """Return the answer to a message of the client, which may be empty.

        Raises:
            SaslError: the client is not authenticated; end the exchange.
        """
        ...


class PlainServer:
    """PLAIN: compares the password with that in `passwords`."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.user: str | None = None
        self._passwords = passwords

    def answer(self, message: bytes) -> bytes:
        """Check the only message."""
        _check_size(message)
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslError("the message is not UTF-8") from None
        if len(parts) != PLAIN_PARTS:
            raise SaslError("the message does not consist of three parts")
        acts_for, user, password = parts
        if not user or not password:
            raise SaslError("the user name or the password is empty")
        expected = self._passwords.get(user)
        # Hashes have one length, so the comparison takes the same time for every password.
        is_right = hmac.compare_digest(_hash(password), _hash(expected or ""))
        if expected is None or not is_right:
            raise SaslError("Authentication failed: Invalid username or password")
        if acts_for not in ("", user):
            raise SaslError("the client wants to act for another user")
        self.user = user
        return b""


class ScramServer:
    """SCRAM with one of the mechanisms in `scram.HASHES`.

    An unknown user gets a challenge as well, with a salt that depends on the name and on `secret`,
    and fails like a wrong password. Thus the exchange does not show which users exist.
    """

    def __init__(
        self,
        mechanism: str,
        credential_of: Callable[[str], Credential | None],
        nonce: str,
        secret: bytes,
    ) -> None:
        """`nonce` is random, and `secret` stays the same for all exchanges."""
        self.user: str | None = None
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._credential_of = credential_of
        self._nonce = nonce
        self._secret = secret
        self._name = ""
        self._binding = b""
        # Start of the text that both sides prove with their keys.
        self._signed = b""
        self._credential: Credential | None = None

    def answer(self, message: bytes) -> bytes:
        """Send the challenge, and then verify the proof.

        Raises:
            SaslError: as in SaslServer.
        """
        _check_size(message)
        try:
            return self._challenge(message) if not self._signed else self._verify(message)
        except ScramError as error:
            raise SaslError(str(error)) from None

    def _challenge(self, message: bytes) -> bytes:
        """Return salt, iterations and nonce for the user named in the client's first message."""
        binding, _, rest = message.partition(b",")
        acts_for, comma, bare = rest.partition(b",")
        if binding != b"n" or not comma:
            raise ScramError("channel binding is not supported")
        self._binding = b"n," + acts_for + b","
        attributes = parse_attributes(bare)
        if list(attributes)[:2] != ["n", "r"]:
            raise ScramError("the first message does not begin with a name and a nonce")
        self._name = decode_name(attributes["n"])
        if acts_for and acts_for != b"a=" + attributes["n"].encode():
            raise ScramError("the client wants to act for another user")
        if not attributes["r"] or not all("!" <= each <= "~" for each in attributes["r"]):
            raise ScramError("the nonce is malformed")
        credential = self._credential = self._credential_of(self._name) or self._fake()
        self._nonce = attributes["r"] + self._nonce
        answer = (
            f"r={self._nonce},s={encode_base64(credential.salt)},i={credential.iterations}"
        ).encode()
        self._signed = bare + b"," + answer + b","
        return answer

    def _verify(self, message: bytes) -> bytes:
        """Compare the client's proof, and return the server's."""
        credential = self._credential
        assert credential is not None, "the challenge comes first"
        without_proof, _, proof_text = message.rpartition(b",p=")
        attributes = parse_attributes(without_proof)
        if attributes.get("c") != encode_base64(self._binding):
            raise ScramError("the channel binding has changed")
        if attributes.get("r") != self._nonce:
            raise ScramError("the nonce has changed")
        proof = decode_base64(proof_text.decode("ascii", "replace"))
        signed = self._signed + without_proof
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            raise ScramError("the proof has the wrong length")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise ScramError("Authentication failed: Invalid username or password")
        self.user = self._name
        return (
            b"v=" + encode_base64(hmac.digest(credential.server_key, signed, self._hash)).encode()
        )

    def _fake(self) -> Credential:
        """Return a credential that no password matches, always the same for a name."""
        text = f"{self._mechanism},{self._name}".encode()
        salt = hmac.digest(self._secret, b"salt," + text, "sha256")[:_SALT_BYTES]
        salt = bytes(_SALT_DIGITS[each % len(_SALT_DIGITS)] for each in salt)
        key = hmac.digest(self._secret, b"key," + text, self._hash)
        return Credential(salt=salt, stored_key=key, server_key=key, iterations=MIN_ITERATIONS)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _check_size(message: bytes) -> None:
    if len(message) > MAX_MESSAGE_BYTES:
        raise SaslError(f"a message of {len(message)} bytes; at most {MAX_MESSAGE_BYTES}")

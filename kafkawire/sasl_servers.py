"""The server's side of the SASL mechanisms (decision).

A mechanism answers each of the client's messages. It is complete once `user` is set, and useless
after an error. No error text contains a password, and none shows whether a user exists.

Source: RFC 4616 (PLAIN), RFC 5802 (SCRAM); KIP-84. Kafka 3.9 differs: it accepts a client nonce
that only ends with the right one, and does not compare the channel binding.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from kafkawire.scram import (
    HASHES,
    USUAL_ITERATIONS,
    Credential,
    ScramError,
    decode_base64,
    decode_name,
    encode_base64,
    parse_attributes,
    salt_of,
)

MAX_MESSAGE_BYTES: Final = 16 * 1024
"""Limit of a message of PLAIN or SCRAM; names, passwords and nonces are much shorter."""
PLAIN_PARTS: Final = 3
TOKEN_EXTENSION: Final = "tokenauth"
"""With the value `true`, the client's name is the id of a delegation token."""


class SaslError(ValueError):
    """The client's message violates the mechanism, or its credentials are wrong.

    `shown` is the text for the client; if it is empty, the client gets the mechanism's general one.
    """

    def __init__(self, reason: str, shown: str = "") -> None:
        super().__init__(reason)
        self.shown = shown


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """The login of a delegation token: its owner, its credential, its remaining time."""

    owner: str
    credential: Credential
    lifetime_ms: int


class SaslServer(Protocol):
    """One exchange of one connection."""

    user: str | None
    """The authenticated user, None until the exchange is complete."""
    lifetime_ms: int | None
    """Time after which the client's credential expires; None without a limit."""
    uses_token: bool
    """Whether the credential is a delegation token."""

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
        self.lifetime_ms: int | None = None
        self.uses_token = False
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
    and fails like a wrong password. Thus the exchange does not show which users exist, if the
    secret is constant and the same at all brokers.
    """

    def __init__(
        self,
        mechanism: str,
        credential_of: Callable[[str], Credential | None],
        nonce: str,
        secret: bytes,
        token_of: Callable[[str], TokenLogin | None] = lambda _token_id: None,
    ) -> None:
        """`nonce` is random, and `secret` stays the same for all exchanges of a cluster.

        `token_of` finds the delegation token with an id, which a client may give as its name.
        """
        self.user: str | None = None
        self.lifetime_ms: int | None = None
        self.uses_token = False
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._credential_of = credential_of
        self._nonce = nonce
        self._secret = secret
        self._token_of = token_of
        self._name = ""
        # The user after a right proof.
        self._owner = ""
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
        self._owner = self._name
        self.uses_token = attributes.get(TOKEN_EXTENSION) == "true"
        # Both are always made, so that the time of the answer does not show which users exist.
        fake, credential = self._fake(), self._current_credential()
        credential = self._credential = credential or fake
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
        is_right = hmac.compare_digest(stored_key, credential.stored_key)
        # A client may wait with its proof while its user is removed or gets another password.
        if not is_right or self._current_credential() != credential:
            raise ScramError("Authentication failed: Invalid username or password")
        self.user = self._owner
        return (
            b"v=" + encode_base64(hmac.digest(credential.server_key, signed, self._hash)).encode()
        )

    def _current_credential(self) -> Credential | None:
        """Return the credential of the user or token; None if it is unknown."""
        return self._token_credential() if self.uses_token else self._credential_of(self._name)

    def _token_credential(self) -> Credential | None:
        """Return the credential of a token, and note its owner; None for an unknown token."""
        login = self._token_of(self._name)
        if login is None:
            return None
        self._owner, self.lifetime_ms = login.owner, login.lifetime_ms
        return login.credential

    def _fake(self) -> Credential:
        """Return a credential that no password matches, always the same for a name."""
        text = f"{self._mechanism},{self._name}".encode()
        entropy = hmac.digest(self._secret, b"salt," + text, "sha256")
        iterations = USUAL_ITERATIONS[entropy[0] % len(USUAL_ITERATIONS)]
        key = hmac.digest(self._secret, b"key," + text, self._hash)
        return Credential(
            salt=salt_of(entropy), stored_key=key, server_key=key, iterations=iterations
        )


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _check_size(message: bytes) -> None:
    if len(message) > MAX_MESSAGE_BYTES:
        raise SaslError(f"a message of {len(message)} bytes; at most {MAX_MESSAGE_BYTES}")

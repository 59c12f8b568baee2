"""DIGEST-MD5 as ZooKeeper uses it: both sides of the exchange (decision).

The client's first token is empty. The server sends a challenge, the client its proof, and the
server a proof of its own. ZooKeeper names service, host and realm itself, and protects no later
message.
MD5 is weak: without TLS, an eavesdropper can guess passwords offline.

Source: RFC 2831; com.sun.security.sasl.digest of Java 17; ZooKeeper `SecurityUtils`.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Final

from coordination.errors import SaslError

REALM: Final = "zk-sasl-md5"
"""Realm, and also the host in the URI, of all servers."""
URI: Final = f"zookeeper/{REALM}"
FIRST_COUNT: Final = "00000001"
MAX_TOKEN_BYTES: Final = 4096
_DIRECTIVE: Final = re.compile(
    r'[\s,]*(?P<name>[a-z-]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<word>[^",\s]*+))\s*(?=,|$)',
    re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NEEDS_ESCAPE: Final = re.compile(r'(["\\])')


class DigestServer:
    """The server's side of one exchange with one of the users in `passwords`."""

    def __init__(self, passwords: Mapping[str, str], nonce: str) -> None:
        self.user: str | None = None
        """The user, once the exchange has succeeded."""
        self._passwords = passwords
        self._nonce = nonce
        self._is_challenged = self._is_over = False

    def answer(self, token: bytes) -> bytes:
        """Return the token that answers the client's.

        Raises:
            SaslError: the client does not prove that it knows the password of a user.
        """
        if self._is_over:
            raise SaslError("the exchange is over")
        if self._is_challenged:
            self._is_over = True
            return self._verify(parse(token))
        if token:
            raise SaslError("the first token must be empty")
        self._is_challenged = True
        return (f'realm="{REALM}",nonce="{self._nonce}",charset=utf-8,algorithm=md5-sess').encode()

    def _verify(self, given: Mapping[str, str]) -> bytes:
        user = given.get("username", "")
        expected = {"nonce": self._nonce, "realm": REALM, "nc": FIRST_COUNT, "digest-uri": URI}
        for name, value in expected.items():
            if given.get(name) != value:
                raise SaslError(f"the directive {name} is missing or wrong")
        if given.get("qop", "auth") != "auth" or not given.get("cnonce"):
            raise SaslError("the directive qop or cnonce is missing or wrong")
        password = self._passwords.get(user, "")
        key = session_key(user, password, given, given.get("authzid"))
        proof = prove(key, given, is_client=True)
        is_right = hmac.compare_digest(proof.encode(), given.get("response", "").encode())
        # Last, so that the time of a failure does not reveal which users exist.
        if not is_right or not password:
            raise SaslError(f"user {user[:64]!r} is unknown, or the password is wrong")
        self.user = user
        return f"rspauth={prove(key, given, is_client=False)}".encode()


class DigestClient:
    """The client's side of one exchange."""

    def __init__(self, user: str, password: str, nonce: str) -> None:
        self.is_complete = False
        """Whether the server has proven that it knows the password, too."""
        self._user = user
        self._password = password
        self._nonce = nonce
        self._expected: str | None = None

    def first(self) -> bytes:
        """Return the first token."""
        return b""

    def answer(self, token: bytes | None) -> bytes | None:
        """Return the token that answers the server's; None at the end of the exchange.

        Raises:
            SaslError: the server does not offer DIGEST-MD5, or cannot be trusted.
        """
        if token is None:
            raise SaslError("the server has no users for SASL")
        given = parse(token)
        if self._expected is not None:
            if not hmac.compare_digest(given.get("rspauth", "").encode(), self._expected.encode()):
                raise SaslError("the server does not know the password")
            self.is_complete = True
            return None
        if not given.get("nonce") or given.get("algorithm") != "md5-sess":
            raise SaslError("the server's challenge is not one of DIGEST-MD5")
        if "auth" not in re.split(r"[\s,]+", given.get("qop", "auth")):
            raise SaslError("the server demands protection of messages, which is not supported")
        return self._prove(given["nonce"], given.get("realm", ""))

    def _prove(self, nonce: str, realm: str) -> bytes:
        given = {
            "username": self._user, "realm": realm, "nonce": nonce, "nc": FIRST_COUNT,
            "cnonce": self._nonce, "digest-uri": URI, "qop": "auth",
        }  # fmt: skip
        key = session_key(self._user, self._password, given, None)
        self._expected = prove(key, given, is_client=False)
        proof = prove(key, given, is_client=True)
        quoted = {
            name: _NEEDS_ESCAPE.sub(r"\\\1", given[name])
            for name in ("username", "realm", "nonce", "cnonce", "digest-uri")
        }
        texts = [f'{name}="{value}"' for name, value in quoted.items()]
        return ",".join(
            ["charset=utf-8", *texts, f"nc={FIRST_COUNT}", "qop=auth", f"response={proof}"]
        ).encode()


def parse(token: bytes) -> dict[str, str]:
    """Return the directives of a token.

    Raises:
        SaslError: it is malformed, too long, or has a directive twice.
    """
    if len(token) > MAX_TOKEN_BYTES:
        raise SaslError(f"a token has at most {MAX_TOKEN_BYTES} bytes, got {len(token)}")
    try:
        text = token.decode().rstrip(", \t\r\n")
    except UnicodeDecodeError:
        raise SaslError("a token is not UTF-8") from None
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        directive = _DIRECTIVE.match(text, position)
        if directive is None or directive["name"] in found:
            raise SaslError("a token is malformed")
        quoted = directive["quoted"]
        found[directive["name"]] = (
            directive["word"] if quoted is None else _ESCAPED.sub(r"\1", quoted)
        )
        position = directive.end()
    return found


def session_key(user: str, password: str, given: Mapping[str, str], authzid: str | None) -> str:
    """Return the key of an exchange; `given` holds its nonces and its realm."""
    secret = hashlib.md5(
        b":".join(map(_encoded, (user, given["realm"], password))), usedforsecurity=False
    ).digest()
    rest = [given["nonce"], given["cnonce"], *([] if authzid is None else [authzid])]
    joined = b":".join([secret, *(each.encode() for each in rest)])
    return hashlib.md5(joined, usedforsecurity=False).hexdigest()


def prove(key: str, given: Mapping[str, str], *, is_client: bool) -> str:
    """Return the proof of knowing the key of an exchange."""
    method = "AUTHENTICATE" if is_client else ""
    action = _md5(f"{method}:{given['digest-uri']}")
    return _md5(":".join((key, given["nonce"], given["nc"], given["cnonce"], "auth", action)))


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _encoded(text: str) -> bytes:
    """Return the bytes that are hashed: Latin-1 if it can hold the text."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()

"""The login of a client by DIGEST-MD5, as part of a connection's handshake (decision)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from coordination.errors import ErrorCode, SaslError
from coordination.protocol import frames, jute
from coordination.protocol.digest_md5 import DigestClient
from coordination.protocol.messages import OpCode, ReplyHeader, SaslToken

XID: Final = 0
"""Other requests have larger ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """User and password of SASL."""

    user: str
    password: str = field(repr=False)


class LoginExchange:
    """One login on one connection."""

    def __init__(self, login: Login, new_nonce: Callable[[], str]) -> None:
        self._user = login.user
        self._client = DigestClient(login.user, login.password, new_nonce())

    def first(self) -> bytes:
        """Return the first packet."""
        return _packet(self._client.first())

    def answer(self, payload: bytes) -> bytes | None:
        """Return the packet that answers a server's; None at the end of the exchange.

        Raises:
            SaslError: the server refuses the login, or cannot be trusted.
            JuteError: the packet is malformed.
        """
        header, start = jute.decode(ReplyHeader, payload)
        if header.xid != XID:
            raise SaslError("the server sends other packets during the login")
        if header.err != ErrorCode.OK:
            raise SaslError(f"the server refuses the login of user {self._user}")
        token, _ = jute.decode(SaslToken, payload, start)
        answer = self._client.answer(token.token)
        return None if answer is None else _packet(answer)


def _packet(token: bytes) -> bytes:
    return frames.encode_request(XID, OpCode.SASL, jute.encode(SaslToken(token)))

"""Identities of clients (decision): from certificates, credentials and SASL exchanges.

Source: ZooKeeper `X509AuthenticationProvider`, `SaslServerCallbackHandler`, `AuthenticationHelper`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from coordination.errors import ErrorCode, SaslError
from coordination.protocol import jute
from coordination.protocol.digest_md5 import DigestServer
from coordination.protocol.messages import AuthRequest, OpCode, SaslToken
from coordination.server.coordinator_config import CoordinatorConfig
from coordination.server.state import acl
from coordination.server.state.acl import SUPER, Identity
from trust.distinguished_name import subject_of

_NO_TOKEN: Final = jute.encode(SaslToken(None))


class Client(Protocol):
    """Connection of a client."""

    identities: Sequence[Identity]
    exchange: DigestServer | None
    """The SASL exchange, from its first token on."""


class LoginReply(NamedTuple):
    """Reply to a request for an identity; with a `refusal`, the connection must end."""

    err: ErrorCode = ErrorCode.OK
    body: bytes = b""
    identities: Sequence[Identity] = ()
    refusal: str | None = None


REQUIRES_LOGIN: Final = LoginReply(
    ErrorCode.SESSION_CLOSED_REQUIRE_SASL, refusal="the client has not authenticated"
)


class Authentication:
    """The rules of one coordinator."""

    def __init__(self, config: CoordinatorConfig, new_nonce: Callable[[], str]) -> None:
        self._config = config
        self._new_nonce = new_nonce

    def is_sufficient(self, identities: Iterable[Identity]) -> bool:
        """Whether a client with `identities` may use the coordinator at all."""
        required = self._config.required_schemes
        return not required or any(each.scheme in required for each in identities)

    def of_certificate(self, known: Sequence[Identity], certificate: bytes) -> tuple[Identity, ...]:
        """Return `known` with the identities of a certificate in DER.

        Raises:
            ValueError: it is malformed.
        """
        name = subject_of(certificate)
        own = Identity("x509", name)
        is_super = name == self._config.x509_super_user
        found = acl.added(known, *((Identity(SUPER.scheme, name), own) if is_super else (own,)))
        assert found is not None, "a new connection has few identities"
        return found

    def log_in(self, client: Client, op: int, payload: bytes, start: int) -> LoginReply:
        """Return the reply to an auth or sasl request whose body begins at `start` of `payload`.

        Raises:
            JuteError: it is malformed.
        """
        if op == OpCode.SASL:
            token, _ = jute.decode(SaslToken, payload, start)
            return self._continue_exchange(client, token.token or b"")
        request, _ = jute.decode(AuthRequest, payload, start)
        identities = acl.authenticate(
            request.scheme, request.auth or b"", client.identities, self._config.super_digest
        )
        if identities is None:
            return LoginReply(ErrorCode.AUTH_FAILED, refusal="the credentials are refused")
        return LoginReply(identities=identities)

    def _continue_exchange(self, client: Client, token: bytes) -> LoginReply:
        if not self._config.users:
            # As in ZooKeeper, the client continues without the identity.
            return LoginReply(body=_NO_TOKEN, identities=client.identities)
        if client.exchange is None:
            client.exchange = DigestServer(self._config.users, self._new_nonce())
        try:
            answer = client.exchange.answer(token)
            identities = self._of_user(client.identities, client.exchange.user)
        except SaslError as error:
            is_required = "sasl" in self._config.required_schemes
            return LoginReply(
                ErrorCode.SESSION_CLOSED_REQUIRE_SASL if is_required else ErrorCode.AUTH_FAILED,
                _NO_TOKEN,
                refusal=f"SASL: {error}",
            )
        return LoginReply(body=jute.encode(SaslToken(answer)), identities=identities)

    def _of_user(self, known: Sequence[Identity], user: str | None) -> Sequence[Identity]:
        if user is None:
            return known
        is_super = user in self._config.super_users
        found = acl.added(known, *((SUPER,) if is_super else ()), Identity("sasl", user))
        if found is None:
            raise SaslError("the client has too many identities")
        return found

"""The SASL exchange of one connection: its states and its answers (decision).

Before authentication a connection may ask for the versions, choose a mechanism and send its tokens.
Every other request ends it unread. Afterwards a session may have a limited lifetime, which the same
exchange renews, with the same mechanism and the same user (KIP-368).

Source: SaslServerAuthenticator of Kafka 3.9; KIP-43, KIP-152, KIP-255, KIP-368. Kafka answers a
request of another API between tokens in that API's own form; here it only ends the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kafkawire.apis import APIS, ApiKey
from kafkawire.errors import DecodeError, ErrorCode
from kafkawire.headers import RequestHeader, encode_response
from kafkawire.messages.api_versions import ApiVersionsResponse
from kafkawire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.native import decode, decode_request_header
from kafkawire.sasl_servers import SaslError, SaslServer

# More frames than any client needs: two for the versions, one for the mechanism, two tokens.
MAX_FRAMES: Final = 12
MIN_RENEWAL_INTERVAL_S: Final = 1.0
SIZE_BYTES: Final = 4
FIRST_FRAMED_VERSION: Final = 1
"""After version 0 of the handshake, tokens have no header and failures no answer."""
OTHER_USER: Final = "Cannot change principals during re-authentication"
WRONG_PASSWORD: Final = "Authentication failed: Invalid username or password"


class ExchangeState(Enum):
    """State of an exchange."""

    START = "start"
    HANDSHAKE = "handshake"
    """The versions are known, a mechanism is not chosen."""
    TOKEN = "token"
    RAW_TOKEN = "raw token"
    READY = "ready"
    """Authenticated."""
    CLOSED = "closed"


_S = ExchangeState
LEGAL: Final[Mapping[ExchangeState, Set[ApiKey]]] = {
    _S.START: frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}),
    _S.HANDSHAKE: frozenset({ApiKey.SASL_HANDSHAKE}),
    _S.TOKEN: frozenset({ApiKey.SASL_AUTHENTICATE}),
    _S.RAW_TOKEN: frozenset(),
    _S.READY: frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}),
    _S.CLOSED: frozenset(),
}
"""The requests that an exchange answers in each state. Other requests need an authenticated one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedMechanism:
    """A mechanism of a listener; `max_reauth_ms` limits its sessions, 0 does not."""

    begin: Callable[[], SaslServer]
    max_reauth_ms: int = 0


Offered = Mapping[str, OfferedMechanism]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response, and the reason to close the connection after it; empty if it stays open.

    A failure is answered late, so that guessing passwords takes time.
    """

    message: SaslHandshakeResponse | SaslAuthenticateResponse | ApiVersionsResponse | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Bytes to send after a frame, and the reason to close the connection as in `Answer`."""

    output: bytes = b""
    failure: str = ""


Describe = Callable[[RequestHeader, memoryview], tuple[RequestHeader, object]]
"""Returns the response to ApiVersions, and the header in whose version to encode it."""


class SaslExchange:
    """The exchange of a connection, for its whole life."""

    def __init__(self, offered: Offered, describe: Describe) -> None:
        self.state = ExchangeState.START
        # Set in READY.
        self.user = ""
        self.mechanism = ""
        self.lifetime_ms = 0
        self.uses_token = False
        # Time of the last authentication, set by the owner.
        self.authenticated_at_s = 0.0
        self._offered = offered
        self._describe = describe
        self._frame_count = 0
        self._server: SaslServer | None = None
        self._chosen = ""

    def receive(self, frame: bytes) -> Step:
        """Return the step after a frame of a connection that is not authenticated."""
        self._frame_count += 1
        if self._frame_count > MAX_FRAMES:
            return self._close(f"not authenticated after {MAX_FRAMES} frames")
        if self.state is _S.RAW_TOKEN:
            return self._receive_raw(frame)
        try:
            header, start = decode_request_header(frame)
            answer, header = self._answer(header, memoryview(frame)[start:])
        except DecodeError as error:
            return self._close(str(error))
        output = b""
        if answer.message is not None:
            output = encode_response(
                header.api_key, header.api_version, header.correlation_id, answer.message
            )
        if answer.failure:
            self.state = ExchangeState.CLOSED
        return Step(output=output, failure=answer.failure)

    def choose(self, mechanism: str, version: int) -> Answer:
        """Answer a SaslHandshake in a state that allows it."""
        names = list(self._offered)
        offered = self._offered.get(mechanism)
        if offered is None:
            self._server, self.state = None, ExchangeState.CLOSED
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return Answer(
                message=SaslHandshakeResponse(error_code=code, mechanisms=names),
                failure=f"the mechanism {mechanism[:32]!r} is not offered",
            )
        self._chosen = mechanism
        self._server = offered.begin()
        if self.state is not _S.READY:
            is_framed = version >= FIRST_FRAMED_VERSION
            self.state = ExchangeState.TOKEN if is_framed else ExchangeState.RAW_TOKEN
        return Answer(message=SaslHandshakeResponse(mechanisms=names))

    def may_renew(self, now_s: float) -> bool:
        """Whether the client may begin to authenticate again.

        It may not without a lifetime, nor after a failure: each guess takes a new connection.
        """
        is_new = now_s - self.authenticated_at_s < MIN_RENEWAL_INTERVAL_S
        return self.state is _S.READY and self.lifetime_ms > 0 and not is_new

    def refuse_choice(self) -> SaslHandshakeResponse:
        """Return the answer to a SaslHandshake in a state that does not allow it."""
        return SaslHandshakeResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=list(self._offered)
        )

    def authenticate(self, token: bytes) -> Answer:
        """Answer a SaslAuthenticate, after a mechanism was chosen."""
        try:
            answer = self._check(token)
        except SaslError as error:
            self._server, self.state = None, ExchangeState.CLOSED
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                error_message=self._text_of(error),
            )
            return Answer(message=response, failure=f"{self._chosen}: {error}")
        lifetime_ms = 0 if self.is_pending else self.lifetime_ms
        return Answer(
            message=SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)
        )

    @property
    def is_pending(self) -> bool:
        """Whether a mechanism is chosen and its exchange is not complete."""
        return self._server is not None

    def _answer(self, header: RequestHeader, body: memoryview) -> tuple[Answer, RequestHeader]:
        key, version = header.api_key, header.api_version
        if key in LEGAL[_S.READY]:
            _check_version(header)
        if key not in LEGAL[self.state]:
            message = self.refuse_choice() if key == ApiKey.SASL_HANDSHAKE else None
            return Answer(message=message, failure=f"{key.name} before authentication"), header
        if key == ApiKey.API_VERSIONS:
            header, response = self._describe(header, body)
            if not isinstance(response, ApiVersionsResponse):
                raise DecodeError("ApiVersions cannot be decoded")
            if response.error_code == ErrorCode.NONE:
                self.state = ExchangeState.HANDSHAKE
            return Answer(message=response), header
        if key == ApiKey.SASL_HANDSHAKE:
            chosen = decode(SaslHandshakeRequest, body, version).mechanism
            return self.choose(chosen, version), header
        return self.authenticate(decode(SaslAuthenticateRequest, body, version).auth_bytes), header

    def _receive_raw(self, token: bytes) -> Step:
        """Return the step after a token without a header; a failure has no answer."""
        try:
            answer = self._check(token)
        except SaslError as error:
            return self._close(f"{self._chosen}: {error}")
        return Step(output=len(answer).to_bytes(SIZE_BYTES, "big") + answer)

    def _check(self, token: bytes) -> bytes:
        """Hand a token to the mechanism, and adopt the user once that is complete."""
        server = self._server
        assert server is not None, "a mechanism is chosen first"
        if self.user and self._chosen != self.mechanism:
            raise SaslError("the mechanism may not change")
        answer = server.answer(token)
        if server.user is not None:
            if self.user not in ("", server.user):
                raise SaslError(OTHER_USER, OTHER_USER)
            self.user, self.mechanism = server.user, self._chosen
            self.uses_token = server.uses_token
            self.lifetime_ms = _lifetime_ms(
                self._offered[self._chosen].max_reauth_ms, server.lifetime_ms
            )
            self.state = ExchangeState.READY
            self._server = None
        return answer

    def _text_of(self, error: SaslError) -> str:
        """Return the text for the client, which is that of Kafka."""
        if error.shown:
            return error.shown
        if self._chosen == "PLAIN":
            return WRONG_PASSWORD
        return (
            "Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {self._chosen}"
        )

    def _close(self, reason: str) -> Step:
        self.state = ExchangeState.CLOSED
        return Step(failure=reason)


def _lifetime_ms(max_reauth_ms: int, credential_ms: int | None) -> int:
    """Return the lifetime of a session, 0 without a limit: it ends with the user's credential."""
    if credential_ms is None:
        return max_reauth_ms
    return min(credential_ms, max_reauth_ms) if max_reauth_ms > 0 else credential_ms


def _check_version(header: RequestHeader) -> None:
    low, high = APIS[header.api_key].decodable
    if not low <= header.api_version <= high:
        raise DecodeError(f"{header.api_key.name} version {header.api_version} is not served")

"""SaslHandshake and SaslAuthenticate of an authenticated connection (edge).

They renew a session that has a lifetime (KIP-368). Requests in flight are served meanwhile. Without
a lifetime both are refused, and the connection stays open.
"""

from __future__ import annotations

import asyncio
from typing import Final

from broker.handlers.handler_table import Apis, Parts
from broker.network.reply import Reply
from broker.network.request import Connection, Request
from broker.network.sasl_gate import expiry_of
from broker.security.sasl_exchange import Answer, SaslExchange
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

UNEXPECTED: Final = "SaslAuthenticate request received after successful authentication"

APIS: Final[Apis] = {
    ApiKey.SASL_HANDSHAKE: lambda parts: _handler(parts).choose,
    ApiKey.SASL_AUTHENTICATE: lambda parts: _handler(parts).authenticate,
}


class RenewalHandler:
    """Renews the sessions of all connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, failure_delay_s: float) -> None:
        self._loop = loop
        self._failure_delay_s = failure_delay_s

    def choose(self, request: Request, message: SaslHandshakeRequest) -> Reply:
        """Begin the renewal, unless the session has no lifetime or is new."""
        session = request.connection.session
        if session is None:
            return Reply(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        if not session.may_renew(self._loop.time()):
            return Reply(session.refuse_choice())
        answer = session.choose(message.mechanism, request.header.api_version)
        return self._reply(request.connection, session, answer)

    def authenticate(self, request: Request, message: SaslAuthenticateRequest) -> Reply:
        """Continue the renewal."""
        session = request.connection.session
        if session is None or not session.is_pending:
            return Reply(
                SaslAuthenticateResponse(
                    error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=UNEXPECTED
                )
            )
        answer = session.authenticate(message.auth_bytes)
        return self._reply(request.connection, session, answer)

    def _reply(self, connection: Connection, session: SaslExchange, answer: Answer) -> Reply:
        if not answer.failure:
            if not session.is_pending:
                now_s = session.authenticated_at_s = self._loop.time()
                connection.renew(expiry_of(session.lifetime_ms, now_s))
            return Reply(answer.message)
        reply = Reply()
        connection.hold()

        def fail() -> None:
            if not reply.cancelled:
                reply.complete(answer.message)
                connection.refuse_input(f"authentication failed: {answer.failure}")

        self._loop.call_later(self._failure_delay_s, fail)
        return reply


def _handler(parts: Parts) -> RenewalHandler:
    delay_ms = parts.config.network.connection_failed_authentication_delay_ms
    return RenewalHandler(parts.loop, delay_ms / 1000)

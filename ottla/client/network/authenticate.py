"""Authenticates a new connection by SASL (edge)."""

import asyncio
import random
from typing import Final

from kafkawire.errors import ErrorCode
from kafkawire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafkawire.scram import ScramError
from ottla.client.client_config import Sasl
from ottla.client.errors import AuthenticationFailedError, broker_error
from ottla.client.network.broker_connection import Connection

MAX_EXCHANGES: Final = 8
"""Limit of messages that a broker may ask for; SCRAM needs 2."""
RENEWAL_SHARE: Final = (0.85, 0.95)
"""Share of a session's lifetime after which it is renewed; random, as the Java client's."""


async def authenticate(connection: Connection, sasl: Sasl) -> None:
    """Authenticate with the mechanism of `sasl`; the versions must be negotiated already.

    Sets the time after which the connection is to be replaced, if the broker limits the session.

    Raises:
        AuthenticationFailedError: the broker does not offer the mechanism or refuses the
            credentials, or cannot prove that it knows them.
        OttlaError: the connection failed.
    """
    where = connection.address
    handshake = await connection.request(
        SaslHandshakeRequest(mechanism=sasl.mechanism), SaslHandshakeResponse
    )
    if handshake.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(map(str, handshake.mechanisms)) or "none"
        raise AuthenticationFailedError(
            f"{where} does not offer the mechanism {sasl.mechanism}, but: {offered}"
        )
    if handshake.error_code != ErrorCode.NONE:
        raise broker_error(handshake.error_code, f"SaslHandshake at {where}")
    client = await sasl.begin()
    token: bytes | None = client.first()
    for _ in range(MAX_EXCHANGES):
        if token is None:
            return
        response = await connection.request(
            SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse
        )
        if response.error_code != ErrorCode.NONE:
            reason = response.error_message or f"error code {response.error_code}"
            raise AuthenticationFailedError(
                f"{where} refused the {sasl.mechanism} credentials: {reason}"
            )
        try:
            # In a thread, because a server may demand a costly hash.
            token = await asyncio.to_thread(client.answer, bytes(response.auth_bytes))
        except ScramError as error:
            raise AuthenticationFailedError(
                f"{where} cannot be trusted with {sasl.mechanism}: {error}"
            ) from None
        if token is None and response.session_lifetime_ms > 0:
            lifetime_s = response.session_lifetime_ms / 1000
            connection.expire_after(lifetime_s * random.uniform(*RENEWAL_SHARE))
    if token is not None:
        raise AuthenticationFailedError(
            f"{where} asked for more than {MAX_EXCHANGES} messages of {sasl.mechanism}"
        )

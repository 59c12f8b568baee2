"""Declares SaslHandshake and SaslAuthenticate (decision)."""

from collections.abc import Sequence

from kafkawire.schema import BYTES, INT16, INT64, STRING, array, field, message


@message(versions=(0, 1))
class SaslHandshakeRequest:
    """Request for a mechanism; from version 1 on, its messages travel in SaslAuthenticate."""

    mechanism: str = field(STRING)


@message(versions=(0, 1))
class SaslHandshakeResponse:
    """The mechanisms of the listener, also if the requested one is not among them."""

    error_code: int = field(INT16)
    mechanisms: Sequence[str] = field(array(STRING))


@message(versions=(0, 2), flexible=2)
class SaslAuthenticateRequest:
    """One message of the mechanism."""

    auth_bytes: bytes = field(BYTES)


@message(versions=(0, 2), flexible=2)
class SaslAuthenticateResponse:
    """The answer of the mechanism, and the time until the session ends; 0 if it does not."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    auth_bytes: bytes = field(BYTES)
    session_lifetime_ms: int = field(INT64, since=1, ignorable=True)

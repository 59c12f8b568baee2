"""The reason why a coordinator does not serve a client, as part of a sentence (decision)."""

from typing import Final

from coordination.errors import ErrorCode, OperationError

LOGIN_DEMANDED: Final = (
    "it demands a login: name a file with one, such as coordinator-login.conf of `ottla up`, by "
    "coordinator_login, or for commands by OTTLA_COORDINATOR_LOGIN"
)


def reason_of(error: OperationError, failure: str | None) -> str:
    """Return the reason of an error; `failure` is that of the last attempt to connect."""
    if error.code is ErrorCode.SESSION_CLOSED_REQUIRE_SASL:
        return LOGIN_DEMANDED
    return failure or str(error)

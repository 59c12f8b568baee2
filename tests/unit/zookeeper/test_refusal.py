"""Why a coordinator does not serve a client: `ottla.zookeeper.refusal`."""

import pytest

from coordination.errors import ErrorCode, OperationError
from ottla.zookeeper.refusal import LOGIN_DEMANDED, reason_of


@pytest.mark.parametrize(
    ("code", "failure", "reason"),
    [
        (ErrorCode.SESSION_CLOSED_REQUIRE_SASL, "h:1: connection refused", LOGIN_DEMANDED),
        (ErrorCode.CONNECTION_LOSS, "h:1: connection refused", "h:1: connection refused"),
        (ErrorCode.NO_AUTH, None, "no_auth /brokers"),
    ],
)
def test_the_remedy_precedes_the_last_failure_and_that_the_code(
    code: ErrorCode, failure: str | None, reason: str
) -> None:
    assert reason_of(OperationError.of(code, "/brokers"), failure) == reason

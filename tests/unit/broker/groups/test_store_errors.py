"""Errors for clients whose group could not be stored: `broker.groups.store_errors`."""

import pytest

from broker.groups.store_errors import commit_error, rebalance_error
from kafkawire.errors import ErrorCode


@pytest.mark.parametrize(
    ("error", "to_committer", "to_member"),
    [
        (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE),
        (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ),
        (
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.NOT_COORDINATOR,
        ),
        (
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.REBALANCE_IN_PROGRESS,
        ),
        (
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
    ],
)
def test_log_error_is_translated_for_committers_and_members(
    error: ErrorCode, to_committer: ErrorCode, to_member: ErrorCode
) -> None:
    assert (commit_error(error), rebalance_error(error)) == (to_committer, to_member)

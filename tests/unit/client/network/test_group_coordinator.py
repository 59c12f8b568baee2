"""The verdict of a group's client on each error."""

import pytest

from kafkawire.errors import ErrorCode
from ottla.client.errors import (
    ConnectionLostError,
    OttlaError,
    ProtocolError,
    RequestTimedOutError,
    broker_error,
)
from ottla.client.network.group_coordinator import Verdict, judge


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Verdict.RETRY),
        (ErrorCode.UNSTABLE_OFFSET_COMMIT, Verdict.RETRY),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Verdict.RETRY),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Verdict.FIND),
        (ErrorCode.NOT_COORDINATOR, Verdict.FIND),
        (ErrorCode.MEMBER_ID_REQUIRED, Verdict.REJOIN),
        (ErrorCode.REBALANCE_IN_PROGRESS, Verdict.REJOIN),
        (ErrorCode.UNKNOWN_MEMBER_ID, Verdict.LOST),
        (ErrorCode.ILLEGAL_GENERATION, Verdict.LOST),
        (ErrorCode.FENCED_INSTANCE_ID, Verdict.FATAL),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, Verdict.FATAL),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, Verdict.FATAL),
        (ConnectionLostError("lost"), Verdict.FIND),
        (RequestTimedOutError("late"), Verdict.FIND),
        (ProtocolError("garbage"), Verdict.FATAL),
    ],
    ids=str,
)
def test_the_verdict_on_each_error(error: ErrorCode | OttlaError, verdict: Verdict) -> None:
    judged = broker_error(error, "group g") if isinstance(error, ErrorCode) else error
    assert judge(judged) is verdict

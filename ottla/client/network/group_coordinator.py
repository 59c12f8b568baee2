"""The coordinator of a group, and a member's next step after an error (edge)."""

import enum
from typing import Final

from kafkawire.errors import ErrorCode
from ottla.client.argument import require_text
from ottla.client.errors import BrokerError, OttlaError
from ottla.client.network.cluster import Cluster
from ottla.client.network.coordinator import Coordinator, KeyType, is_elsewhere


def group_coordinator(cluster: Cluster, group_id: str) -> Coordinator:
    """Return the coordinator of a group.

    Raises:
        ConfigurationError: the id is not a string.
    """
    require_text("a group's id", group_id)
    return Coordinator(cluster, KeyType.GROUP, group_id)


class Verdict(enum.Enum):
    """The next step after an error."""

    RETRY = "back off, then retry"
    FIND = "look up the coordinator, then retry"
    REJOIN = "join again: the group is rebalancing"
    LOST = "join as a new member: the group has removed this one"
    FATAL = "raise the error in each read until a later attempt succeeds"


_VERDICTS: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: Verdict.RETRY,
    ErrorCode.MEMBER_ID_REQUIRED: Verdict.REJOIN,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.FIND,
    ErrorCode.NOT_COORDINATOR: Verdict.FIND,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.LOST,
    ErrorCode.ILLEGAL_GENERATION: Verdict.LOST,
}


def judge(error: OttlaError) -> Verdict:
    """Return the next step of a member after `error`."""
    if not isinstance(error, BrokerError):
        return Verdict.FIND if is_elsewhere(error) else Verdict.FATAL
    verdict = _VERDICTS.get(error.code)
    if verdict is not None:
        return verdict
    return Verdict.RETRY if error.retriable else Verdict.FATAL

"""The states of a consumer group, and the response to each request by state (decision).

Source: GroupMetadata of Kafka 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import StrEnum
from typing import Final

from kafkawire.errors import ErrorCode


class GroupState(StrEnum):
    """State of a group; responses contain these values.

    A string, because the hash of a plain enum member runs Python code for each lookup in a table.
    """

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY, PREPARING, COMPLETING, STABLE, DEAD = GroupState

PREDECESSORS: Final[Mapping[GroupState, Set[GroupState]]] = {
    EMPTY: {PREPARING},
    PREPARING: {EMPTY, COMPLETING, STABLE},
    COMPLETING: {PREPARING},
    STABLE: {COMPLETING},
    DEAD: {EMPTY, PREPARING, COMPLETING, STABLE, DEAD},
}

# Response to a member with a valid id and generation; NONE where the request is accepted.
ON_JOIN: Final = {
    EMPTY: ErrorCode.UNKNOWN_MEMBER_ID,
    PREPARING: ErrorCode.NONE,
    COMPLETING: ErrorCode.NONE,
    STABLE: ErrorCode.NONE,
    DEAD: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
ON_SYNC: Final = ON_JOIN | {PREPARING: ErrorCode.REBALANCE_IN_PROGRESS}
ON_HEARTBEAT: Final = ON_JOIN | {PREPARING: ErrorCode.REBALANCE_IN_PROGRESS}
ON_LEAVE: Final = ON_JOIN
# In PREPARING the members still own their partitions. In COMPLETING they know of a generation that
# may assign these to others.
ON_COMMIT: Final = ON_JOIN | {
    EMPTY: ErrorCode.NONE,
    COMPLETING: ErrorCode.REBALANCE_IN_PROGRESS,
}
ON_DELETE: Final = {
    EMPTY: ErrorCode.NONE,
    PREPARING: ErrorCode.NON_EMPTY_GROUP,
    COMPLETING: ErrorCode.NON_EMPTY_GROUP,
    STABLE: ErrorCode.NON_EMPTY_GROUP,
    DEAD: ErrorCode.GROUP_ID_NOT_FOUND,
}


class InvalidTransitionError(Exception):
    """A transition that the table forbids: a bug."""

"""States of a partition, and the allowed transitions (decision).

Source: kafka.controller.PartitionStateMachine of Kafka 3.9.
"""

from collections.abc import Mapping, Set
from enum import Enum
from typing import Final

from controller.errors import InvalidTransition


class PartitionState(Enum):
    """State of a partition: NEW has no leader yet, ONLINE has one, OFFLINE has lost it."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"

    def __str__(self) -> str:
        """Return the name for messages."""
        return self.value


_P = PartitionState
PREDECESSORS: Final[Mapping[PartitionState, Set[PartitionState]]] = {
    _P.NEW: {_P.NON_EXISTENT},
    _P.ONLINE: {_P.NEW, _P.ONLINE, _P.OFFLINE},
    _P.OFFLINE: {_P.NEW, _P.ONLINE, _P.OFFLINE},
    _P.NON_EXISTENT: {_P.OFFLINE},
}


def check_move(source: PartitionState, target: PartitionState) -> None:
    """Check that the table allows a move.

    Raises:
        InvalidTransition: it does not.
    """
    if source not in PREDECESSORS[target]:
        raise InvalidTransition(f"partition {source} -> {target}")

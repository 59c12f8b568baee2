"""States of one replica of a partition, and the allowed transitions (decision).

Source: kafka.controller.ReplicaStateMachine of Kafka 3.9.
"""

from collections.abc import Mapping, Set
from enum import Enum
from typing import Final, NamedTuple

from controller.errors import InvalidTransition
from kafkawire.ids import BrokerId, TopicPartition


class PartitionReplica(NamedTuple):
    """One replica: a partition on a broker."""

    partition: TopicPartition
    broker: BrokerId


class ReplicaState(Enum):
    """State of a replica: NEW, ONLINE or OFFLINE, or a stage of its deletion."""

    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETION_SUCCESSFUL = "deletion successful"
    DELETION_INELIGIBLE = "deletion ineligible"
    NON_EXISTENT = "non-existent"

    def __str__(self) -> str:
        """Return the name for messages."""
        return self.value


_R = ReplicaState
PREDECESSORS: Final[Mapping[ReplicaState, Set[ReplicaState]]] = {
    _R.NEW: {_R.NON_EXISTENT},
    _R.ONLINE: {_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE},
    _R.OFFLINE: {_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE},
    _R.DELETION_STARTED: {_R.OFFLINE},
    _R.DELETION_SUCCESSFUL: {_R.DELETION_STARTED},
    _R.DELETION_INELIGIBLE: {_R.OFFLINE, _R.DELETION_STARTED},
    _R.NON_EXISTENT: {_R.DELETION_SUCCESSFUL},
}


def check_move(source: ReplicaState, target: ReplicaState) -> None:
    """Check that the table allows a move.

    Raises:
        InvalidTransition: it does not.
    """
    if source not in PREDECESSORS[target]:
        raise InvalidTransition(f"replica {source} -> {target}")

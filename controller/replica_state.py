"""What can become of one replica of a partition (decision): the states, and who may follow whom.

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
    """NEW, ONLINE and OFFLINE live; the others lead to the end of a replica."""

    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETION_SUCCESSFUL = "deletion successful"
    DELETION_INELIGIBLE = "deletion ineligible"
    NON_EXISTENT = "non-existent"

    def __str__(self) -> str:
        """Return the word for messages."""
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
    """Pass a move that the table allows.

    Raises:
        InvalidTransition: any other.
    """
    if source not in PREDECESSORS[target]:
        raise InvalidTransition(f"replica {source} -> {target}")

"""States of a controller, with Kafka's numbers (decision).

Source: kafka.controller.ControllerState of Kafka 3.9.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from controller import events as e


class ControllerState(IntEnum):
    """Kafka's number for the kind of event being processed."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    CONTROLLER_SHUTDOWN = 12
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15


_S = ControllerState
_STATES: Final[Mapping[type[e.Event], ControllerState]] = {
    e.Reelect: _S.CONTROLLER_CHANGE,
    e.ElectionDue: _S.CONTROLLER_CHANGE,
    e.ControllerChange: _S.CONTROLLER_CHANGE,
    e.Expire: _S.CONTROLLER_CHANGE,
    e.RereadDue: _S.CONTROLLER_CHANGE,
    e.BrokerChange: _S.BROKER_CHANGE,
    e.BrokerModification: _S.BROKER_CHANGE,
    e.TopicChange: _S.TOPIC_CHANGE,
    e.PartitionModification: _S.TOPIC_CHANGE,
    e.TopicDeletion: _S.TOPIC_DELETION,
    e.StopReplicaResponseReceived: _S.TOPIC_DELETION,
    e.ReassignmentNode: _S.ALTER_PARTITION_REASSIGNMENT,
    e.ReassignmentRequested: _S.ALTER_PARTITION_REASSIGNMENT,
    e.RebalanceDue: _S.AUTO_LEADER_BALANCE,
    e.PreferredElectionNode: _S.MANUAL_LEADER_BALANCE,
    e.ElectLeadersRequested: _S.MANUAL_LEADER_BALANCE,
    e.ControlledShutdownRequested: _S.CONTROLLED_SHUTDOWN,
    e.IsrChange: _S.ISR_CHANGE,
    e.AlterPartitionRequested: _S.ISR_CHANGE,
    e.LeaderAndIsrResponseReceived: _S.LEADER_AND_ISR_RESPONSE_RECEIVED,
    e.LogDirEvent: _S.LOG_DIR_CHANGE,
    e.ReassignmentsListed: _S.LIST_PARTITION_REASSIGNMENT,
}


def state_during(event: e.Event) -> ControllerState:
    """Return the state while `event` is processed; IDLE if Kafka has no state for it."""
    if isinstance(event, e.UncleanElectionEnabled):
        is_default = event.topic is None
        return (
            _S.UNCLEAN_LEADER_ELECTION_ENABLE
            if is_default
            else _S.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
        )
    return _STATES.get(type(event), _S.IDLE)

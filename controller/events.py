"""Events of the controller (decision).

A change event only says that znodes may have changed. Its plan reads them when it runs, so an event
that was pending for long still acts on the current state. An event with a result is a request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from clusterstate.znodes import paths
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.alter_partition import AlterPartitionRequest
from kafkawire.messages.leader_and_isr import LeaderAndIsrResponse
from kafkawire.messages.stop_replica import StopReplicaResponse


@dataclass(frozen=True, slots=True)
class Reelect:
    """There may be no controller: read `/controller`, and run for election if it is missing."""


@dataclass(frozen=True, slots=True)
class ElectionDue:
    """The back-off after an election that could not be completed has passed."""


@dataclass(frozen=True, slots=True)
class ControllerChange:
    """`/controller` changed: read it, and resign if it names another broker."""


@dataclass(frozen=True, slots=True)
class Expire:
    """Our session expired: resign if we are controller."""


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """Brokers registered or left."""


@dataclass(frozen=True, slots=True)
class BrokerModification:
    """A broker changed its registered endpoints."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class TopicChange:
    """Topics were created or deleted."""


@dataclass(frozen=True, slots=True)
class PartitionModification:
    """A topic's assignment changed; partitions may have been added."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """Deletion of a topic was requested."""


@dataclass(frozen=True, slots=True)
class ReassignmentNode:
    """A tool may have requested a reassignment through the znode."""


@dataclass(frozen=True, slots=True)
class PreferredElectionNode:
    """A tool may have requested preferred leader elections through the znode."""


@dataclass(frozen=True, slots=True)
class IsrChange:
    """Leaders wrote in-sync sets to the znodes themselves."""


@dataclass(frozen=True, slots=True)
class LogDirEvent:
    """Log directories of brokers failed."""


@dataclass(frozen=True, slots=True)
class RereadDue:
    """The interval for reading watched znodes again, whose watches may be lost, has passed."""


@dataclass(frozen=True, slots=True)
class RebalanceDue:
    """The interval for checking the balance of preferred leaders has passed."""


@dataclass(frozen=True, slots=True)
class UncleanElectionEnabled:
    """Unclean elections became allowed: for `topic`, or by default if it is None."""

    topic: str | None = None


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResponseReceived:
    """A broker responded to LeaderAndIsr."""

    broker_id: BrokerId
    broker_epoch: int
    response: LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class StopReplicaResponseReceived:
    """A broker responded to a StopReplica request that deletes `deleted`."""

    broker_id: BrokerId
    broker_epoch: int
    response: StopReplicaResponse
    deleted: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class AlterPartitionRequested:
    """A leader proposes in-sync sets; the result is an AlterPartitionResponse."""

    request: AlterPartitionRequest
    version: int


@dataclass(frozen=True, slots=True)
class ControlledShutdownRequested:
    """A broker starts a controlled shutdown; the result is a ControlledShutdownResponse."""

    broker_id: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ElectLeadersRequested:
    """A client requests elections; the result maps each partition to an error code.

    `partitions` None means all partitions.
    """

    partitions: Sequence[TopicPartition] | None
    is_unclean: bool = False


@dataclass(frozen=True, slots=True)
class ReassignmentRequested:
    """A client requests reassignments; the result maps each partition to a MoveResult.

    A target of None cancels the reassignment in progress.
    """

    targets: Mapping[TopicPartition, Sequence[BrokerId] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReassignmentsListed:
    """A client lists the reassignments in progress.

    The result maps each partition to its ReplicaAssignment; `partitions` None means all.
    """

    partitions: Sequence[TopicPartition] | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdsRequested:
    """A broker requests producer ids; the result is a ProducerIdBlock or an error code."""

    broker_id: BrokerId
    broker_epoch: int


Event: TypeAlias = (
    Reelect
    | ElectionDue
    | ControllerChange
    | Expire
    | BrokerChange
    | BrokerModification
    | TopicChange
    | PartitionModification
    | TopicDeletion
    | ReassignmentNode
    | PreferredElectionNode
    | IsrChange
    | LogDirEvent
    | RereadDue
    | RebalanceDue
    | UncleanElectionEnabled
    | LeaderAndIsrResponseReceived
    | StopReplicaResponseReceived
    | AlterPartitionRequested
    | ControlledShutdownRequested
    | ElectLeadersRequested
    | ReassignmentRequested
    | ReassignmentsListed
    | ProducerIdsRequested
)

_CHILDREN: Mapping[str, Event] = {
    paths.BROKER_IDS: BrokerChange(),
    paths.TOPICS: TopicChange(),
    paths.DELETE_TOPICS: TopicDeletion(),
    paths.ISR_CHANGES: IsrChange(),
    paths.LOG_DIR_EVENTS: LogDirEvent(),
}
CHANGES: Final[Sequence[Event]] = (
    *_CHILDREN.values(),
    ReassignmentNode(),
    PreferredElectionNode(),
)
"""The events of all znodes that a controller watches, apart from topics and brokers."""


def event_of_children(path: str) -> Event | None:
    """Return the event for a change of the children of `path`; None if there is none."""
    return _CHILDREN.get(path)


def event_of_node(path: str, *, is_deleted: bool) -> Event | None:
    """Return the event for a created, changed or deleted znode; None if there is none."""
    if path == paths.CONTROLLER:
        return Reelect() if is_deleted else ControllerChange()
    # The deletion of a request is an event, too: the next read sets a watch for the next request.
    if path == paths.REASSIGN_PARTITIONS:
        return ReassignmentNode()
    if path == paths.PREFERRED_ELECTION:
        return PreferredElectionNode()
    if is_deleted:
        return None
    parent, _, name = path.rpartition("/")
    if parent == paths.BROKER_IDS:
        return BrokerModification(BrokerId(int(name)))
    if parent == paths.TOPICS:
        return PartitionModification(name)
    return None

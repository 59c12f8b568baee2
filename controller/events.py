"""What the controller reacts to (decision).

An event says that something may have changed, not what: the plan reads the nodes when it runs, so
that one that waited long acts on the present. Events with a result answer a request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from controller.znodes import paths
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.alter_partition import AlterPartitionRequest
from kafkawire.messages.leader_and_isr import LeaderAndIsrResponse
from kafkawire.messages.stop_replica import StopReplicaResponse


@dataclass(frozen=True, slots=True)
class Reelect:
    """Nobody may be controller: look, and stand for election."""


@dataclass(frozen=True, slots=True)
class ControllerChange:
    """Somebody became controller: look who, and resign if it is another."""


@dataclass(frozen=True, slots=True)
class Expire:
    """Our session is over: whatever we were, we are not any more."""


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """Brokers came or went."""


@dataclass(frozen=True, slots=True)
class BrokerModification:
    """A broker registered other endpoints."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class TopicChange:
    """Topics came or went."""


@dataclass(frozen=True, slots=True)
class PartitionModification:
    """A topic's assignment was rewritten: partitions may have been added."""

    topic: str


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """A topic's deletion was asked for."""


@dataclass(frozen=True, slots=True)
class ReassignmentNode:
    """A tool may have asked for a reassignment."""


@dataclass(frozen=True, slots=True)
class PreferredElectionNode:
    """A tool may have asked for preferred elections."""


@dataclass(frozen=True, slots=True)
class IsrChange:
    """Leaders changed in-sync sets by themselves."""


@dataclass(frozen=True, slots=True)
class LogDirEvent:
    """Log directories of brokers failed."""


@dataclass(frozen=True, slots=True)
class RebalanceDue:
    """It is time to look whether leaders are where they should be."""


@dataclass(frozen=True, slots=True)
class UncleanElectionEnabled:
    """Unclean elections are allowed from now on: of a topic, or (None) by default."""

    topic: str | None = None


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered:
    """A broker answered LeaderAndIsr."""

    broker_id: BrokerId
    broker_epoch: int
    response: LeaderAndIsrResponse


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered:
    """A broker answered a StopReplica that deletes `deleted`."""

    broker_id: BrokerId
    broker_epoch: int
    response: StopReplicaResponse
    deleted: Sequence[TopicPartition]


@dataclass(frozen=True, slots=True)
class AlterPartitionAsked:
    """A leader asks for other in-sync sets; the result is its AlterPartitionResponse."""

    request: AlterPartitionRequest
    version: int


@dataclass(frozen=True, slots=True)
class ControlledShutdownAsked:
    """A broker wants to stop; the result is a ControlledShutdownResponse."""

    broker_id: BrokerId
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class ElectLeadersAsked:
    """A client asks for elections (`partitions` None: everywhere); the result maps to codes."""

    partitions: Sequence[TopicPartition] | None
    is_unclean: bool = False


@dataclass(frozen=True, slots=True)
class ReassignmentAsked:
    """A client asks for moves, or (None) takes them back; the result maps to codes."""

    targets: Mapping[TopicPartition, Sequence[BrokerId] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReassignmentsListed:
    """A client asks for the moves under way; the result maps to ReplicaAssignment."""

    partitions: Sequence[TopicPartition] | None = None


@dataclass(frozen=True, slots=True)
class ProducerIdsAsked:
    """A broker asks for producer ids; the result is a ProducerIdBlock or a code."""

    broker_id: BrokerId
    broker_epoch: int


Event: TypeAlias = (
    Reelect
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
    | RebalanceDue
    | UncleanElectionEnabled
    | LeaderAndIsrAnswered
    | StopReplicaAnswered
    | AlterPartitionAsked
    | ControlledShutdownAsked
    | ElectLeadersAsked
    | ReassignmentAsked
    | ReassignmentsListed
    | ProducerIdsAsked
)

_CHILDREN: Mapping[str, Event] = {
    paths.BROKER_IDS: BrokerChange(),
    paths.TOPICS: TopicChange(),
    paths.DELETE_TOPICS: TopicDeletion(),
    paths.ISR_CHANGES: IsrChange(),
    paths.LOG_DIR_EVENTS: LogDirEvent(),
}


def event_of_children(path: str) -> Event | None:
    """Return what a changed list of children means."""
    return _CHILDREN.get(path)


def event_of_node(path: str, *, is_deleted: bool) -> Event | None:
    """Return what it means that a node was created, changed or deleted."""
    if path == paths.CONTROLLER:
        return Reelect() if is_deleted else ControllerChange()
    if is_deleted:
        return None
    if path == paths.REASSIGN_PARTITIONS:
        return ReassignmentNode()
    if path == paths.PREFERRED_ELECTION:
        return PreferredElectionNode()
    parent, _, name = path.rpartition("/")
    if parent == paths.BROKER_IDS:
        return BrokerModification(BrokerId(int(name)))
    if parent == paths.TOPICS:
        return PartitionModification(name)
    return None

"""The controller's image of the cluster (decision).

Owned by the controller alone, and valid in one controller epoch. The image is a copy and the znodes
are the truth: a write based on an outdated image fails on the znode's version.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from clusterstate.leader_and_isr import LeaderAndIsr
from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes.registration import Registration
from controller.controller_config import ControllerConfig
from controller.errors import InvalidTransition
from controller.partition_state import PartitionState
from controller.partition_state import check_move as check_partition_move
from controller.replica_state import PartitionReplica, ReplicaState
from controller.replica_state import check_move as check_replica_move
from kafkawire.ids import BrokerId, TopicId, TopicPartition

NO_ASSIGNMENT: Final = ReplicaAssignment(replicas=())


class LiveBroker(NamedTuple):
    """One incarnation of a broker; `epoch` is the czxid of its registration."""

    registration: Registration
    epoch: int

    @property
    def first_epoch(self) -> int:
        """Epoch of the first registration of this process."""
        first = self.registration.first_epoch
        return self.epoch if first is None else first


@dataclass(slots=True)
class Deletions:
    """Topics being deleted; `started` and `halted` are subsets of `queued`."""

    queued: set[str]
    started: set[str]
    halted: set[str]


FIRST_REPAIR_REASON: Final = "a controller took over"


class Cluster:
    """Image of brokers, topics, partitions and replicas in one controller epoch."""

    def __init__(self, config: ControllerConfig, *, epoch: int, epoch_version: int) -> None:
        self.config = config
        self.epoch = epoch
        self.epoch_version = epoch_version
        self.brokers: dict[BrokerId, LiveBroker] = {}
        self.shutting_down: set[BrokerId] = set()
        self.topic_ids: dict[str, TopicId] = {}
        self.unread_topics: set[str] = set()
        """Topics whose znodes exist but cannot be decoded; their replicas are unknown."""
        self.topic_versions: dict[str, int] = {}
        """Versions of the znodes of topics when they were last read and watched."""
        self.leaderships: dict[TopicPartition, LeaderAndIsr] = {}
        self.moving: set[TopicPartition] = set()
        self.unclean_election_count = 0
        self.repair_reason = FIRST_REPAIR_REASON
        """Why partitions are being repaired, for the log."""
        self.offline_dirs: dict[BrokerId, set[TopicPartition]] = {}
        self.deletions = Deletions(set(), set(), set())
        self._topic_names: dict[TopicId, str] = {}
        self._assignments: dict[TopicPartition, ReplicaAssignment] = {}
        self._by_topic: dict[str, set[TopicPartition]] = {}
        self._by_broker: dict[BrokerId, set[TopicPartition]] = {}
        self._partition_states: dict[TopicPartition, PartitionState] = {}
        self._replica_states: dict[PartitionReplica, ReplicaState] = {}

    # Brokers

    @property
    def live(self) -> Collection[BrokerId]:
        """Brokers that may lead: registered and not shutting down."""
        return self.brokers.keys() - self.shutting_down if self.shutting_down else self.brokers

    def is_online(
        self, broker: BrokerId, partition: TopicPartition, *, include_shutting_down: bool = False
    ) -> bool:
        """Whether a replica can serve: its broker is alive and its log directory works."""
        brokers = self.brokers if include_shutting_down else self.live
        return broker in brokers and partition not in self.offline_dirs.get(broker, ())

    def online(
        self, partition: TopicPartition, *, include_shutting_down: bool = False
    ) -> frozenset[BrokerId]:
        """Return the replicas of a partition that can serve."""
        brokers = self.brokers if include_shutting_down else self.live
        return frozenset(
            [
                replica
                for replica in self.assignment(partition).replicas
                if replica in brokers and partition not in self.offline_dirs.get(replica, ())
            ]
        )

    def stopping(self, partition: TopicPartition) -> frozenset[BrokerId]:
        """Return the replicas of a partition that still serve, but are shutting down."""
        if not self.shutting_down:
            return frozenset()
        return self.online(partition, include_shutting_down=True) & self.shutting_down

    # Topics and assignments

    @property
    def topics(self) -> Collection[str]:
        """Names of all topics."""
        return self._by_topic.keys()

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        """All partitions that have an assignment."""
        return self._assignments.keys()

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return a topic's partitions, in order."""
        return sorted(self._by_topic.get(topic, ()))

    def partitions_on(self, brokers: Iterable[BrokerId]) -> list[TopicPartition]:
        """Return the partitions with a replica on any of `brokers`, in order."""
        return sorted({one for broker in brokers for one in self._by_broker.get(broker, ())})

    def replicas_on(self, brokers: Iterable[BrokerId]) -> list[PartitionReplica]:
        """Return the replicas on `brokers`, in order."""
        return [
            PartitionReplica(partition, broker)
            for broker in sorted(brokers)
            for partition in sorted(self._by_broker.get(broker, ()))
        ]

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[PartitionReplica]:
        """Return all replicas of `partitions`."""
        return [
            PartitionReplica(partition, replica)
            for partition in partitions
            for replica in self.assignment(partition).replicas
        ]

    def add_topic(self, topic: str, topic_id: TopicId | None) -> None:
        """Add a topic; its partitions follow with `assign`."""
        self._by_topic.setdefault(topic, set())
        if topic_id is not None:
            self._forget_id(topic)
            self.topic_ids[topic] = topic_id
            self._topic_names[topic_id] = topic

    def topic_named(self, topic_id: TopicId) -> str | None:
        """Return the name of the topic with an id; None if it is unknown."""
        return self._topic_names.get(topic_id)

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Return a partition's assignment; `NO_ASSIGNMENT` if it is unknown."""
        return self._assignments.get(partition, NO_ASSIGNMENT)

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Set a partition's assignment."""
        for broker in self.assignment(partition).replicas:
            self._by_broker[broker].discard(partition)
        for broker in assignment.replicas:
            self._by_broker.setdefault(broker, set()).add(partition)
        self._assignments[partition] = assignment
        self._by_topic.setdefault(partition.topic, set()).add(partition)

    def remove_topic(self, topic: str) -> None:
        """Remove a topic with its partitions, replicas and their states."""
        for partition in self._by_topic.pop(topic, set()):
            for broker in self._assignments.pop(partition).replicas:
                self._by_broker[broker].discard(partition)
                self._replica_states.pop(PartitionReplica(partition, broker), None)
            self.leaderships.pop(partition, None)
            self._partition_states.pop(partition, None)
            self.moving.discard(partition)
            for offline in self.offline_dirs.values():
                offline.discard(partition)
        self._forget_id(topic)
        self.topic_versions.pop(topic, None)
        for topics in (self.deletions.queued, self.deletions.started, self.deletions.halted):
            topics.discard(topic)

    def _forget_id(self, topic: str) -> None:
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self._topic_names.pop(topic_id, None)

    def is_being_deleted(self, topic: str) -> bool:
        """Whether a topic is queued for deletion."""
        return topic in self.deletions.queued

    def needs_leader(self, partition: TopicPartition) -> bool:
        """Whether a partition must have a leader.

        It must unless its topic is being deleted, and even then while it is being reassigned: the
        deletion waits for the reassignment.
        """
        return not self.is_being_deleted(partition.topic) or partition in self.moving

    @property
    def imbalance_count(self) -> int:
        """Number of partitions whose leader is not the preferred replica."""
        return sum(
            state.leader != self.assignment(partition).replicas[0]
            for partition, state in list(self.leaderships.items())
            if self.assignment(partition).replicas and not self.is_being_deleted(partition.topic)
        )

    # States

    def partition_state(self, partition: TopicPartition) -> PartitionState:
        """Return the state of a partition."""
        return self._partition_states.get(partition, PartitionState.NON_EXISTENT)

    def replica_state(self, replica: PartitionReplica) -> ReplicaState:
        """Return the state of a replica."""
        return self._replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def start_partition(self, partition: TopicPartition, state: PartitionState) -> None:
        """Set the state in which the new controller found a partition."""
        self._partition_states[partition] = state

    def start_replica(self, replica: PartitionReplica, state: ReplicaState) -> None:
        """Set the state in which the new controller found a replica."""
        self._replica_states[replica] = state

    def move_partition(self, partition: TopicPartition, target: PartitionState) -> None:
        """Move a partition to another state.

        Raises:
            InvalidTransition: the table of states forbids it.
        """
        check_partition_move(self.partition_state(partition), target)
        if target is PartitionState.NON_EXISTENT:
            self._partition_states.pop(partition, None)
        else:
            self._partition_states[partition] = target

    def move_replica(self, replica: PartitionReplica, target: ReplicaState) -> None:
        """Move a replica to another state.

        Raises:
            InvalidTransition: the table of states forbids it.
        """
        check_replica_move(self.replica_state(replica), target)
        if target is ReplicaState.NON_EXISTENT:
            self._replica_states.pop(replica, None)
        else:
            self._replica_states[replica] = target

    def may_move_replica(self, replica: PartitionReplica, target: ReplicaState) -> bool:
        """Whether the table of states allows a move of a replica."""
        try:
            check_replica_move(self.replica_state(replica), target)
        except InvalidTransition:
            return False
        return True

    def replicas_in(self, topic: str, state: ReplicaState) -> list[PartitionReplica]:
        """Return a topic's replicas that are in `state`."""
        return [
            replica
            for replica in self.replicas_of(self.partitions_of(topic))
            if self.replica_state(replica) is state
        ]

    def partitions_without_leader(self) -> Iterator[TopicPartition]:
        """Yield the partitions that need a leader and have none."""
        waiting = (PartitionState.NEW, PartitionState.OFFLINE)
        return (
            partition
            for partition, state in list(self._partition_states.items())
            if state in waiting and self.needs_leader(partition)
        )

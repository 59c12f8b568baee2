"""Plans for the controller's events (decision): the single entry point to its rules.

Events are processed one at a time, each to its end, so no plan sees the unfinished work of another.
"""

from collections.abc import Mapping
from typing import TypeAlias

from clusterstate.errors import MalformedZnodeError
from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes import paths
from clusterstate.znodes.cluster_node import ProducerIdBlock
from controller import (
    alter_partition,
    answers,
    controlled_shutdown,
    controller_election,
    deletion,
    live_brokers,
    producer_id_blocks,
    reassignment,
    requested_elections,
    topics,
)
from controller import events as e
from controller.cluster import Cluster
from controller.controller_config import ControllerConfig
from controller.effects import Disconnect, Elected, Enqueue, Note, Plan
from controller.errors import ControllerMovedError
from controller.failover import take_over
from controller.last_told import LastKnown, nothing_known
from controller.lost_watches import read_again, watch_children
from controller.partition_transitions import bring_online
from controller.reassignment import MoveResult
from controller.refused_elections import RefusedElections
from controller.request_batch import RequestBatch
from controller.topics import NewTopicId
from coordination.errors import NoAuthError
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.alter_partition import AlterPartitionResponse
from kafkawire.messages.controlled_shutdown import ControlledShutdownResponse

Result: TypeAlias = (
    AlterPartitionResponse
    | ControlledShutdownResponse
    | Mapping[TopicPartition, ErrorCode]
    | Mapping[TopicPartition, MoveResult]
    | Mapping[TopicPartition, ReplicaAssignment]
    | ProducerIdBlock
    | ErrorCode
    | None
)
"""Result of an event that is a request; a bare error code refuses the whole request."""


class Planner:
    """Decisions of the controller component of one broker, elected or not."""

    def __init__(
        self,
        config: ControllerConfig,
        new_topic_id: NewTopicId,
        last_known: LastKnown = nothing_known,
    ) -> None:
        """`last_known` returns the states that this broker last received from a controller."""
        self._config = config
        self._new_topic_id = new_topic_id
        self._last_known = last_known
        self.cluster: Cluster | None = None
        """Image of the cluster; None while this broker is not the controller."""
        self.controller_id: BrokerId | None = None
        self._former_id: BrokerId | None = None
        self._refused = RefusedElections()

    @property
    def is_active(self) -> bool:
        """Whether this broker believes that it is the controller; only a fenced write proves it."""
        return self.cluster is not None

    def reconfigure(self, config: ControllerConfig) -> None:
        """Use `config` from the next event on."""
        self._config = config
        if self.cluster is not None:
            self.cluster.config = config

    def plan(self, event: e.Event, now_ms: int) -> Plan[Result]:
        """Return the plan for `event`, which must run to its end before the next one starts."""
        try:
            match event:
                case e.Reelect():
                    yield from self._read_controller()
                    yield from self._elect(now_ms)
                case e.ElectionDue():
                    self._refused.on_due()
                    yield from self._read_controller()
                    yield from self._elect(now_ms)
                case e.ControllerChange():
                    yield from self._read_controller()
                    if self.controller_id is None:
                        # It has resigned already, before a watch for its deletion was set.
                        yield Enqueue(e.Reelect())
                case e.RereadDue():
                    yield from self._read_again()
                case e.Expire():
                    yield from self._resign()
                    self.controller_id = None
                    self._refused.on_due()
                case _:
                    if self.cluster is None:
                        return ErrorCode.NOT_CONTROLLER
                    return (yield from self._react(self.cluster, event))
        except ControllerMovedError as error:
            yield Note("controller.moved", {"error": str(error)})
            yield from self._resign()
            # Adopt the new controller, or run for election again if it has left.
            yield Enqueue(e.Reelect())
            return ErrorCode.NOT_CONTROLLER
        return None

    def give_up(self) -> Plan[None]:
        """Resign and delete `/controller`, so that another broker can be elected."""
        cluster = self.cluster
        yield from self._resign()
        if cluster is not None:
            yield from controller_election.abdicate(cluster)

    def _read_controller(self) -> Plan[None]:
        self.controller_id = yield from controller_election.current_controller(self.controller_id)
        if self.controller_id is not None:
            self._former_id = self.controller_id
            yield Elected()
        if self.is_active and self.controller_id != self._config.broker_id:
            yield from self._resign()

    def _read_again(self) -> Plan[None]:
        # Without a known controller an election is pending, or there is no session.
        if self.controller_id is not None:
            yield Enqueue(e.Reelect())
        if self.cluster is not None:
            yield from read_again(self.cluster)

    def _elect(self, now_ms: int) -> Plan[None]:
        if self.controller_id == self._config.broker_id and not self.is_active:
            yield from controller_election.clear_own(self._config.broker_id)
            yield from self._read_controller()
        if self.controller_id is not None or self._refused.is_waiting:
            return
        try:
            yield from self._refused.check()
            yield from self._stand_for_election(now_ms)
        except (NoAuthError, MalformedZnodeError) as error:
            yield from self.give_up()
            self.controller_id = None
            yield from self._refused.on_refusal(error)

    def _stand_for_election(self, now_ms: int) -> Plan[None]:
        won = yield from controller_election.elect(self._config.broker_id, now_ms)
        if won is None:
            # Another broker won, and may have left already.
            yield from self._read_controller()
            if self.controller_id is None:
                yield Enqueue(e.Reelect())
            return
        self.controller_id = self._config.broker_id
        self.cluster = Cluster(self._config, epoch=won.epoch, epoch_version=won.epoch_version)
        fields = {"controller_epoch": won.epoch, "former_controller": self._former_id}
        yield Note("controller.elected", fields)
        yield Elected()
        yield from take_over(self.cluster, self._new_topic_id, self._last_known)
        self._refused.on_success()

    def _resign(self) -> Plan[None]:
        if self.cluster is not None:
            yield Note("controller.resigned", {"controller_epoch": self.cluster.epoch})
            self.cluster = None
            yield Disconnect()

    def _react(self, cluster: Cluster, event: e.Event) -> Plan[Result]:
        match event:
            case e.AlterPartitionRequested(request, version):
                return (yield from alter_partition.on_request(cluster, request, version))
            case e.ControlledShutdownRequested(broker_id, epoch):
                return (yield from controlled_shutdown.on_request(cluster, broker_id, epoch))
            case e.ElectLeadersRequested(partitions, is_unclean):
                return (
                    yield from requested_elections.on_request(
                        cluster, partitions, is_unclean=is_unclean
                    )
                )
            case e.ReassignmentRequested(targets):
                return (yield from reassignment.on_api_request(cluster, targets))
            case e.ReassignmentsListed(partitions):
                wanted = cluster.moving if partitions is None else set(partitions) & cluster.moving
                return {one: cluster.assignment(one) for one in sorted(wanted)}
            case e.ProducerIdsRequested(broker_id, epoch):
                return (yield from producer_id_blocks.on_request(cluster, broker_id, epoch))
            case _:
                yield from self._on_change(cluster, event)
                return None

    def _on_change(self, cluster: Cluster, event: e.Event) -> Plan[None]:
        match event:
            case e.BrokerChange():
                yield from live_brokers.on_change(cluster)
            case e.BrokerModification(broker_id):
                yield from live_brokers.on_modification(cluster, broker_id)
            case e.TopicChange():
                yield from topics.on_topic_change(cluster, self._new_topic_id)
            case e.PartitionModification(topic):
                yield from topics.on_partition_modification(cluster, topic, self._new_topic_id)
            case e.TopicDeletion():
                yield from _on_deletions(cluster)
            case e.ReassignmentNode():
                yield from reassignment.on_znode(cluster)
            case e.PreferredElectionNode():
                yield from requested_elections.on_znode(cluster)
            case e.IsrChange():
                yield from alter_partition.on_isr_changes(cluster)
            case e.LogDirEvent():
                yield from live_brokers.on_log_dir_events(cluster)
            case e.RebalanceDue():
                yield from requested_elections.on_rebalance(cluster)
                interval_s = self._config.leader_imbalance_check_interval_seconds
                yield Enqueue(e.RebalanceDue(), interval_s * 1000)
            case e.UncleanElectionEnabled():
                cluster.repair_reason = "unclean elections were enabled"
                batch = RequestBatch(cluster)
                yield from bring_online(cluster, batch)
                yield from batch.send()
            case e.LeaderAndIsrResponseReceived():
                yield from answers.on_leader_and_isr(cluster, event)
            case e.StopReplicaResponseReceived():
                yield from answers.on_stop_replica(cluster, event)
            case _:
                raise AssertionError(f"{event} is planned elsewhere")


def _on_deletions(cluster: Cluster) -> Plan[None]:
    requested = set((yield from watch_children(paths.DELETE_TOPICS)) or ())
    requested -= cluster.unread_topics
    unknown = requested - set(cluster.topics)
    yield from deletion.forget_requests(cluster, sorted(unknown))
    wanted = requested - unknown - cluster.deletions.queued
    if wanted:
        yield from deletion.enqueue(cluster, wanted)

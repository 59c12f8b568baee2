"""What to do about each event (decision): the one entrance to everything that the controller does.

Events are planned one at a time, each to its end: no plan sees another's half-done work.
"""

from collections.abc import Mapping
from typing import TypeAlias

from controller import (
    alter_partition,
    answers,
    controlled_shutdown,
    deletion,
    election,
    live_brokers,
    producer_ids,
    reassignment,
    requested_elections,
    topics,
)
from controller import events as e
from controller.cluster import Cluster
from controller.config import ControllerConfig
from controller.effects import Disconnect, Enqueue, Note, Plan, list_children
from controller.errors import ControllerMovedError
from controller.failover import take_over
from controller.last_told import LastTold, nothing_told
from controller.partition_moves import bring_online
from controller.reassignment import MoveAnswer
from controller.replica_assignment import ReplicaAssignment
from controller.request_batch import RequestBatch
from controller.topics import NewTopicId
from controller.znodes import paths
from controller.znodes.cluster import ProducerIdBlock
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.alter_partition import AlterPartitionResponse
from kafkawire.messages.controlled_shutdown import ControlledShutdownResponse

Result: TypeAlias = (
    AlterPartitionResponse
    | ControlledShutdownResponse
    | Mapping[TopicPartition, ErrorCode]
    | Mapping[TopicPartition, MoveAnswer]
    | Mapping[TopicPartition, ReplicaAssignment]
    | ProducerIdBlock
    | ErrorCode
    | None
)
"""What an event that asks is answered; a code alone refuses it as a whole."""


class Planner:
    """The controller component of one broker, whether it is the controller or not."""

    def __init__(
        self,
        config: ControllerConfig,
        new_topic_id: NewTopicId,
        last_told: LastTold = nothing_told,
    ) -> None:
        """`last_told` is what this broker knows of partitions while another is controller."""
        self._config = config
        self._new_topic_id = new_topic_id
        self._last_told = last_told
        self.cluster: Cluster | None = None
        """The picture; None while another is controller."""
        self.controller_id: BrokerId | None = None

    @property
    def is_active(self) -> bool:
        """Whether this broker believes to be the controller; its fence knows whether it is."""
        return self.cluster is not None

    def reconfigure(self, config: ControllerConfig) -> None:
        """Decide by `config` from the next event on."""
        self._config = config
        if self.cluster is not None:
            self.cluster.config = config

    def plan(self, event: e.Event, now_ms: int) -> Plan[Result]:
        """Return what to do about `event`. It must run to its end before the next one begins."""
        try:
            match event:
                case e.Reelect():
                    yield from self._look()
                    yield from self._stand(now_ms)
                case e.ControllerChange():
                    yield from self._look()
                case e.Expire():
                    yield from self._resign()
                    self.controller_id = None
                case _:
                    if self.cluster is None:
                        return ErrorCode.NOT_CONTROLLER
                    return (yield from self._react(self.cluster, event))
        except ControllerMovedError as error:
            yield Note("controller.moved", {"error": str(error)})
            yield from self._resign()
            # Whoever it is now: adopt it, or stand again.
            yield Enqueue(e.Reelect())
            return ErrorCode.NOT_CONTROLLER
        return None

    def give_up(self) -> Plan[None]:
        """Resign after a failure of our own, and let another be elected."""
        cluster = self.cluster
        yield from self._resign()
        if cluster is not None:
            yield from election.abdicate(cluster)

    def _look(self) -> Plan[None]:
        self.controller_id = yield from election.current_controller()
        if self.is_active and self.controller_id != self._config.broker_id:
            yield from self._resign()

    def _stand(self, now_ms: int) -> Plan[None]:
        if self.controller_id == self._config.broker_id and not self.is_active:
            yield from election.clear_own(self._config.broker_id)
            yield from self._look()
        if self.controller_id is not None:
            return
        reign = yield from election.stand(self._config.broker_id, now_ms)
        if reign is None:
            # Another won, or has won and is gone again.
            yield from self._look()
            if self.controller_id is None:
                yield Enqueue(e.Reelect())
            return
        self.controller_id = self._config.broker_id
        self.cluster = Cluster(self._config, epoch=reign.epoch, epoch_version=reign.epoch_version)
        yield Note("controller.elected", {"controller_epoch": reign.epoch})
        yield from take_over(self.cluster, self._new_topic_id, self._last_told)

    def _resign(self) -> Plan[None]:
        if self.cluster is not None:
            yield Note("controller.resigned", {"controller_epoch": self.cluster.epoch})
            self.cluster = None
            yield Disconnect()

    def _react(self, cluster: Cluster, event: e.Event) -> Plan[Result]:
        match event:
            case e.AlterPartitionAsked(request, version):
                return (yield from alter_partition.on_request(cluster, request, version))
            case e.ControlledShutdownAsked(broker_id, epoch):
                return (yield from controlled_shutdown.on_request(cluster, broker_id, epoch))
            case e.ElectLeadersAsked(partitions, is_unclean):
                return (
                    yield from requested_elections.on_request(
                        cluster, partitions, is_unclean=is_unclean
                    )
                )
            case e.ReassignmentAsked(targets):
                return (yield from reassignment.on_api_request(cluster, targets))
            case e.ReassignmentsListed(partitions):
                wanted = cluster.moving if partitions is None else set(partitions) & cluster.moving
                return {one: cluster.assignment(one) for one in sorted(wanted)}
            case e.ProducerIdsAsked(broker_id, epoch):
                return (yield from producer_ids.on_request(cluster, broker_id, epoch))
            case _:
                yield from self._take_note(cluster, event)
                return None

    def _take_note(self, cluster: Cluster, event: e.Event) -> Plan[None]:
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
                batch = RequestBatch(cluster)
                yield from bring_online(cluster, batch)
                yield from batch.send()
            case e.LeaderAndIsrAnswered():
                yield from answers.on_leader_and_isr(cluster, event)
            case e.StopReplicaAnswered():
                yield from answers.on_stop_replica(cluster, event)
            case _:
                raise AssertionError(f"{event} is planned elsewhere")


def _on_deletions(cluster: Cluster) -> Plan[None]:
    requested = set((yield from list_children(paths.DELETE_TOPICS, watch=True)))
    requested -= cluster.unread_topics
    unknown = requested - set(cluster.topics)
    yield from deletion.forget_requests(cluster, sorted(unknown))
    wanted = requested - unknown - cluster.deletions.queued
    if wanted:
        yield from deletion.enqueue(cluster, wanted)

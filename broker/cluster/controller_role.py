"""The broker's controller component, behind one door (edge).

No other module of the broker imports `controller`. Requests that only the controller may answer
return an error code on every other broker, usually NOT_CONTROLLER.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import structlog

from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peer import Peer
from broker.config.broker_config import BrokerConfig
from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes.cluster_node import ProducerIdBlock
from clusterstate.znodes.registration import Registration
from controller import events
from controller.cluster import Cluster
from controller.controller import Controller, CountMissingWrites
from controller.controller_config import ControllerConfig
from coordination.client import Client
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from kafkawire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kafkawire.messages.controlled_shutdown import ControlledShutdownResponse
from monitoring.samples import Samples

FIRST_PROTOCOL_WITH_FEATURES: Final = (2, 7)
"""Also the first with AlterPartition, and with registrations of version 5."""
RESIGNATION_TIMEOUT_S: Final = 2.0
"""Longest wait of a stop for a coordinator that does not respond."""

log = structlog.get_logger(__name__)

_T = TypeVar("_T")


class ControllerRole:
    """Whether this broker is the controller, and the requests to it if it is."""

    def __init__(
        self,
        config: BrokerConfig,
        broker_id: BrokerId,
        client: Client,
        metadata: MetadataCache,
        *,
        dial: Callable[[Registration], Peer],
        now_ms: Callable[[], int],
    ) -> None:
        self._broker_id = broker_id
        self._controller = Controller(
            self._settings(config),
            client,
            dial=dial,
            new_topic_id=uuid.uuid4,
            now_ms=now_ms,
            last_known=lambda topic, topic_id: metadata.image.known_states(topic, topic_id),
        )

    @property
    def is_active(self) -> bool:
        """Whether this broker believes that it is the controller."""
        return self._controller.is_active

    @property
    def gauges(self) -> Mapping[str, Callable[[], int]]:
        """Gauges of the controller component, by name."""
        controller = self._controller

        def of_cluster(read: Callable[[Cluster], int]) -> Callable[[], int]:
            return lambda: 0 if controller.cluster is None else read(controller.cluster)

        return {
            "active_controller_count": lambda: int(controller.is_active),
            "controller_state": lambda: int(controller.state),
            "offline_partitions_count": lambda: controller.offline_partition_count,
            "unclean_leader_elections": lambda: controller.unclean_election_count,
            "preferred_replica_imbalance_count": of_cluster(lambda one: one.imbalance_count),
            "global_topic_count": of_cluster(lambda one: len(one.topics)),
            "global_partition_count": of_cluster(lambda one: len(one.leaderships)),
            "active_broker_count": of_cluster(lambda one: len(one.brokers)),
            "topics_to_delete_count": of_cluster(lambda one: len(one.deletions.queued)),
            "controller_event_queue_size": lambda: controller.event_queue_size,
            "controller_channel_queue_size": lambda: controller.channel_queue_size,
        }

    @property
    def timers(self) -> Mapping[str, Samples]:
        """Times in milliseconds that events took, by the name of the controller's state."""
        return {state.name: each for state, each in self._controller.stats.timers.items()}

    @property
    def queue_time(self) -> Samples:
        """Times in milliseconds that events have waited."""
        return self._controller.stats.queue_time

    # Life cycle

    def on_elected(self, callback: Callable[[], None]) -> None:
        """Call `callback` when this broker has won an election or read the winner."""
        self._controller.on_elected(callback)

    def start(
        self, count_missing_writes: CountMissingWrites, on_failure: Callable[[str], None]
    ) -> None:
        """Stand for election; the broker must be registered.

        `on_failure` is called if the component dies of a bug, after which the node must stop.
        """
        self._controller.start(count_missing_writes)
        self._controller.on_failure(lambda error: on_failure(f"the controller failed: {error!r}"))

    async def stop(self) -> None:
        """Resign, so that another broker can be elected."""
        try:
            async with asyncio.timeout(RESIGNATION_TIMEOUT_S):
                await self._controller.stop()
        except TimeoutError:
            # The end of the session ends this controller epoch, too.
            log.warning("controller.not_resigned")

    async def expire(self) -> None:
        """Resign because the session expired; work of the old controller epoch ends."""
        await self._controller.expire()

    def reelect(self) -> None:
        """Stand for election again, in a new session."""
        self._controller.put(events.Reelect())

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply the election settings in `config`."""
        self._controller.reconfigure(self._settings(config))

    def on_unclean_election_enabled(self, topic: str | None) -> None:
        """Elect leaders of offline partitions; `topic` None means all topics."""
        self._controller.put(events.UncleanElectionEnabled(topic))

    # Requests

    def check_sender(self, broker_id: BrokerId, broker_epoch: int) -> ErrorCode:
        """Return NONE if a broker with this epoch is registered, and this is the controller."""
        cluster = self._controller.cluster
        if cluster is None:
            return ErrorCode.NOT_CONTROLLER
        broker = cluster.brokers.get(broker_id)
        is_current = broker is not None and broker.epoch == broker_epoch
        return ErrorCode.NONE if is_current else ErrorCode.STALE_BROKER_EPOCH

    async def alter_partition(
        self, request: AlterPartitionRequest, version: int
    ) -> AlterPartitionResponse | ErrorCode:
        """Record the in-sync sets that a leader proposes."""
        event = events.AlterPartitionRequested(request, version)
        return _expect(AlterPartitionResponse, await self._controller.put(event))

    async def shut_down(
        self, broker_id: BrokerId, broker_epoch: int
    ) -> ControlledShutdownResponse | ErrorCode:
        """Move leaderships away from a stopping broker; the response lists the remaining ones."""
        event = events.ControlledShutdownRequested(broker_id, broker_epoch)
        return _expect(ControlledShutdownResponse, await self._controller.put(event))

    async def allocate_producer_ids(
        self, broker_id: BrokerId, broker_epoch: int
    ) -> ProducerIdBlock | ErrorCode:
        """Return a block of producer ids that no other broker has or will get."""
        event = events.ProducerIdsRequested(broker_id, broker_epoch)
        return _expect(ProducerIdBlock, await self._controller.put(event))

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, is_unclean: bool
    ) -> Mapping[TopicPartition, ErrorCode] | ErrorCode:
        """Elect the preferred leader, or any; `partitions` None means all partitions."""
        event = events.ElectLeadersRequested(partitions, is_unclean)
        return _expect(dict, await self._controller.put(event))

    async def reassign(
        self, targets: Mapping[TopicPartition, Sequence[BrokerId] | None]
    ) -> Mapping[TopicPartition, tuple[ErrorCode, str]] | ErrorCode:
        """Start reassignments; a target of None cancels one. Codes come with a detail."""
        event = events.ReassignmentRequested(targets)
        return _expect(dict, await self._controller.put(event))

    async def reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> Mapping[TopicPartition, ReplicaAssignment] | ErrorCode:
        """Return the reassignments in progress; `partitions` None means all partitions."""
        event = events.ReassignmentsListed(partitions)
        return _expect(dict, await self._controller.put(event))

    def _settings(self, config: BrokerConfig) -> ControllerConfig:
        replication = config.replication
        has_features = replication.inter_broker_version >= FIRST_PROTOCOL_WITH_FEATURES
        return ControllerConfig(
            broker_id=self._broker_id,
            inter_broker_listener_name=config.network.inter_broker_listener,
            delete_topic_enable=config.server.delete_topic_enable,
            unclean_leader_election_enable=config.topic_defaults.unclean_leader_election_enable,
            auto_leader_rebalance_enable=replication.auto_leader_rebalance_enable,
            leader_imbalance_per_broker_percentage=replication.leader_imbalance_per_broker_percentage,
            leader_imbalance_check_interval_seconds=replication.leader_imbalance_check_interval_seconds,
            uses_alter_partition=has_features,
            has_features=has_features,
        )


def _expect(kind: type[_T], result: object) -> _T | ErrorCode:
    assert isinstance(result, kind | ErrorCode), f"the controller responded with {result!r}"
    return result

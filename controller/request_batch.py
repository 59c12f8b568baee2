"""Batch of requests to brokers, at most one of each kind per broker (decision).

Within a batch a later state of a partition replaces an earlier one. A broker gets LeaderAndIsr
before UpdateMetadata before StopReplica. Requests carry the epoch of the broker incarnation that
was alive when they were built, so that a later incarnation refuses them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from clusterstate.leader_and_isr import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, LeaderAndIsr
from controller.cluster import Cluster, LiveBroker
from controller.effects import BrokerRequest, ControlRequest, Plan, Send
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, TopicPartition
from kafkawire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kafkawire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kafkawire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkawire.sentinels import NO_EPOCH
from kafkawire.update_type import UpdateType

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class RequestBatch:
    """Collected updates for brokers; `take` turns them into requests and clears the batch."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._leader_and_isr: dict[BrokerId, dict[TopicPartition, bool]] = {}
        self._stop_replica: dict[BrokerId, dict[TopicPartition, bool]] = {}
        self._metadata_brokers: set[BrokerId] = set()
        self._metadata_partitions: dict[TopicPartition, None] = {}

    def add_leader_and_isr(
        self, brokers: Iterable[BrokerId], partition: TopicPartition, *, is_new: bool = False
    ) -> None:
        """Add the state of `partition` for `brokers`, and its metadata for all brokers."""
        for broker in brokers:
            partitions = self._leader_and_isr.setdefault(broker, {})
            partitions[partition] = is_new or partitions.get(partition, False)
        self.add_update_metadata(self._cluster.brokers, (partition,))

    def add_stop_replica(
        self, broker: BrokerId, partition: TopicPartition, *, delete: bool
    ) -> None:
        """Add a stop of the replica on `broker`, with `delete` also its deletion."""
        partitions = self._stop_replica.setdefault(broker, {})
        partitions[partition] = delete or partitions.get(partition, False)

    def add_update_metadata(
        self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition] = ()
    ) -> None:
        """Add the list of live brokers, and the metadata of `partitions`, for `brokers`."""
        self._metadata_brokers.update(brokers)
        self._metadata_partitions.update(dict.fromkeys(partitions))

    def take(
        self, kind: UpdateType = UpdateType.UNKNOWN, *, names_all: bool = False
    ) -> tuple[BrokerRequest, ...]:
        """Return the requests to the live brokers, and clear the batch.

        `kind` says whether a LeaderAndIsr may list all replicas of a broker, and whether a starting
        broker may serve clients after an UpdateMetadata. While a topic cannot be decoded, every
        LeaderAndIsr is INCREMENTAL; clients of the other topics need not wait for it.

        With `names_all` the metadata names every partition that has a state. Brokers then forget
        the other topics: they may have missed a deletion.
        """
        of_roles = UpdateType.INCREMENTAL if self._cluster.unread_topics else kind
        of_metadata = UpdateType.FULL if names_all and self._knows_all_topics() else kind
        requests = [
            *self._leader_and_isr_requests(of_roles),
            *self._update_metadata_requests(of_metadata),
            *self._stop_replica_requests(),
        ]
        self._leader_and_isr.clear()
        self._stop_replica.clear()
        self._metadata_brokers.clear()
        self._metadata_partitions.clear()
        return tuple(requests)

    def send(self, kind: UpdateType = UpdateType.UNKNOWN, *, names_all: bool = False) -> Plan[None]:
        """Send the collected requests, if there are any; the parameters are as for `take`."""
        if requests := self.take(kind, names_all=names_all):
            yield Send(requests)

    def _knows_all_topics(self) -> bool:
        """Whether each topic can be named. Brokers drop the offsets of topics that are not."""
        named = {partition.topic for partition in self._cluster.leaderships}
        staying = set(self._cluster.topics) - self._cluster.deletions.queued
        return not self._cluster.unread_topics and named >= staying

    def _leader_and_isr_requests(self, kind: UpdateType) -> Iterable[BrokerRequest]:
        for broker, partitions in sorted(self._leader_and_isr.items()):
            if broker in self._cluster.brokers:
                yield self._to(broker, self._leader_and_isr_request(partitions, kind))

    def _leader_and_isr_request(
        self, partitions: Mapping[TopicPartition, bool], kind: UpdateType
    ) -> LeaderAndIsrRequest:
        topics: dict[str, list[LeaderAndIsrPartitionState]] = {}
        leaders: set[BrokerId] = set()
        for partition, is_new in partitions.items():
            state = self._cluster.leaderships[partition]
            leaders.add(state.leader)
            topics.setdefault(partition.topic, []).append(
                self._leader_and_isr_state(partition, state, is_new)
            )
        return LeaderAndIsrRequest(
            type=int(kind),
            topic_states=[
                LeaderAndIsrTopicState(
                    topic_name=topic,
                    topic_id=self._cluster.topic_ids.get(topic, ZERO_TOPIC_ID),
                    partition_states=states,
                )
                for topic, states in topics.items()
            ],
            live_leaders=[
                self._live_leader(self._cluster.brokers[leader])
                for leader in sorted(leaders & self._cluster.brokers.keys())
            ],
        )

    def _leader_and_isr_state(
        self, partition: TopicPartition, state: LeaderAndIsr, is_new: bool
    ) -> LeaderAndIsrPartitionState:
        assignment = self._cluster.assignment(partition)
        return LeaderAndIsrPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            partition_epoch=state.partition_epoch,
            replicas=assignment.replicas,
            adding_replicas=assignment.adding,
            removing_replicas=assignment.removing,
            is_new=is_new,
            leader_recovery_state=int(state.recovery_state),
        )

    def _live_leader(self, broker: LiveBroker) -> LeaderAndIsrLiveLeader:
        wanted = self._cluster.config.inter_broker_listener_name
        for endpoint in broker.registration.endpoints:
            if endpoint.listener == wanted:
                break
        else:
            endpoint = broker.registration.endpoints[0]
        return LeaderAndIsrLiveLeader(
            broker_id=broker.registration.broker_id, host_name=endpoint.host, port=endpoint.port
        )

    def _update_metadata_requests(self, kind: UpdateType) -> Iterable[BrokerRequest]:
        brokers = sorted(self._metadata_brokers & self._cluster.brokers.keys())
        if not brokers:
            return
        # Built once: only the broker epoch differs from broker to broker.
        topics, live = self._metadata_topics(), self._live_brokers()
        for broker in brokers:
            message = UpdateMetadataRequest(type=int(kind), topic_states=topics, live_brokers=live)
            yield self._to(broker, message)

    def _metadata_topics(self) -> list[UpdateMetadataTopicState]:
        topics: dict[str, list[UpdateMetadataPartitionState]] = {}
        for partition in self._metadata_partitions:
            state = self._cluster.leaderships.get(partition)
            if state is not None:
                topics.setdefault(partition.topic, []).append(
                    self._metadata_state(partition, state)
                )
        return [
            UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=self._cluster.topic_ids.get(topic, ZERO_TOPIC_ID),
                partition_states=states,
            )
            for topic, states in topics.items()
        ]

    def _metadata_state(
        self, partition: TopicPartition, state: LeaderAndIsr
    ) -> UpdateMetadataPartitionState:
        leader, leader_epoch = state.leader, state.leader_epoch
        if self._cluster.is_being_deleted(partition.topic):
            leader, leader_epoch = LEADER_DURING_DELETE, EPOCH_DURING_DELETE
        replicas = self._cluster.assignment(partition).replicas
        online = self._cluster.online(partition)
        return UpdateMetadataPartitionState(
            topic_name=partition.topic,
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            isr=state.isr,
            zk_version=state.partition_epoch,
            replicas=replicas,
            offline_replicas=[replica for replica in replicas if replica not in online],
        )

    def _live_brokers(self) -> list[UpdateMetadataBroker]:
        return [
            UpdateMetadataBroker(
                id=broker_id,
                endpoints=[
                    UpdateMetadataEndpoint(
                        port=endpoint.port,
                        host=endpoint.host,
                        listener=endpoint.listener,
                        security_protocol=SECURITY_PROTOCOLS.get(
                            broker.registration.security_protocols.get(
                                endpoint.listener, endpoint.listener
                            ),
                            0,
                        ),
                    )
                    for endpoint in broker.registration.endpoints
                ],
                rack=broker.registration.rack,
            )
            for broker_id, broker in sorted(self._cluster.brokers.items())
        ]

    def _stop_replica_requests(self) -> Iterable[BrokerRequest]:
        for broker, partitions in sorted(self._stop_replica.items()):
            if broker not in self._cluster.brokers:
                continue
            topics: dict[str, list[StopReplicaPartitionState]] = {}
            for partition, delete in partitions.items():
                topics.setdefault(partition.topic, []).append(
                    StopReplicaPartitionState(
                        partition_index=partition.partition,
                        leader_epoch=self._stop_epoch(partition),
                        delete_partition=delete,
                    )
                )
            states = [
                StopReplicaTopicState(topic_name=topic, partition_states=partition_states)
                for topic, partition_states in topics.items()
            ]
            yield self._to(broker, StopReplicaRequest(topic_states=states))

    def _stop_epoch(self, partition: TopicPartition) -> int:
        if self._cluster.is_being_deleted(partition.topic):
            return EPOCH_DURING_DELETE
        state = self._cluster.leaderships.get(partition)
        return NO_EPOCH if state is None else state.leader_epoch

    def _to(self, broker: BrokerId, message: ControlRequest) -> BrokerRequest:
        epoch = self._cluster.brokers[broker].epoch
        message.controller_id = self._cluster.config.broker_id
        message.controller_epoch = self._cluster.epoch
        message.broker_epoch = epoch
        return BrokerRequest(broker, epoch, message)

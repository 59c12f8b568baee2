"""Assigns a handler to each API (composition).

Handlers and their messages are imported at their API's first request. A broker starts faster, and
stays smaller, without the handlers that its clients never use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from broker.cluster.config_nodes import ConfigNodes
from broker.cluster.control_proof import ControlProof
from broker.cluster.controller_role import ControllerRole
from broker.cluster.finalized_features import FinalizedFeatures
from broker.cluster.identity import Identity
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.metadata_watch import MetadataWatch
from broker.cluster.peer_addresses import PeerAddresses
from broker.cluster.producer_ids import ProducerIds
from broker.cluster.topic_source import TopicSource
from broker.config import BrokerConfig
from broker.dynamic_config import DynamicConfig
from broker.groups.coordinator import GroupCoordinator
from broker.groups.handler_table import group_makers
from broker.live_configs import LiveConfigs
from broker.logs.mover import LogMover
from broker.network.request_tasks import RequestTasks
from broker.network.router import Handler, Served
from broker.purgatory import Purgatory
from broker.quotas.entity import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from broker.quotas.throttle import Throttle
from broker.replication.replica_manager import ReplicaManager
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from storage.directory.logs import Logs


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerTable:
    """Creates the handlers from the parts of a broker."""

    config: BrokerConfig
    configs: LiveConfigs
    controller: ControllerRole
    features: FinalizedFeatures
    groups: GroupCoordinator
    identity: Identity
    logs: Logs
    mover: LogMover
    metadata: MetadataCache
    loop: asyncio.AbstractEventLoop
    peers: PeerAddresses
    producer_ids: ProducerIds
    proof: ControlProof
    purgatory: Purgatory[TopicPartition]
    replicas: ReplicaManager
    tasks: RequestTasks
    topics: TopicSource
    watch: MetadataWatch
    now_ms: Callable[[], int]
    served: Callable[[], Served]

    def makers(self) -> Mapping[ApiKey, Callable[[], Handler]]:
        """Return the handler factory of each served API."""
        return {
            ApiKey.API_VERSIONS: self._api_versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.LEADER_AND_ISR: self._leader_and_isr,
            ApiKey.STOP_REPLICA: self._stop_replica,
            ApiKey.UPDATE_METADATA: self._update_metadata,
            ApiKey.ALTER_PARTITION: self._alter_partition,
            ApiKey.CONTROLLED_SHUTDOWN: self._controlled_shutdown,
            ApiKey.ALLOCATE_PRODUCER_IDS: self._allocate_producer_ids,
            ApiKey.ELECT_LEADERS: self._elect_leaders,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self._alter_reassignments,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self._list_reassignments,
            ApiKey.PRODUCE: self._produce,
            ApiKey.FETCH: self._fetch,
            ApiKey.LIST_OFFSETS: self._list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self._offset_for_leader_epoch,
            ApiKey.DELETE_RECORDS: self._delete_records,
            ApiKey.CREATE_TOPICS: self._create_topics,
            ApiKey.CREATE_PARTITIONS: self._create_partitions,
            ApiKey.DELETE_TOPICS: self._delete_topics,
            ApiKey.DESCRIBE_CONFIGS: self._describe_configs,
            ApiKey.ALTER_CONFIGS: self._alter_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._incremental_alter_configs,
            ApiKey.DESCRIBE_CLIENT_QUOTAS: self._describe_client_quotas,
            ApiKey.ALTER_CLIENT_QUOTAS: self._alter_client_quotas,
            ApiKey.DESCRIBE_CLUSTER: self._describe_cluster,
            ApiKey.ALTER_REPLICA_LOG_DIRS: self._alter_replica_log_dirs,
            ApiKey.DESCRIBE_LOG_DIRS: self._describe_log_dirs,
            ApiKey.FIND_COORDINATOR: self._find_coordinator,
            ApiKey.INIT_PRODUCER_ID: self._init_producer_id,
            ApiKey.DESCRIBE_PRODUCERS: self._describe_producers,
            ApiKey.LIST_TRANSACTIONS: self._list_transactions,
            ApiKey.DESCRIBE_ACLS: self._describe_acls,
            ApiKey.CREATE_ACLS: self._create_acls,
            ApiKey.DELETE_ACLS: self._delete_acls,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self._describe_scram_credentials,
            **group_makers(self.groups, self.metadata, self.now_ms),
        }

    def _api_versions(self) -> Handler:
        from broker.handlers.api_versions import ApiVersionsHandler

        return ApiVersionsHandler(self.served, lambda: self.features.current).handle

    def _metadata(self) -> Handler:
        from broker.handlers.metadata import MetadataHandler

        return MetadataHandler(
            self.tasks,
            self.metadata,
            self.topics,
            self.identity.cluster_id,
            may_create=self.config.auto_create_topics_enable,
        ).handle

    def _leader_and_isr(self) -> Handler:
        from broker.handlers.leader_and_isr import LeaderAndIsrHandler
        from kafkawire.messages.leader_and_isr import LeaderAndIsrResponse

        handler = LeaderAndIsrHandler(self.replicas, self.logs, self.configs.topics.refresh)
        return self._from_controller(
            handler.handle, lambda code: LeaderAndIsrResponse(error_code=code)
        )

    def _from_controller(self, handle: Handler, refused: Callable[[ErrorCode], object]) -> Handler:
        from broker.handlers.from_brokers import FromController

        return FromController(self.proof, self.tasks, handle, refused).handle

    def _from_broker(self, handle: Handler, refused: Callable[[ErrorCode], object]) -> Handler:
        from broker.handlers.from_brokers import FromBroker

        return FromBroker(self.peers, handle, refused).handle

    def _stop_replica(self) -> Handler:
        from broker.handlers.stop_replica import StopReplicaHandler
        from kafkawire.messages.stop_replica import StopReplicaResponse

        return self._from_controller(
            StopReplicaHandler(self.replicas).handle,
            lambda code: StopReplicaResponse(error_code=code),
        )

    def _update_metadata(self) -> Handler:
        from broker.handlers.update_metadata import UpdateMetadataHandler
        from kafkawire.messages.update_metadata import UpdateMetadataResponse

        handler = UpdateMetadataHandler(
            self.metadata, self.replicas.roles.fence, self.groups.commits.on_partitions_deleted
        )
        return self._from_controller(
            handler.handle, lambda code: UpdateMetadataResponse(error_code=code)
        )

    def _alter_partition(self) -> Handler:
        from broker.handlers.alter_partition import AlterPartitionHandler
        from kafkawire.messages.alter_partition import AlterPartitionResponse

        return self._from_broker(
            AlterPartitionHandler(self.tasks, self.controller).handle,
            lambda code: AlterPartitionResponse(error_code=code),
        )

    def _controlled_shutdown(self) -> Handler:
        from broker.handlers.controlled_shutdown import ControlledShutdownHandler
        from kafkawire.messages.controlled_shutdown import ControlledShutdownResponse

        return self._from_broker(
            ControlledShutdownHandler(self.tasks, self.controller).handle,
            lambda code: ControlledShutdownResponse(error_code=code),
        )

    def _allocate_producer_ids(self) -> Handler:
        from broker.handlers.allocate_producer_ids import AllocateProducerIdsHandler
        from kafkawire.messages.allocate_producer_ids import AllocateProducerIdsResponse

        return self._from_broker(
            AllocateProducerIdsHandler(self.tasks, self.controller).handle,
            lambda code: AllocateProducerIdsResponse(error_code=code),
        )

    def _elect_leaders(self) -> Handler:
        from broker.handlers.elect_leaders import ElectLeadersHandler

        return ElectLeadersHandler(self.tasks, self.watch, self.controller).handle

    def _alter_reassignments(self) -> Handler:
        from broker.handlers.reassignments import ReassignmentsHandler

        return ReassignmentsHandler(self.tasks, self.controller).handle_alter

    def _list_reassignments(self) -> Handler:
        from broker.handlers.reassignments import ReassignmentsHandler

        return ReassignmentsHandler(self.tasks, self.controller).handle_list

    def _produce(self) -> Handler:
        from broker.handlers.produce import ProduceHandler

        throttle = Throttle(self.configs.quotas, PRODUCER_BYTE_RATE, self.now_ms)
        return ProduceHandler(
            self.replicas, self.purgatory, self.now_ms, self.tasks, throttle
        ).handle

    def _fetch(self) -> Handler:
        from broker.handlers.fetch import FetchHandler
        from broker.handlers.follower_fetch import FollowerFetchHandler

        followers = FollowerFetchHandler(
            self.replicas,
            self.purgatory,
            loop=self.loop,
            max_sessions=self.config.max_incremental_fetch_session_cache_slots,
            max_bytes=self.config.fetch_max_bytes,
            now_ms=self.now_ms,
            may_be=self.peers.may_be,
        )
        max_bytes = self.config.fetch_max_bytes
        throttle = Throttle(self.configs.quotas, CONSUMER_BYTE_RATE, self.now_ms)
        return FetchHandler(self.replicas, self.purgatory, max_bytes, followers, throttle).handle

    def _list_offsets(self) -> Handler:
        from broker.handlers.list_offsets import ListOffsetsHandler

        return ListOffsetsHandler(self.replicas).handle

    def _offset_for_leader_epoch(self) -> Handler:
        from broker.handlers.leader_epoch import OffsetForLeaderEpochHandler

        return OffsetForLeaderEpochHandler(self.replicas).handle

    def _delete_records(self) -> Handler:
        from broker.handlers.delete_records import DeleteRecordsHandler

        return DeleteRecordsHandler(self.replicas, self.purgatory).handle

    def _create_topics(self) -> Handler:
        from broker.handlers.create_topics import CreateTopicsHandler

        return CreateTopicsHandler(
            self.tasks, self.watch, self.topics, self.controller, self.configs.broker
        ).handle

    def _create_partitions(self) -> Handler:
        from broker.handlers.create_partitions import CreatePartitionsHandler

        return CreatePartitionsHandler(self.tasks, self.watch, self.topics, self.controller).handle

    def _delete_topics(self) -> Handler:
        from broker.handlers.delete_topics import DeleteTopicsHandler

        return DeleteTopicsHandler(
            self.tasks,
            self.watch,
            self.topics,
            self.controller,
            is_enabled=self.config.delete_topic_enable,
        ).handle

    def _describe_configs(self) -> Handler:
        from broker.handlers.describe_configs import DescribeConfigsHandler

        return DescribeConfigsHandler(
            self.tasks,
            self.metadata,
            self.configs.topics,
            self.configs.broker,
            self.identity.broker_id,
        ).handle

    def _alter_configs(self) -> Handler:
        from broker.handlers.alter_configs import AlterConfigsHandler

        return AlterConfigsHandler(*self._config_parts()).handle

    def _incremental_alter_configs(self) -> Handler:
        from broker.handlers.alter_configs import AlterConfigsHandler

        return AlterConfigsHandler(*self._config_parts()).handle_incremental

    def _config_parts(
        self,
    ) -> tuple[RequestTasks, MetadataCache, ConfigNodes, DynamicConfig, BrokerId]:
        return (
            self.tasks,
            self.metadata,
            self.configs.nodes,
            self.configs.broker,
            self.identity.broker_id,
        )

    def _describe_client_quotas(self) -> Handler:
        from broker.handlers.client_quotas import ClientQuotasHandler

        return ClientQuotasHandler(
            self.tasks, self.configs.nodes, self.configs.quota_configs
        ).handle_describe

    def _alter_client_quotas(self) -> Handler:
        from broker.handlers.client_quotas import ClientQuotasHandler

        return ClientQuotasHandler(
            self.tasks, self.configs.nodes, self.configs.quota_configs
        ).handle_alter

    def _describe_cluster(self) -> Handler:
        from broker.handlers.cluster import DescribeClusterHandler

        return DescribeClusterHandler(self.metadata, self.identity.cluster_id).handle

    def _alter_replica_log_dirs(self) -> Handler:
        from broker.handlers.alter_log_dirs import AlterReplicaLogDirsHandler

        return AlterReplicaLogDirsHandler(self.logs, self.replicas, self.mover).handle

    def _describe_log_dirs(self) -> Handler:
        from broker.handlers.log_dirs import DescribeLogDirsHandler

        return DescribeLogDirsHandler(self.logs, self.replicas).handle

    def _find_coordinator(self) -> Handler:
        from broker.handlers.find_coordinator import FindCoordinatorHandler

        return FindCoordinatorHandler(
            self.tasks,
            self.watch,
            self.topics,
            self.config,
            broker_id=self.identity.broker_id,
            partition_of=self.groups.registry.partition_of,
        ).handle

    def _init_producer_id(self) -> Handler:
        from broker.handlers.init_producer_id import InitProducerIdHandler

        return InitProducerIdHandler(self.tasks, self.producer_ids).handle

    def _describe_producers(self) -> Handler:
        from broker.handlers.describe_producers import DescribeProducersHandler

        return DescribeProducersHandler(self.replicas).handle

    def _list_transactions(self) -> Handler:
        from broker.handlers.list_transactions import list_transactions

        return list_transactions

    def _describe_acls(self) -> Handler:
        from broker.handlers.acls import describe_acls

        return describe_acls

    def _create_acls(self) -> Handler:
        from broker.handlers.acls import create_acls

        return create_acls

    def _delete_acls(self) -> Handler:
        from broker.handlers.acls import delete_acls

        return delete_acls

    def _describe_scram_credentials(self) -> Handler:
        from broker.handlers.acls import describe_scram_credentials

        return describe_scram_credentials

"""Which handler serves which API (composition)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from broker.config import BrokerConfig
from broker.handlers.alter_configs import AlterConfigsHandler
from broker.handlers.api_versions import ApiVersionsHandler, Served
from broker.handlers.cluster import DescribeClusterHandler
from broker.handlers.delete_records import DeleteRecordsHandler
from broker.handlers.describe_configs import DescribeConfigsHandler
from broker.handlers.fetch import FetchHandler
from broker.handlers.find_coordinator import FindCoordinatorHandler
from broker.handlers.init_producer_id import InitProducerIdHandler
from broker.handlers.leader_epoch import OffsetForLeaderEpochHandler
from broker.handlers.list_offsets import ListOffsetsHandler
from broker.handlers.log_dirs import DescribeLogDirsHandler
from broker.handlers.metadata import MetadataHandler
from broker.handlers.produce import ProduceHandler
from broker.handlers.topics import (
    CreatePartitionsHandler,
    CreateTopicsHandler,
    DeleteTopicsHandler,
)
from broker.identity import Identity
from broker.local_topics import LocalTopics
from broker.metadata_cache import MetadataCache
from broker.producer_ids import ProducerIds
from broker.purgatory import Purgatory
from broker.replica_manager import ReplicaManager
from broker.router import Handler
from kafkawire.apis import ApiKey
from kafkawire.ids import TopicPartition
from storage.directory import Logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What handlers work with."""

    config: BrokerConfig
    identity: Identity
    logs: Logs
    metadata: MetadataCache
    producer_ids: ProducerIds
    purgatory: Purgatory[TopicPartition]
    replicas: ReplicaManager
    topics: LocalTopics
    now_ms: Callable[[], int]


def make_handlers(parts: Parts, served: Callable[[], Served]) -> Mapping[ApiKey, Handler]:
    """Return all handlers; `served` is what ApiVersions tells of them."""
    config, metadata, replicas = parts.config, parts.metadata, parts.replicas
    purgatory, topics, identity = parts.purgatory, parts.topics, parts.identity
    auto_create = topics.auto_create if config.auto_create_topics_enable else None
    alter = AlterConfigsHandler(metadata, topics, config)
    return {
        ApiKey.API_VERSIONS: ApiVersionsHandler(served).handle,
        ApiKey.METADATA: MetadataHandler(metadata, identity.cluster_id, auto_create).handle,
        ApiKey.PRODUCE: ProduceHandler(replicas, purgatory, parts.now_ms).handle,
        ApiKey.FETCH: FetchHandler(replicas, purgatory, config.fetch_max_bytes).handle,
        ApiKey.LIST_OFFSETS: ListOffsetsHandler(replicas).handle,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochHandler(replicas).handle,
        ApiKey.DELETE_RECORDS: DeleteRecordsHandler(replicas).handle,
        ApiKey.CREATE_TOPICS: CreateTopicsHandler(metadata, topics, config).handle,
        ApiKey.CREATE_PARTITIONS: CreatePartitionsHandler(metadata, topics).handle,
        ApiKey.DELETE_TOPICS: DeleteTopicsHandler(
            metadata, topics, is_enabled=config.delete_topic_enable
        ).handle,
        ApiKey.DESCRIBE_CONFIGS: DescribeConfigsHandler(
            metadata, topics, config, identity.broker_id
        ).handle,
        ApiKey.ALTER_CONFIGS: alter.handle,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: alter.handle_incremental,
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterHandler(metadata, identity.cluster_id).handle,
        ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsHandler(parts.logs).handle,
        ApiKey.FIND_COORDINATOR: FindCoordinatorHandler().handle,
        ApiKey.INIT_PRODUCER_ID: InitProducerIdHandler(parts.producer_ids).handle,
    }

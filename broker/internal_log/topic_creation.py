"""The internal topics that a broker asks for at the first use (edge).

Any broker may create them, and places their partitions.
"""

from __future__ import annotations

from typing import Final

import structlog

from broker.cluster.cluster_topics import ClusterTopics
from broker.cluster.metadata_watch import MetadataWatch, has_leaders
from broker.cluster.topic_plan import TopicSpec
from broker.config.broker_config import BrokerConfig
from kafkawire.errors import ApiError
from kafkawire.internal_topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

LEADERS_WAIT_MS: Final = 1000
"""Time that the first client waits for leaders; without leaders it must retry."""

log = structlog.get_logger(__name__)


class TopicCreation:
    """Creates the topics of coordinators."""

    def __init__(self, topics: ClusterTopics, watch: MetadataWatch, config: BrokerConfig) -> None:
        self._topics = topics
        self._watch = watch
        self._specs = {
            spec.name: spec for spec in (offsets_topic(config), transactions_topic(config))
        }

    def has(self, name: str) -> bool:
        """Whether a topic exists."""
        return name in self._watch.image.topics

    async def create(self, name: str) -> None:
        """Create a topic, and wait for its leaders; without them clients must retry."""
        spec = self._specs[name]
        try:
            await self._topics.create(self._topics.plan(spec))
            await self._watch.wait_for(
                lambda image: has_leaders(image, name, spec.partition_count), LEADERS_WAIT_MS
            )
        except ApiError as error:
            # Clients retry until there are enough brokers.
            log.warning("topic.rejected", topic=name, error=str(error))


def offsets_topic(config: BrokerConfig) -> TopicSpec:
    """Return the request that creates `__consumer_offsets`.

    A standalone broker can keep only one replica. In a cluster the topic is not created before
    there are enough brokers, so that its first records are replicated like all others.

    Source: GroupCoordinator.offsetsTopicConfigs of Kafka 3.9.
    """
    groups = config.groups
    return TopicSpec(
        name=OFFSETS_TOPIC,
        partition_count=groups.offsets_topic_num_partitions,
        replication_factor=_replicas(config, groups.offsets_topic_replication_factor),
        configs={
            "cleanup.policy": "compact",
            "segment.bytes": str(groups.offsets_topic_segment_bytes),
            "compression.type": "producer",
        },
    )


def transactions_topic(config: BrokerConfig) -> TopicSpec:
    """Return the request that creates `__transaction_state`.

    Source: TransactionStateManager.transactionTopicConfigs of Kafka 3.9.
    """
    groups = config.groups
    return TopicSpec(
        name=TRANSACTIONS_TOPIC,
        partition_count=groups.transaction_state_log_num_partitions,
        replication_factor=_replicas(config, groups.transaction_state_log_replication_factor),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(groups.transaction_state_log_min_isr),
            "segment.bytes": str(groups.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


def _replicas(config: BrokerConfig, configured: int) -> int:
    is_standalone = config.server.zookeeper_connect is None
    return 1 if is_standalone else configured

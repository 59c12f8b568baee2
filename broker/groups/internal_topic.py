"""Settings of the topics that brokers create for themselves (decision).

Source: AutoTopicCreationManager and GroupCoordinator.offsetsTopicConfigs of Kafka 3.9.
"""

from __future__ import annotations

from broker.cluster.topic_plan import TopicSpec
from broker.config.broker_config import BrokerConfig
from kafkawire.group_records import OFFSETS_TOPIC


def offsets_topic(config: BrokerConfig) -> TopicSpec:
    """Return the request that creates `__consumer_offsets`.

    A standalone broker can keep only one replica. In a cluster the topic is not created before
    there are enough brokers, so that its first records are replicated like all others.
    """
    is_standalone = config.zookeeper_connect is None
    return TopicSpec(
        name=OFFSETS_TOPIC,
        partition_count=config.offsets_topic_num_partitions,
        replication_factor=1 if is_standalone else config.offsets_topic_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
            "compression.type": "producer",
        },
    )

"""How the topics look that brokers make for themselves (decision).

Source: AutoTopicCreationManager and GroupCoordinator.offsetsTopicConfigs of Kafka 3.9.
"""

from __future__ import annotations

from broker.cluster.topic_plan import TopicWish
from broker.config import BrokerConfig
from kafkawire.group_records import OFFSETS_TOPIC


def offsets_topic(config: BrokerConfig) -> TopicWish:
    """Return how `__consumer_offsets` is to be created.

    A broker that stands alone can only ever keep one replica; in a cluster the topic waits until
    there are enough brokers, so that its first records are as safe as its last.
    """
    stands_alone = config.zookeeper_connect is None
    return TopicWish(
        name=OFFSETS_TOPIC,
        partition_count=config.offsets_topic_num_partitions,
        replication_factor=1 if stands_alone else config.offsets_topic_replication_factor,
        configs={
            "cleanup.policy": "compact",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
            "compression.type": "producer",
        },
    )

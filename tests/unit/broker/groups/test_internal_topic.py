from broker.config.broker_config import BrokerConfig
from broker.groups.internal_topic import offsets_topic


def test_offsets_topic_follows_the_broker_config() -> None:
    spec = offsets_topic(
        BrokerConfig.from_properties(
            {"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "9999"}
        )
    )
    assert (spec.name, spec.partition_count) == ("__consumer_offsets", 7)
    assert spec.configs["cleanup.policy"] == "compact"
    assert spec.configs["segment.bytes"] == "9999"
    assert spec.configs["compression.type"] == "producer"


def test_offsets_topic_of_a_standalone_broker_has_one_replica() -> None:
    alone = BrokerConfig.from_properties({})
    member = BrokerConfig.from_properties({"zookeeper.connect": "127.0.0.1:2181"})
    assert offsets_topic(alone).replication_factor == 1
    assert offsets_topic(member).replication_factor == 3

from broker.config import BrokerConfig
from broker.groups.internal_topic import offsets_topic


def test_offsets_topic_follows_the_broker_config() -> None:
    wish = offsets_topic(
        BrokerConfig.from_properties(
            {"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "9999"}
        )
    )
    assert (wish.name, wish.partition_count) == ("__consumer_offsets", 7)
    assert wish.configs["cleanup.policy"] == "compact"
    assert wish.configs["segment.bytes"] == "9999"
    assert wish.configs["compression.type"] == "producer"


def test_offsets_topic_of_a_standalone_broker_has_one_replica() -> None:
    alone = BrokerConfig.from_properties({})
    member = BrokerConfig.from_properties({"zookeeper.connect": "127.0.0.1:2181"})
    assert offsets_topic(alone).replication_factor == 1
    assert offsets_topic(member).replication_factor == 3

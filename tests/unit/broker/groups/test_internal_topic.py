from broker.config import BrokerConfig
from broker.groups.internal_topic import offsets_topic


def test_the_offsets_topic_is_compacted_and_as_large_as_the_broker_says() -> None:
    wish = offsets_topic(
        BrokerConfig.from_properties(
            {"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "9999"}
        )
    )
    assert (wish.name, wish.partition_count) == ("__consumer_offsets", 7)
    assert wish.configs["cleanup.policy"] == "compact"
    assert wish.configs["segment.bytes"] == "9999"
    assert wish.configs["compression.type"] == "producer"


def test_a_broker_alone_keeps_one_replica_and_a_cluster_what_it_is_told() -> None:
    alone = BrokerConfig.from_properties({})
    member = BrokerConfig.from_properties({"zookeeper.connect": "127.0.0.1:2181"})
    assert offsets_topic(alone).replication_factor == 1
    assert offsets_topic(member).replication_factor == 3

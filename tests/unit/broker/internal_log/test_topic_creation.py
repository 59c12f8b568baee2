"""The configs of internal topics: `broker.internal_log.topic_creation`."""

from broker.config.broker_config import BrokerConfig
from broker.internal_log.topic_creation import offsets_topic, transactions_topic


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


def test_topic_of_transactions_follows_the_broker_config() -> None:
    spec = transactions_topic(
        BrokerConfig.from_properties(
            {
                "transaction.state.log.num.partitions": "7",
                "transaction.state.log.segment.bytes": "9999",
                "transaction.state.log.min.isr": "1",
                "transaction.state.log.replication.factor": "2",
                "zookeeper.connect": "127.0.0.1:2181",
            }
        )
    )
    assert (spec.name, spec.partition_count) == ("__transaction_state", 7)
    assert spec.replication_factor == 2
    assert spec.configs == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "9999",
        "unclean.leader.election.enable": "false",
    }


def test_topic_of_transactions_of_a_standalone_broker_has_one_replica() -> None:
    assert transactions_topic(BrokerConfig.from_properties({})).replication_factor == 1

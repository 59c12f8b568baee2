"""This broker's image of the cluster: `broker.cluster.metadata_cache`."""

import uuid

import pytest

from broker.cluster.metadata_cache import (
    ClusterImage,
    Endpoint,
    LiveBroker,
    MetadataCache,
    TopicState,
)
from broker.cluster.metadata_update import updated
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId, LeaderEpoch, TopicPartition
from kafkawire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.unit.broker.metadata import partition_state, put_topics, remove_topics, set_brokers

B1, B2 = BrokerId(1), BrokerId(2)
PARTITION = partition_state(0, B1, B1, leader_epoch=3)


def topic(name: str) -> TopicState:
    return TopicState(name=name, topic_id=uuid.uuid4(), partitions={0: PARTITION})


def test_topics_are_found_by_name_and_by_id() -> None:
    cache, added = MetadataCache(), topic("t")
    put_topics(cache, [added])
    assert cache.image.topics == {"t": added}
    assert cache.image.topic_names == {added.topic_id: "t"}
    assert cache.image.partition(TopicPartition("t", 0)) is PARTITION
    assert cache.image.partition(TopicPartition("t", 1)) is None
    assert cache.image.partition(TopicPartition("u", 0)) is None


def test_recreated_topic_has_only_its_new_id() -> None:
    cache = MetadataCache()
    put_topics(cache, [topic("t"), topic("u")])
    put_topics(cache, [again := topic("t")])
    assert cache.image.topics["t"] is again
    assert len(cache.image.topic_names) == 2


def test_removed_topics_are_gone_by_name_and_by_id() -> None:
    cache = MetadataCache()
    put_topics(cache, [topic("t"), kept := topic("u")])
    remove_topics(cache, "t", "never there")
    assert cache.image.topics == {"u": kept}
    assert cache.image.topic_names == {kept.topic_id: "u"}


def test_image_never_changes() -> None:
    cache = MetadataCache()
    before = cache.image
    put_topics(cache, [topic("t")])
    set_brokers(cache, [LiveBroker(broker_id=B1, endpoints={})], B1)
    assert (before.topics, before.brokers) == ({}, {})


def test_broker_has_endpoints_only_for_its_listeners() -> None:
    cache = MetadataCache()
    endpoint = Endpoint("h", 9092)
    set_brokers(cache, [LiveBroker(broker_id=B1, endpoints={"A": endpoint})], B1)
    assert cache.image.endpoint(B1, "A") == endpoint
    assert cache.image.endpoint(B1, "B") is None
    assert cache.image.endpoint(BrokerId(2), "A") is None
    assert cache.image.controller_id == B1


def test_internal_topics_are_known_by_name() -> None:
    assert topic("__consumer_offsets").is_internal
    assert not topic("t").is_internal


@pytest.mark.parametrize(
    ("name", "code"),
    [("a b", ErrorCode.INVALID_TOPIC_EXCEPTION), ("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
)
def test_missing_topic_is_refused(name: str, code: ErrorCode) -> None:
    cache = MetadataCache()
    put_topics(cache, [topic("t")])
    cache.image.check_topic("t")
    with pytest.raises(ApiError) as caught:
        cache.image.check_topic(name)
    assert caught.value.code is code


# The states for a new controller

T_ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)
STATE = UpdateMetadataPartitionState(
    partition_index=3,
    controller_epoch=4,
    leader=1,
    leader_epoch=5,
    isr=[1, 2],
    zk_version=6,
    replicas=[1, 2],
)
TOPIC = UpdateMetadataTopicState(topic_name="t", topic_id=T_ID, partition_states=[STATE])
IMAGE = updated(ClusterImage(), UpdateMetadataRequest(topic_states=[TOPIC], live_brokers=[]))


def test_known_state_is_returned_as_the_controller_sent_it() -> None:
    assert IMAGE.known_states("t", T_ID) == {
        3: LeaderAndIsr(
            leader=B1,
            isr=(B1, B2),
            controller_epoch=4,
            leader_epoch=LeaderEpoch(5),
            partition_epoch=6,
        )
    }


def test_other_topic_has_no_known_states() -> None:
    assert IMAGE.known_states("t", OTHER_ID) == {}
    assert IMAGE.known_states("u", T_ID) == {}


def test_known_state_without_partition_epoch_is_skipped() -> None:
    known = TopicState(name="t", topic_id=T_ID, partitions={0: PARTITION})
    assert ClusterImage(topics={"t": known}).known_states("t", T_ID) == {}

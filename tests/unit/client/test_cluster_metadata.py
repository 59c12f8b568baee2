"""Merging a metadata response into the known metadata."""

from collections.abc import Sequence
from uuid import UUID

from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafkawire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.client.client_config import Address
from ottla.client.cluster_metadata import (
    BELIEVED_RESPONSES,
    MAX_FORMER_IDS,
    NO_BROKERS,
    ClusterMetadata,
    merge,
    refusal,
    with_leader,
    without_topics,
)
from ottla.client.errors import NotAuthorizedError

T0 = TopicPartition("t", 0)
OLD_ID, NEW_ID = UUID(int=1), UUID(int=2)


def topic(
    leader: int, epoch: int, topic_id: UUID = OLD_ID, error: ErrorCode = ErrorCode.NONE
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name="t",
        topic_id=topic_id,
        error_code=error,
        partitions=[
            MetadataResponsePartition(
                partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[0, 1]
            )
        ],
    )


def response(*topics: MetadataResponseTopic, brokers: Sequence[int] = (0, 1)) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=each, host="h", port=each) for each in brokers],
        cluster_id="c",
        controller_id=1,
        topics=topics,
    )


def test_a_response_becomes_the_metadata() -> None:
    metadata = merge(ClusterMetadata(), response(topic(1, 5)), None)
    assert metadata.brokers == {0: Address("h", 0), 1: Address("h", 1)}
    assert (metadata.cluster_id, metadata.controller_id) == ("c", 1)
    assert metadata.leader(T0) == 1
    held = metadata.partition(T0)
    assert held is not None
    assert (held.leader_epoch, held.replicas) == (5, (0, 1))


def test_an_unknown_partition_has_no_leader() -> None:
    metadata = merge(ClusterMetadata(), response(topic(7, 5)), None)
    assert metadata.leader(TopicPartition("nowhere", 0)) is None
    assert metadata.leader(TopicPartition("t", 1)) is None
    # Broker 7 leads, but cannot be reached.
    assert metadata.leader(T0) is None


def test_a_lagging_broker_does_not_restore_an_old_leader() -> None:
    metadata = merge(ClusterMetadata(), response(topic(1, 5)), None)
    assert merge(metadata, response(topic(0, 4)), None).leader(T0) == 1
    assert merge(metadata, response(topic(0, 6)), None).leader(T0) == 0


def test_a_leader_without_epoch_is_accepted() -> None:
    metadata = merge(ClusterMetadata(), response(topic(1, 5)), None)
    assert merge(metadata, response(topic(0, -1)), None).leader(T0) == 0


def test_a_recreated_topic_restarts_its_epochs() -> None:
    metadata = merge(ClusterMetadata(), response(topic(1, 5)), None)
    assert merge(metadata, response(topic(0, 0, topic_id=NEW_ID)), None).leader(T0) == 0


def test_a_lagging_broker_does_not_restore_a_deleted_topic() -> None:
    metadata = merge(ClusterMetadata(), response(topic(1, 5)), None)
    recreated = merge(metadata, response(topic(0, 0, topic_id=NEW_ID)), None)
    lagging = merge(recreated, response(topic(1, 6)), None)
    assert lagging.topics == recreated.topics
    moved = merge(lagging, response(topic(1, 1, topic_id=NEW_ID)), None)
    assert moved.leader(T0) == 1
    assert merge(moved, response(topic(0, 6)), None).topics == moved.topics
    # A broker too old for ids says nothing about them.
    assert merge(moved, response(topic(0, 6, topic_id=ZERO_TOPIC_ID)), None).leader(T0) == 0


def test_a_lagging_broker_does_not_restore_one_of_many_deleted_topics() -> None:
    ids = [TopicId(int=number) for number in range(1, 4)]
    metadata = ClusterMetadata()
    for each in ids:
        metadata = merge(metadata, response(topic(0, 0, topic_id=each)), None)
    for each in ids[:2]:
        lagging = merge(metadata, response(topic(1, 6, topic_id=each)), None)
        assert lagging.topics == metadata.topics
    assert metadata.topics["t"].former_ids == (ids[1], ids[0])


def test_an_unknown_deleted_topic_is_corrected_by_repeated_responses() -> None:
    """As from a broker that lags, with a topic that came and went between two refreshes."""
    metadata = merge(ClusterMetadata(), response(topic(1, 5, topic_id=NEW_ID)), None)
    metadata = merge(metadata, response(topic(0, 0)), None)
    old_id = metadata.topics["t"].topic_id
    for _ in range(BELIEVED_RESPONSES - 1):
        metadata = merge(metadata, response(topic(1, 5, topic_id=NEW_ID)), None)
        assert metadata.topics["t"].topic_id == old_id
    # The two are believed only in a row.
    metadata = merge(metadata, response(topic(0, 0)), None)
    for _ in range(BELIEVED_RESPONSES):
        assert metadata.topics["t"].topic_id == old_id
        metadata = merge(metadata, response(topic(1, 5, topic_id=NEW_ID)), None)
    assert (metadata.topics["t"].topic_id, metadata.leader(T0)) == (NEW_ID, 1)
    assert metadata.topics["t"].former_ids == (old_id,)


def test_the_number_of_remembered_topics_is_limited() -> None:
    metadata = ClusterMetadata()
    for number in range(1, 3 * MAX_FORMER_IDS):
        metadata = merge(metadata, response(topic(0, 0, topic_id=TopicId(int=number))), None)
    assert len(metadata.topics["t"].former_ids) == MAX_FORMER_IDS


def test_only_a_retriable_error_keeps_the_partitions() -> None:
    metadata = merge(ClusterMetadata(), response(topic(1, 5)), None)
    for code, leader in {
        ErrorCode.LEADER_NOT_AVAILABLE: 1,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: None,
    }.items():
        failed = MetadataResponseTopic(name="t", error_code=code)
        merged = merge(metadata, response(failed), None)
        assert merged.topics["t"].error is code
        assert merged.leader(T0) == leader


def test_a_topic_that_this_client_may_not_use_is_a_refusal() -> None:
    refused = MetadataResponseTopic(name="u", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    absent = MetadataResponseTopic(name="v", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    metadata = merge(ClusterMetadata(), response(topic(1, 5), refused, absent), None)
    assert refusal(metadata, ["t", "v", "w"]) is None
    found = refusal(metadata, ["t", "u"])
    assert isinstance(found, NotAuthorizedError)
    assert found.subject == "topic u"


def test_unwanted_topics_are_forgotten_and_others_kept() -> None:
    metadata = merge(ClusterMetadata(), response(topic(1, 5)), None)
    assert merge(metadata, response(), {"t"}).leader(T0) == 1
    assert merge(metadata, response(), {"other"}).topics == {}


def test_a_response_without_brokers_keeps_the_known_ones() -> None:
    metadata = merge(ClusterMetadata(), response(topic(1, 5)), None)
    assert merge(metadata, response(brokers=()), None).brokers.keys() == {0, 1}


def test_an_unknown_error_code_counts_as_an_error() -> None:
    failed = MetadataResponseTopic(name="t", error_code=12_345)
    merged = merge(ClusterMetadata(), response(failed), None)
    assert merged.topics["t"].error is ErrorCode.UNKNOWN_SERVER_ERROR


def test_partitions_without_leader_are_not_available() -> None:
    metadata = merge(ClusterMetadata(), response(topic(-1, 5)), None)
    assert metadata.topics["t"].available() == []
    assert metadata.leader(T0) is None
    assert BrokerId(-1) not in metadata.brokers


def test_a_topic_that_a_complete_response_lacks_is_gone() -> None:
    metadata = merge(ClusterMetadata(), response(topic(1, 5)), None, is_complete=True)
    assert metadata.is_complete
    assert merge(metadata, response(topic(1, 5)), {"t"}, is_complete=True).leader(T0) == 1
    gone = merge(metadata, response(), {"t"}, is_complete=True)
    assert gone.topics == {}
    assert not merge(gone, response(), None).is_complete


def test_a_response_may_name_a_newer_leader() -> None:
    metadata = merge(ClusterMetadata(), response(topic(1, 5)), None)
    moved = with_leader(metadata, T0, BrokerId(0), LeaderEpoch(6), NO_BROKERS)
    assert (moved.leader(T0), metadata.leader(T0)) == (0, 1)
    for leader, epoch in ((0, 5), (0, -1), (7, 6), (-1, -1)):
        named = with_leader(metadata, T0, BrokerId(leader), LeaderEpoch(epoch), NO_BROKERS)
        assert named is metadata
    unknown = TopicPartition("u", 0)
    assert with_leader(metadata, unknown, BrokerId(0), LeaderEpoch(6), NO_BROKERS) is metadata


def test_a_response_may_name_a_leader_that_has_just_joined() -> None:
    metadata = merge(ClusterMetadata(), response(topic(1, 5)), None)
    address = Address("joined.example", 9092)
    moved = with_leader(metadata, T0, BrokerId(7), LeaderEpoch(6), {BrokerId(7): address})
    assert (moved.leader(T0), moved.brokers[BrokerId(7)]) == (7, address)
    # A known address stays.
    named = {BrokerId(0): address}
    again = with_leader(metadata, T0, BrokerId(0), LeaderEpoch(6), named)
    assert again.brokers == metadata.brokers


def test_topics_can_be_forgotten() -> None:
    known = merge(ClusterMetadata(), response(topic(1, 5)), None)
    left = without_topics(known, ["t", "unknown"])
    assert (left.topics, left.brokers) == ({}, known.brokers)

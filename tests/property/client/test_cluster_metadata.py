"""A leader epoch never decreases, for stale responses of brokers in any order."""

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.ids import TopicPartition
from kafkawire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.client.cluster_metadata import ClusterMetadata, merge

T0 = TopicPartition("t", 0)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(-1, 3)), max_size=30))
def test_a_leader_epoch_never_goes_back(answers: list[tuple[int, int]]) -> None:
    metadata = ClusterMetadata()
    newest = -1
    for epoch, leader in answers:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=leader, leader_epoch=epoch
        )
        answer = MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=each, host="h", port=1) for each in range(3)],
            topics=[MetadataResponseTopic(name="t", partitions=[partition])],
        )
        metadata = merge(metadata, answer, None)
        held = metadata.partition(T0)
        assert held is not None
        newest = max(newest, epoch)
        assert held.leader_epoch == newest
        assert epoch < newest or held.leader == leader

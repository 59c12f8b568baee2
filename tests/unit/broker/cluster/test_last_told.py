"""Partition states for a controller, from the cluster image: `broker.cluster.last_told`."""

import uuid

from broker.cluster.last_told import known_states
from broker.cluster.metadata_cache import ClusterImage, PartitionState, TopicState
from broker.cluster.metadata_update import updated
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.ids import BrokerId, LeaderEpoch
from kafkawire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

T_ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)
B1, B2 = BrokerId(1), BrokerId(2)
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


def test_state_is_returned_as_the_controller_sent_it() -> None:
    assert known_states(IMAGE, "t", T_ID) == {
        3: LeaderAndIsr(
            leader=B1,
            isr=(B1, B2),
            controller_epoch=4,
            leader_epoch=LeaderEpoch(5),
            partition_epoch=6,
        )
    }


def test_other_topic_has_no_known_states() -> None:
    assert known_states(IMAGE, "t", OTHER_ID) == {}
    assert known_states(IMAGE, "u", T_ID) == {}


def test_state_without_partition_epoch_is_skipped() -> None:
    state = PartitionState(
        index=0, leader=B1, leader_epoch=LeaderEpoch(0), replicas=(B1,), isr=(B1,)
    )
    topic = TopicState(name="t", topic_id=T_ID, partitions={0: state})
    assert known_states(ClusterImage(topics={"t": topic}), "t", T_ID) == {}

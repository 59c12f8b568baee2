"""LeaderAndIsr and StopReplica in every version: `broker.replication.control_orders`."""

import pytest

from broker.replication.control_orders import (
    ReplicaStop,
    RoleChange,
    is_legal,
    replica_stops,
    role_changes,
    roles_response,
    stop_response,
)
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafkawire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from kafkawire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from kafkawire.schema import decode, encode

T0 = TopicPartition("t", 0)
ID = TopicId(int=5)


def role_request(version: int) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(
        topic_name="t" if version < 2 else "",
        partition_index=0,
        controller_epoch=7,
        leader=1,
        leader_epoch=3,
        isr=[1, 2],
        partition_epoch=8,
        replicas=[1, 2, 3],
        is_new=version >= 1,
    )
    if version < 2:
        return LeaderAndIsrRequest(ungrouped_partition_states=[state])
    topic = LeaderAndIsrTopicState(
        topic_name="t", topic_id=ID if version >= 5 else ZERO_TOPIC_ID, partition_states=[state]
    )
    return LeaderAndIsrRequest(topic_states=[topic])


@pytest.mark.parametrize("version", range(8))
def test_every_version_of_leader_and_isr_decodes_to_the_same_change(version: int) -> None:
    request = decode(LeaderAndIsrRequest, encode(role_request(version), version), version)
    assert list(role_changes(request)) == [
        RoleChange(
            topic_partition=T0,
            topic_id=ID if version >= 5 else ZERO_TOPIC_ID,
            state=LeaderAndIsr(
                leader=BrokerId(1),
                isr=(BrokerId(1), BrokerId(2)),
                controller_epoch=7,
                leader_epoch=LeaderEpoch(3),
                partition_epoch=8,
            ),
            replicas=frozenset({BrokerId(1), BrokerId(2), BrokerId(3)}),
            is_new=version >= 1,
        )
    ]


@pytest.mark.parametrize("version", range(8))
def test_every_version_of_leader_and_isr_gets_a_response(version: int) -> None:
    codes = {T0: ErrorCode.STALE_CONTROLLER_EPOCH}
    response = roles_response(role_request(version), codes, version)
    response = decode(LeaderAndIsrResponse, encode(response, version), version)
    if version >= 5:
        [topic] = response.topics
        assert topic.topic_id == ID
        [error] = topic.partition_errors
    else:
        [error] = response.partition_errors
        assert error.topic_name == "t"
    assert (error.partition_index, error.error_code) == (0, ErrorCode.STALE_CONTROLLER_EPOCH)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_stop_replica_decodes_to_the_same_stop(version: int) -> None:
    if version == 0:
        old = [StopReplicaPartitionV0(topic_name="t", partition_index=0)]
        request = StopReplicaRequest(delete_partitions=True, ungrouped_partitions=old)
    elif version < 3:
        topics = [StopReplicaTopicV1(name="t", partition_indexes=[0])]
        request = StopReplicaRequest(delete_partitions=True, topics=topics)
    else:
        state = StopReplicaPartitionState(partition_index=0, leader_epoch=4, delete_partition=True)
        states = [StopReplicaTopicState(topic_name="t", partition_states=[state])]
        request = StopReplicaRequest(topic_states=states)
    request = decode(StopReplicaRequest, encode(request, version), version)
    expected = ReplicaStop(topic_partition=T0, leader_epoch=4 if version >= 3 else -1, deletes=True)
    assert list(replica_stops(request)) == [expected]


def test_response_to_a_stop_names_the_topic() -> None:
    [error] = stop_response({T0: ErrorCode.FENCED_LEADER_EPOCH}).partition_errors
    assert (error.topic_name, error.partition_index) == T0
    assert error.error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        (T0, True),
        (TopicPartition("t", -1), False),
        (TopicPartition("../t", 0), False),
        (TopicPartition("t" * 250, 0), False),
    ],
)
def test_partition_without_a_valid_directory_name_is_not_legal(
    partition: TopicPartition, expected: bool
) -> None:
    assert is_legal(partition) is expected

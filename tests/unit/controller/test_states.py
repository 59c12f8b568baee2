"""State tables of partitions and replicas: every transition is allowed or refused."""

import itertools

import pytest

from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.znodes.registration import Registration
from controller.cluster import Cluster, LiveBroker
from controller.controller_config import ControllerConfig
from controller.errors import InvalidTransition
from controller.partition_state import PREDECESSORS as PARTITION_PREDECESSORS
from controller.partition_state import PartitionState
from controller.replica_state import PREDECESSORS as REPLICA_PREDECESSORS
from controller.replica_state import PartitionReplica, ReplicaState
from kafkawire.ids import BrokerId, TopicId, TopicPartition

T0 = TopicPartition("t", 0)
REPLICA = PartitionReplica(T0, BrokerId(1))


def cluster() -> Cluster:
    return Cluster(ControllerConfig(broker_id=BrokerId(1)), epoch=1, epoch_version=0)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(PartitionState, repeat=2)))
def test_partition_transitions_follow_the_table(
    source: PartitionState, target: PartitionState
) -> None:
    image = cluster()
    image.start_partition(T0, source)
    if source in PARTITION_PREDECESSORS[target]:
        image.move_partition(T0, target)
        assert image.partition_state(T0) is target
    else:
        with pytest.raises(InvalidTransition, match=f"{source} -> {target}"):
            image.move_partition(T0, target)
        assert image.partition_state(T0) is source


@pytest.mark.parametrize(("source", "target"), list(itertools.product(ReplicaState, repeat=2)))
def test_replica_transitions_follow_the_table(source: ReplicaState, target: ReplicaState) -> None:
    image = cluster()
    image.start_replica(REPLICA, source)
    allowed = source in REPLICA_PREDECESSORS[target]
    assert image.may_move_replica(REPLICA, target) is allowed
    if allowed:
        image.move_replica(REPLICA, target)
        assert image.replica_state(REPLICA) is target
    else:
        with pytest.raises(InvalidTransition, match=f"{source} -> {target}"):
            image.move_replica(REPLICA, target)


def test_a_removed_topic_is_forgotten_on_failed_disks() -> None:
    image = cluster()
    stays = TopicPartition("stays", 0)
    for partition in (T0, stays):
        image.assign(partition, ReplicaAssignment((BrokerId(1),)))
    image.brokers[BrokerId(1)] = LiveBroker(
        Registration(broker_id=BrokerId(1), endpoints=()), epoch=1
    )
    image.offline_dirs[BrokerId(1)] = {T0, stays}
    assert image.online(T0) == frozenset()
    image.remove_topic("t")
    assert image.offline_dirs == {BrokerId(1): {stays}}
    assert image.online(stays) == frozenset()


def test_a_topic_is_found_by_its_present_id() -> None:
    image, former, present = cluster(), TopicId(int=1), TopicId(int=2)
    image.add_topic("t", former)
    image.add_topic("t", None)
    assert image.topic_named(former) == "t"
    image.add_topic("t", present)
    assert (image.topic_named(former), image.topic_named(present)) == (None, "t")
    image.remove_topic("t")
    assert image.topic_named(present) is None


class ComparedId(TopicId):
    """Topic id that counts its comparisons."""

    compared_count = 0

    def __eq__(self, other: object) -> bool:
        ComparedId.compared_count += 1
        return super().__eq__(other)

    __hash__ = TopicId.__hash__


def test_a_topic_is_found_by_its_id_without_a_scan() -> None:
    image = cluster()
    ids = [ComparedId(int=number) for number in range(1, 101)]
    for topic_id in ids:
        image.add_topic(f"t{topic_id.int}", topic_id)
    before = ComparedId.compared_count
    assert [image.topic_named(one) for one in ids] == [f"t{one.int}" for one in ids]
    assert ComparedId.compared_count - before <= len(ids)

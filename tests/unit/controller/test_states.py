"""The tables of states: every pair is allowed or refused."""

import itertools

import pytest

from controller.cluster import Cluster, LiveBroker
from controller.config import ControllerConfig
from controller.errors import InvalidTransition
from controller.partition_state import PREDECESSORS as PARTITION_PREDECESSORS
from controller.partition_state import PartitionState
from controller.replica_assignment import ReplicaAssignment
from controller.replica_state import PREDECESSORS as REPLICA_PREDECESSORS
from controller.replica_state import PartitionReplica, ReplicaState
from controller.znodes.registration import Registration
from kafkawire.ids import BrokerId, TopicPartition

T0 = TopicPartition("t", 0)
REPLICA = PartitionReplica(T0, BrokerId(1))


def cluster() -> Cluster:
    return Cluster(ControllerConfig(broker_id=BrokerId(1)), epoch=1, epoch_version=0)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(PartitionState, repeat=2)))
def test_every_move_of_a_partition(source: PartitionState, target: PartitionState) -> None:
    picture = cluster()
    picture.start_partition(T0, source)
    if source in PARTITION_PREDECESSORS[target]:
        picture.move_partition(T0, target)
        assert picture.partition_state(T0) is target
    else:
        with pytest.raises(InvalidTransition, match=f"{source} -> {target}"):
            picture.move_partition(T0, target)
        assert picture.partition_state(T0) is source


@pytest.mark.parametrize(("source", "target"), list(itertools.product(ReplicaState, repeat=2)))
def test_every_move_of_a_replica(source: ReplicaState, target: ReplicaState) -> None:
    picture = cluster()
    picture.start_replica(REPLICA, source)
    allowed = source in REPLICA_PREDECESSORS[target]
    assert picture.may_move_replica(REPLICA, target) is allowed
    if allowed:
        picture.move_replica(REPLICA, target)
        assert picture.replica_state(REPLICA) is target
    else:
        with pytest.raises(InvalidTransition, match=f"{source} -> {target}"):
            picture.move_replica(REPLICA, target)


def test_a_topic_that_goes_is_not_missed_on_a_failed_disk() -> None:
    picture = cluster()
    stays = TopicPartition("stays", 0)
    for partition in (T0, stays):
        picture.assign(partition, ReplicaAssignment((BrokerId(1),)))
    picture.brokers[BrokerId(1)] = LiveBroker(
        Registration(broker_id=BrokerId(1), endpoints=()), epoch=1
    )
    picture.offline_dirs[BrokerId(1)] = {T0, stays}
    assert picture.online(T0) == frozenset()
    picture.remove_topic("t")
    assert picture.offline_dirs == {BrokerId(1): {stays}}
    assert picture.online(stays) == frozenset()

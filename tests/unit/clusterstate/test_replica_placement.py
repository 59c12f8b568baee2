"""Assignment of replicas to brokers: equals Kafka's results for the same random numbers."""

import pytest

from clusterstate.replica_assignment import ReplicaAssignment
from clusterstate.replica_placement import (
    RandomStart,
    assign_replicas,
    grow_assignment,
    rack_alternated,
)
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId

FIVE = {BrokerId(number): None for number in range(5)}
RACKS = {
    BrokerId(number): rack
    for number, rack in enumerate(["rack1", "rack3", "rack3", "rack2", "rack2", "rack1"])
}


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(one) for one in ids)


def test_assignment_without_racks_equals_kafkas_own_test() -> None:
    assert assign_replicas(FIVE, 10, 3, RandomStart(0, 0)) == {
        0: brokers(0, 1, 2),
        1: brokers(1, 2, 3),
        2: brokers(2, 3, 4),
        3: brokers(3, 4, 0),
        4: brokers(4, 0, 1),
        5: brokers(0, 2, 3),
        6: brokers(1, 3, 4),
        7: brokers(2, 4, 0),
        8: brokers(3, 0, 1),
        9: brokers(4, 1, 2),
    }


def test_brokers_alternate_between_racks() -> None:
    assert rack_alternated(RACKS) == [0, 3, 1, 5, 4, 2]
    assert rack_alternated({**RACKS, BrokerId(6): "rack3"}) == [0, 3, 1, 5, 4, 2, 6]


def test_assignment_with_racks_equals_kafkas_documentation() -> None:
    assert assign_replicas(RACKS, 7, 3, RandomStart(0, 0)) == {
        0: brokers(0, 3, 1),
        1: brokers(3, 1, 5),
        2: brokers(1, 5, 4),
        3: brokers(5, 4, 2),
        4: brokers(4, 2, 0),
        5: brokers(2, 0, 3),
        6: brokers(0, 4, 2),
    }


def test_added_partitions_continue_the_existing_assignment() -> None:
    whole = assign_replicas(FIVE, 8, 3, RandomStart(1, 1))
    existing = {number: ReplicaAssignment(replicas=whole[number]) for number in range(3)}
    assert grow_assignment(FIVE, existing, 8) == {number: whole[number] for number in range(3, 8)}


def test_racks_on_only_some_brokers_are_refused() -> None:
    some = {**FIVE, BrokerId(0): "rack1"}
    with pytest.raises(ApiError, match=r"brokers 1, 2, 3, 4 have no broker.rack") as refused:
        assign_replicas(some, 10, 3, RandomStart(0, 0))
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_single_broker_holds_all_replicas() -> None:
    assert assign_replicas({BrokerId(7): None}, 2, 1, RandomStart(0, 0)) == {0: (7,), 1: (7,)}


@pytest.mark.parametrize(
    ("partition_count", "replication_factor", "code"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 6, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_invalid_counts_are_refused(
    partition_count: int, replication_factor: int, code: ErrorCode
) -> None:
    with pytest.raises(ApiError) as raised:
        assign_replicas(FIVE, partition_count, replication_factor, RandomStart(0, 0))
    assert raised.value.code is code


def test_a_topic_never_shrinks() -> None:
    existing = {0: ReplicaAssignment(replicas=brokers(0))}
    with pytest.raises(ApiError):
        grow_assignment(FIVE, existing, 1)


def test_a_reassignment_holds_origin_and_target_until_it_ends() -> None:
    moving = ReplicaAssignment(replicas=brokers(1, 2, 3)).reassign_to(brokers(4, 2))
    assert moving == ReplicaAssignment(
        replicas=brokers(4, 2, 1, 3), adding=brokers(4), removing=brokers(1, 3)
    )
    assert moving.is_moving
    assert (set(moving.origin), moving.target) == (set(brokers(1, 2, 3)), brokers(4, 2))
    assert moving.reassign_to(moving.origin).is_moving is False
    again = moving.reassign_to(brokers(5, 2))
    assert (again.adding, set(again.removing)) == (brokers(5), set(brokers(1, 3)))

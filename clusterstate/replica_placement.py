"""Assignment of replicas of new partitions to brokers (decision).

For the same random numbers the result equals Kafka's. Leaders are assigned to the brokers in turn.
The followers of each round are shifted by one more, so that the load of a dead broker spreads over
all others. With racks, brokers are taken from each rack in turn, and no rack gets a second replica
before each has one.

Source: org.apache.kafka.admin.AdminUtils, kafka.zk.AdminZkClient of Kafka 3.9.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clusterstate.replica_assignment import ReplicaAssignment, Replicas
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId

Racks = Mapping[BrokerId, str | None]
"""Rack of each live broker; None for a broker without one."""


class RandomStart(NamedTuple):
    """Random start of a topic's assignment: two numbers below the number of brokers."""

    start_index: int
    replica_shift: int


def assign_replicas(
    racks: Racks,
    partition_count: int,
    replication_factor: int,
    start: RandomStart,
    *,
    first_partition: int = 0,
) -> dict[int, Replicas]:
    """Return the replicas of each new partition; the first of each is the preferred leader.

    Raises:
        ApiError: INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, or INVALID_REPLICA_ASSIGNMENT if
            only some of the brokers have a rack.
    """
    _check(racks, partition_count, replication_factor)
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    brokers = rack_alternated(known) if known else sorted(racks)
    place = _Placement(brokers, known, replication_factor)
    shift, assignment = start.replica_shift, {}
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        assignment[partition] = place.replicas(
            (partition + start.start_index) % len(brokers), shift
        )
    return assignment


def grow_assignment(
    racks: Racks, existing: Mapping[int, ReplicaAssignment], partition_count: int
) -> dict[int, Replicas]:
    """Return the replicas of the partitions that grow a topic to `partition_count`.

    They continue where the existing ones end, with the replication factor of partition 0.

    Raises:
        ApiError: the topic already has that many partitions, or there are too few brokers.
    """
    added = partition_count - len(existing)
    if added <= 0 or 0 not in existing:
        text = f"topic has {len(existing)} partitions already, {partition_count} requested"
        raise ApiError(ErrorCode.INVALID_PARTITIONS, text)
    first = existing[0].replicas
    brokers = sorted(racks)
    start = next((i for i, broker in enumerate(brokers) if broker >= first[0]), 0)
    return assign_replicas(
        racks, added, len(first), RandomStart(start, start), first_partition=len(existing)
    )


def rack_alternated(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """Return the brokers, ordered so that neighbours are in different racks where possible."""
    by_rack: dict[str, list[BrokerId]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    deepest = max(map(len, by_rack.values()), default=0)
    return [
        by_rack[rack][turn]
        for turn in range(deepest)
        for rack in sorted(by_rack)
        if turn < len(by_rack[rack])
    ]


class _Placement:
    """Chooses the replicas of one partition after another; without `racks`, racks are ignored."""

    def __init__(
        self, brokers: Sequence[BrokerId], racks: Mapping[BrokerId, str], replication_factor: int
    ) -> None:
        self._brokers = brokers
        self._racks = racks
        self._rack_count = len(set(racks.values()))
        self._followers = replication_factor - 1

    def replicas(self, leader_index: int, shift: int) -> Replicas:
        if not self._racks:
            followers = (self._at(leader_index, shift, number) for number in range(self._followers))
            return (self._brokers[leader_index], *followers)
        return self._rack_aware(leader_index, shift * self._rack_count)

    def _rack_aware(self, leader_index: int, shift: int) -> Replicas:
        chosen = [self._brokers[leader_index]]
        used = {self._racks[chosen[0]]}
        number = 0
        while len(chosen) <= self._followers:
            broker = self._at(leader_index, shift, number)
            number += 1
            is_fresh = self._racks[broker] not in used or len(used) == self._rack_count
            if is_fresh and broker not in chosen:
                chosen.append(broker)
                used.add(self._racks[broker])
        return tuple(chosen)

    def _at(self, leader_index: int, shift: int, number: int) -> BrokerId:
        # Never the leader itself: the distance is between 1 and the number of other brokers.
        distance = 1 + (shift + number) % (len(self._brokers) - 1)
        return self._brokers[(leader_index + distance) % len(self._brokers)]


def _check(racks: Racks, partition_count: int, replication_factor: int) -> None:
    if partition_count <= 0:
        text = f"partition count must be at least 1, got {partition_count}"
        raise ApiError(ErrorCode.INVALID_PARTITIONS, text)
    if not 1 <= replication_factor <= len(racks):
        text = (
            f"replication factor must be within 1..{len(racks)}, the number of live brokers, "
            f"got {replication_factor}"
        )
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    without = sorted(broker for broker, rack in racks.items() if rack is None)
    if 0 < len(without) < len(racks):
        text = f"brokers {', '.join(map(str, without))} have no broker.rack, others have one"
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)

"""A small cluster as the console observes it."""

from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicPartition
from ottla.client.admin_model import (
    ClusterDescription,
    GroupDescription,
    GroupMember,
    LogDirectory,
    ReplicaLog,
    TopicDescription,
)
from ottla.client.client_config import Address
from ottla.client.cluster_metadata import PartitionMetadata
from ottla.client.offset import CommittedOffset
from ottla.console.observation.observation import LogRange, Observation, ObservedGroup

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def partition(
    number: int, leader: int, replicas: tuple[int, ...] = (1, 2), isr: tuple[int, ...] = (1, 2)
) -> PartitionMetadata:
    return PartitionMetadata(
        partition=number,
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(4),
        replicas=tuple(map(BrokerId, replicas)),
        isr=tuple(map(BrokerId, isr)),
    )


def topic(name: str, *partitions: PartitionMetadata, is_internal: bool = False) -> TopicDescription:
    return TopicDescription(
        name=name, topic_id=ZERO_TOPIC_ID, is_internal=is_internal, partitions=partitions
    )


def cluster(*brokers: int, controller: int = 1) -> ClusterDescription:
    return ClusterDescription(
        cluster_id="c",
        controller_id=BrokerId(controller),
        brokers={BrokerId(each): Address("127.0.0.1", 9092 + each) for each in brokers},
        racks={ONE: "r1"},
    )


def log_directory(broker: int, *sizes: tuple[TopicPartition, int]) -> LogDirectory:
    return LogDirectory(
        broker_id=BrokerId(broker),
        path=f"/data/{broker}",
        total_bytes=1_000 if broker == 1 else -1,
        usable_bytes=250 if broker == 1 else -1,
        replicas=tuple(
            ReplicaLog(topic_partition=each, size_bytes=size, offset_lag=0, is_future=size < 0)
            for each, size in sizes
        ),
    )


def member(*partitions: TopicPartition, client: str = "app") -> GroupMember:
    return GroupMember(
        member_id=f"{client}-1",
        instance_id=None,
        client_id=client,
        client_host="/127.0.0.1",
        partitions=partitions or None,
    )


def group(name: str, committed: dict[TopicPartition, int], *members: GroupMember) -> ObservedGroup:
    return ObservedGroup(
        GroupDescription(
            group_id=name,
            state="Stable" if members else "Empty",
            protocol_type="consumer",
            assignor="range",
            members=members,
        ),
        {each: CommittedOffset(Offset(at), metadata="m") for each, at in committed.items()},
    )


def ranges(*held: tuple[TopicPartition, int, int]) -> dict[TopicPartition, LogRange]:
    return {each: LogRange(Offset(start), Offset(end)) for each, start, end in held}


def observed() -> Observation:
    """Return a cluster of two live brokers and one that is offline, with two topics."""
    observation = Observation()
    observation.on_metadata(
        cluster(1, 2),
        {
            "orders": topic("orders", partition(0, 1), partition(1, 2, (2, 3), (2,))),
            "__state": topic("__state", partition(0, -1, (3,), (3,)), is_internal=True),
        },
    )
    return observation

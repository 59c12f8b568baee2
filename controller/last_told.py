"""What a broker was told of partitions before it became controller itself (decision).

A takeover can elect leaders by it before it has read the state of every partition. That is safe:
the version that a state had when it was told guards the write, and where it is not the node's any
more that node is read.
"""

from collections.abc import Callable, Mapping
from typing import Final

from controller.cluster import Cluster
from controller.leader_and_isr import NO_LEADER, LeaderAndIsr
from kafkawire.ids import TopicId, TopicPartition

LastTold = Callable[[str, TopicId], Mapping[int, LeaderAndIsr]]
"""Returns what is remembered of a topic's partitions, by number; nothing of one with another id:
the nodes of a topic that was made anew have the same versions again."""
MIN_ISR_SIZE: Final = 2
"""Brokers are not told the recovery state. A leader that recovers is alone in its in-sync set."""


def nothing_told(_topic: str, _topic_id: TopicId) -> Mapping[int, LeaderAndIsr]:
    """Remember nothing."""
    return {}


def remember_leaderless(cluster: Cluster, last_told: LastTold) -> list[TopicPartition]:
    """Take the states of partitions whose leader is dead into the picture, and return those."""
    found: list[TopicPartition] = []
    for topic, topic_id in cluster.topic_ids.items():
        if cluster.is_being_deleted(topic):
            continue
        told = last_told(topic, topic_id)
        for partition in cluster.partitions_of(topic):
            state = told.get(partition.partition)
            if state is not None and _is_of_use(cluster, partition, state):
                cluster.leaderships[partition] = state
                found.append(partition)
    return found


def _is_of_use(cluster: Cluster, partition: TopicPartition, state: LeaderAndIsr) -> bool:
    return (
        len(state.isr) >= MIN_ISR_SIZE
        and state.leader != NO_LEADER
        and not cluster.is_online(state.leader, partition)
    )

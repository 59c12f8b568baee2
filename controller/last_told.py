"""Partition states that a broker last received before it was elected controller (decision).

With them a failover can elect leaders before it has read the state of every partition. That is
safe: each write is guarded by the version of the received state, and if the znode has another
version by now, it is read first.
"""

from collections.abc import Callable, Mapping
from typing import Final

from clusterstate.leader_and_isr import LeaderAndIsr
from controller.cluster import Cluster
from kafkawire.ids import TopicId, TopicPartition
from kafkawire.sentinels import NO_LEADER

LastKnown = Callable[[str, TopicId], Mapping[int, LeaderAndIsr]]
"""Returns the last known states of a topic's partitions, by number.

Empty if the topic has another id: the znodes of a recreated topic repeat the same versions."""
MIN_ISR_SIZE: Final = 2
"""Minimum in-sync set of a usable state.

The metadata sent to brokers lacks the recovery state, and a recovering leader is the only member of
its in-sync set."""


def nothing_known(_topic: str, _topic_id: TopicId) -> Mapping[int, LeaderAndIsr]:
    """Return no states."""
    return {}


def remember_leaderless(cluster: Cluster, last_known: LastKnown) -> list[TopicPartition]:
    """Add the last known states of partitions with a dead leader to the image; return these."""
    found: list[TopicPartition] = []
    for topic, topic_id in cluster.topic_ids.items():
        if cluster.is_being_deleted(topic):
            continue
        states = last_known(topic, topic_id)
        for partition in cluster.partitions_of(topic):
            state = states.get(partition.partition)
            if state is not None and _is_usable(cluster, partition, state):
                cluster.leaderships[partition] = state
                found.append(partition)
    return found


def _is_usable(cluster: Cluster, partition: TopicPartition, state: LeaderAndIsr) -> bool:
    return (
        len(state.isr) >= MIN_ISR_SIZE
        and state.leader != NO_LEADER
        and not cluster.is_online(state.leader, partition)
    )

"""Partition states from the cluster image, in the form that a controller needs (decision)."""

from __future__ import annotations

from collections.abc import Mapping

from broker.cluster.metadata_cache import UNKNOWN_EPOCH, ClusterImage
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.ids import TopicId


def known_states(image: ClusterImage, topic: str, topic_id: TopicId) -> Mapping[int, LeaderAndIsr]:
    """Return the states of a topic's partitions; see `controller.last_told.LastKnown`."""
    known = image.topics.get(topic)
    if known is None or known.topic_id != topic_id:
        return {}
    return {
        state.index: LeaderAndIsr(
            leader=state.leader,
            isr=state.isr,
            controller_epoch=state.controller_epoch,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
        )
        for state in known.partitions.values()
        if state.partition_epoch != UNKNOWN_EPOCH
    }

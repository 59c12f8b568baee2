"""Selects the recorder of in-sync sets (composition): AlterPartition, or nodes below 2.7."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.cluster.member import ClusterMember
from broker.replication.isr_recorder import AlterPartitionRecorder

if TYPE_CHECKING:
    from broker.cluster.node_isr_recorder import NodeIsrRecorder


def make_isr_recorder(
    member: ClusterMember, controller_epoch: Callable[[], int]
) -> AlterPartitionRecorder | NodeIsrRecorder:
    """Return the recorder that asks the controller, or below 2.7 the one that writes nodes.

    `controller_epoch` returns the newest epoch that the broker has seen.
    """
    if not member.has_alter_partition:
        from broker.cluster.node_isr_recorder import NodeIsrRecorder

        return NodeIsrRecorder(member.identity.broker_id, member.session, controller_epoch)
    return AlterPartitionRecorder(
        member.identity.broker_id,
        controller_endpoint=member.controller_endpoint,
        broker_epoch=lambda: member.session.broker_epoch,
        make_peer=member.make_peer,
    )

"""Records in-sync sets by sending AlterPartition to the controller (edge).

Source: KIP-497, KIP-841, KIP-903; versions 0 to 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import groupby
from typing import TYPE_CHECKING

from broker.cluster.controller_link import ControllerLink
from broker.cluster.peer import PeerError
from broker.replication.isr.isr_proposals import IsrProposal, IsrRecorder, ProposalResult
from clusterstate.leader_and_isr import LeaderAndIsr
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId
from kafkawire.messages.alter_partition import (
    BROKER_EPOCHS_SINCE,
    TOPIC_IDS_SINCE,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from kafkawire.sentinels import NO_EPOCH

if TYPE_CHECKING:
    from broker.cluster.control_fence import ControlFence
    from broker.cluster.member import ClusterMember


_Key = tuple[str | TopicId, int]


def make_isr_recorder(
    member: ClusterMember,
    controller: ControllerLink,
    fence: ControlFence,
    running: AsyncExitStack,
) -> IsrRecorder:
    """Return the recorder that asks the controller, or below 2.7 the one that writes nodes.

    `running` closes it.
    """
    broker_id = member.identity.broker_id
    if member.has_alter_partition:
        return AlterPartitionRecorder(broker_id, controller, lambda: member.session.broker_epoch)
    from broker.replication.isr.legacy_isr_recorder import LegacyIsrRecorder

    recorder = LegacyIsrRecorder(broker_id, member.session, fence)
    running.push_async_callback(recorder.close)
    return recorder


class AlterPartitionRecorder:
    """Sends proposals to the current controller, wherever it is."""

    def __init__(
        self, broker_id: BrokerId, controller: ControllerLink, broker_epoch: Callable[[], int]
    ) -> None:
        self._broker_id = broker_id
        self._controller = controller
        self._broker_epoch = broker_epoch

    async def record(self, proposals: Sequence[IsrProposal]) -> Sequence[ProposalResult]:
        """Return the controller's results; see `IsrRecorder`.

        Raises:
            OSError: the controller did not respond, is unknown, or has been replaced.
        """
        async with self._controller.peer() as peer:
            version = await peer.choose_version(ApiKey.ALTER_PARTITION)
            if any(proposal.topic_id == ZERO_TOPIC_ID for proposal in proposals):
                version = min(version, TOPIC_IDS_SINCE - 1)
            request = alter_partition(self._broker_id, self._broker_epoch(), proposals, version)
            response = await peer.ask(request, AlterPartitionResponse, version=version)
        if response.error_code != ErrorCode.NONE:
            raise PeerError(f"the controller responded with error {response.error_code}")
        return results_of(response, proposals, version)


def alter_partition(
    broker_id: BrokerId, broker_epoch: int, proposals: Sequence[IsrProposal], version: int
) -> AlterPartitionRequest:
    """Return the request that carries `proposals`."""
    ordered = sorted(proposals)
    topics = [
        RequestTopicData(
            topic_name=name,
            topic_id=topic_id,
            partitions=[_partition(proposal, version) for proposal in group],
        )
        for (name, topic_id), group in groupby(
            ordered, key=lambda proposal: (proposal.topic_partition.topic, proposal.topic_id)
        )
    ]
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=topics)


def _partition(submitted: IsrProposal, version: int) -> RequestPartitionData:
    proposal = submitted.proposal
    data = RequestPartitionData(
        partition_index=submitted.topic_partition.partition,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
    )
    if version >= BROKER_EPOCHS_SINCE:
        data.new_isr_with_epochs = [
            BrokerState(broker_id=one, broker_epoch=epoch) for one, epoch in proposal.isr
        ]
    else:
        data.new_isr = [one for one, _ in proposal.isr]
    return data


def results_of(
    response: AlterPartitionResponse, proposals: Sequence[IsrProposal], version: int
) -> Sequence[ProposalResult]:
    """Return the result of each proposal, in order.

    A proposal without a result in the response counts as failed with an unknown error, and is
    retried.
    """
    has_ids = version >= TOPIC_IDS_SINCE
    found: Mapping[_Key, ProposalResult] = {
        (topic.topic_id if has_ids else topic.topic_name, data.partition_index): _result(data)
        for topic in response.topics
        for data in topic.partitions
    }
    return [
        found.get(
            (
                proposal.topic_id if has_ids else proposal.topic_partition.topic,
                proposal.topic_partition.partition,
            ),
            ErrorCode.UNKNOWN_SERVER_ERROR,
        )
        for proposal in proposals
    ]


def _result(data: ResponsePartitionData) -> ProposalResult:
    if data.error_code != ErrorCode.NONE:
        try:
            return ErrorCode(data.error_code)
        except ValueError:
            return ErrorCode.UNKNOWN_SERVER_ERROR
    return LeaderAndIsr(
        leader=BrokerId(data.leader_id),
        isr=tuple(map(BrokerId, data.isr)),
        controller_epoch=NO_EPOCH,
        leader_epoch=LeaderEpoch(data.leader_epoch),
        partition_epoch=data.partition_epoch,
    )

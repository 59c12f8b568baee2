"""The check of positions at a new leader: `ottla.client.consumer.position_check`."""

from types import SimpleNamespace
from typing import Any, cast

from kafkawire.ids import BrokerId
from kafkawire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kafkawire.sentinels import NO_EPOCH
from ottla.client.consumer.position_check import ask_epoch_ends
from ottla.client.network.cluster import Cluster
from tests.unit.client.client_fakes import T0, metadata, state_at


async def test_a_partition_that_the_metadata_has_lost_is_checked_without_its_epoch() -> None:
    sent: list[OffsetForLeaderEpochRequest] = []

    async def request(_leader: BrokerId, message: Any, _response_type: type) -> object:
        sent.append(message)
        result = EpochEndOffset(partition=T0.partition, end_offset=7)
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic=T0.topic, partitions=[result])]
        )

    cluster = cast(Cluster, SimpleNamespace(metadata=metadata(), request=request))
    assert await ask_epoch_ends(cluster, {BrokerId(1): [state_at(5)]}) == {T0: 7}
    assert sent[0].topics[0].partitions[0].current_leader_epoch == NO_EPOCH

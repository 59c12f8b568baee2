"""Responses that lead the client nowhere do not make it repeat requests at full speed."""

import asyncio
from typing import Any

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla import Admin, Consumer, TopicPartition
from ottla.client.admin_model import OffsetSpec
from tests.integration.client.client_support import FAST
from tests.integration.client.fake_answer import Responder
from tests.integration.client.fake_broker import FakeCluster
from tests.integration.client.fake_fault import Refuse

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SHORTEST_SHARE = 0.8
"""Share of a delay that is left by its jitter."""


async def test_an_offset_that_each_fetch_refuses_is_looked_up_with_delays(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0")
    cluster.script(ApiKey.FETCH, *[Refuse(ErrorCode.OFFSET_OUT_OF_RANGE)] * 6)
    loop = asyncio.get_running_loop()
    async with Consumer(
        cluster.bootstrap, auto_offset_reset="earliest", retry_backoff_ms=20
    ) as consumer:
        began_s = loop.time()
        consumer.assign([T0])
        (record,) = await consumer.fetch_batch()
        assert record.value == b"0"
        # The first reset needs no delay, as records may just have been deleted.
        delays_s = (20 + 40 + 80 + 160 + 320) / 1000
        assert loop.time() - began_s >= SHORTEST_SHARE * delays_s


async def test_a_leader_that_names_itself_as_closest_replica_is_asked_with_delays(
    cluster: FakeCluster,
) -> None:
    (log,) = cluster.create("t")
    log.append_values(b"0")
    log.in_sync_follower = 0
    async with Consumer(
        cluster.bootstrap, auto_offset_reset="earliest", retry_backoff_ms=20, client_rack="r"
    ) as consumer:
        began_s = asyncio.get_running_loop().time()
        consumer.assign([T0])
        await cluster.wait_for(ApiKey.FETCH, 6)
        delays_s = (20 + 40 + 80 + 160) / 1000
        assert asyncio.get_running_loop().time() - began_s >= SHORTEST_SHARE * delays_s
        log.in_sync_follower = None
        (record,) = await consumer.fetch_batch()
        assert record.value == b"0"


async def test_offsets_of_partitions_that_were_not_asked_for_are_dropped(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for log in cluster.create("t", [0, 0]):
        log.append_values(b"0")
    known = Responder.list_offsets

    def with_another(self: Responder, message: Any) -> ListOffsetsResponse:
        response = known(self, message)
        other = ListOffsetsPartitionResponse(partition_index=T1.partition, offset=77)
        foreign = ListOffsetsTopicResponse(name=T1.topic, partitions=[other])
        response.topics = [*response.topics, foreign]
        return response

    monkeypatch.setattr(Responder, "list_offsets", with_another)
    async with (
        Consumer(cluster.bootstrap) as consumer,
        Admin(cluster.bootstrap, **FAST) as admin,
    ):
        assert list(await consumer.beginning_offsets([T0])) == [T0]
        assert list(await admin.list_offsets({T0: OffsetSpec.LATEST})) == [T0]

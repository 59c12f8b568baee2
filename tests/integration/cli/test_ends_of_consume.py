"""The end of `ottla consume --no-follow` while its topic is deleted or created again."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kafkawire.ids import Offset, TopicPartition
from ottla import Consumer
from ottla.cli.consume_records import ends_left
from ottla.client.errors import UnknownTopicError
from tests.integration.client.client_support import FAST
from tests.integration.client.fake_broker import FakeCluster, fake_cluster

A0 = TopicPartition("a", 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with fake_cluster() as cluster:
        yield cluster


async def test_ends_follow_a_log_that_becomes_shorter(cluster: FakeCluster) -> None:
    (log,) = cluster.create("a")
    log.append_values(b"0", b"1")
    async with Consumer(cluster.bootstrap, **FAST) as consumer:
        ends = {A0: Offset(2)}
        log.append_values(b"2")
        assert await ends_left(consumer, ends) == {A0: Offset(2)}
        (new_log,) = cluster.create("a")
        new_log.append_values(b"new")
        assert await ends_left(consumer, ends) == {A0: Offset(1)}


async def test_a_deleted_topic_has_no_end_to_wait_for(cluster: FakeCluster) -> None:
    cluster.create("a")
    async with Consumer(cluster.bootstrap, **FAST) as consumer:
        ends = await consumer.end_offsets([A0])
        del cluster.logs.topics["a"]
        with pytest.raises(UnknownTopicError, match="a-0"):
            await asyncio.wait_for(ends_left(consumer, ends), 5)

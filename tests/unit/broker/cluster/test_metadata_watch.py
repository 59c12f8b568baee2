"""Waiting for a condition on the cluster image: `broker.cluster.metadata_watch`."""

import asyncio
import uuid
from dataclasses import replace

from broker.cluster.metadata_cache import ClusterImage, MetadataCache, TopicState
from broker.cluster.metadata_watch import LONGEST_WAIT_MS, MetadataWatch, has_leaders
from kafkawire.ids import BrokerId
from tests.unit.broker.metadata import partition_state, put_topics

TIMEOUT_S = 10


def topic(*leaders: int) -> TopicState:
    return TopicState(
        name="t",
        topic_id=uuid.UUID(int=1),
        partitions={
            index: partition_state(index, leader, 1) for index, leader in enumerate(leaders)
        },
    )


def has_topic(image: ClusterImage) -> bool:
    return "t" in image.topics


async def test_wait_ends_when_its_condition_holds() -> None:
    cache = MetadataCache()
    watch = MetadataWatch(cache)
    waiting = asyncio.create_task(watch.wait_for(has_topic, 2 * LONGEST_WAIT_MS))
    await asyncio.sleep(0)
    cache.adopt(replace(cache.image, controller_id=BrokerId(1)))
    await asyncio.sleep(0)
    assert not waiting.done()
    put_topics(cache, [topic(1)])
    assert await asyncio.wait_for(waiting, TIMEOUT_S)
    assert await watch.wait_for(has_topic, 0)
    assert has_topic(watch.image)


async def test_wait_ends_at_its_timeout_or_when_the_watch_is_closed() -> None:
    watch = MetadataWatch(MetadataCache())
    assert not await watch.wait_for(has_topic, 1)
    waiting = asyncio.create_task(watch.wait_for(has_topic, LONGEST_WAIT_MS))
    await asyncio.sleep(0)
    watch.close()
    assert not await asyncio.wait_for(waiting, TIMEOUT_S)
    assert not await watch.wait_for(has_topic, LONGEST_WAIT_MS)


async def test_wait_for_each_returns_the_late_items() -> None:
    cache = MetadataCache()
    put_topics(cache, [topic(1, -1)])
    watch = MetadataWatch(cache)

    def has_count(image: ClusterImage, count: int) -> bool:
        return has_leaders(image, "t", count)

    assert await watch.wait_for_each([1], has_count, LONGEST_WAIT_MS) == []
    assert await watch.wait_for_each([1, 2], has_count, 1) == [2]


def test_has_leaders_needs_a_leader_of_every_partition() -> None:
    image = ClusterImage(topics={"t": topic(1, 1, -1)})
    assert has_leaders(image, "t", 2)
    assert not has_leaders(image, "t", 3)
    assert not has_leaders(image, "t", 4)
    assert not has_leaders(image, "u", 1)


def test_partition_missing_in_the_image_has_no_leader() -> None:
    full = topic(1, 1, 1)
    gap = replace(full, partitions={index: full.partitions[index] for index in (1, 2)})
    assert not has_leaders(ClusterImage(topics={"t": gap}), "t", 2)

"""Targets of topics that are read at the same time."""

import asyncio
from collections.abc import Callable

import pytest

from clusterstate.znodes.jafka_nodes import encode_count
from coordination.client import WatchEvent
from coordination.protocol.messages import EventType
from ottla.zookeeper.registration import Layout
from ottla.zookeeper.targets import Target
from ottla.zookeeper.topic_targets import TopicTargets
from tests.waiting import until

Watch = Callable[[WatchEvent], None]


class FakeClient:
    """Counts of partitions at broker 1; every read arms a watch, and may be held up."""

    def __init__(self) -> None:
        self.counts = {"a": 1, "b": 1}
        self.may_reply = asyncio.Event()
        self.watches: dict[str, list[Watch]] = {"a": [], "b": []}

    async def get_children(self, _path: str, _watch: Watch) -> list[str]:
        return ["1"]

    async def get_data(self, path: str, watch: Watch) -> tuple[bytes, None]:
        topic = path.split("/")[-2]
        data = encode_count(self.counts[topic])
        self.watches[topic].append(watch)
        await self.may_reply.wait()
        return data, None

    def change(self, topic: str, count: int) -> None:
        self.counts[topic] = count
        watches, self.watches[topic] = self.watches[topic], []
        for watch in watches:
            watch(WatchEvent(EventType.NODE_DATA_CHANGED, f"/brokers/topics/{topic}/1"))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (0, 1)])
async def test_a_change_during_a_read_is_seen_although_another_topic_is_read(
    before: int, after: int
) -> None:
    client = FakeClient()
    client.counts["a"] = before
    targets = TopicTargets(client, Layout.JAFKA, lambda: [1])  # type: ignore[arg-type]
    first = asyncio.ensure_future(targets.targets("a"))
    await until(lambda: bool(client.watches["a"]), "the first read")
    client.change("a", after)
    second = asyncio.ensure_future(targets.targets("b"))
    await until(lambda: bool(client.watches["b"]), "the second read")
    client.may_reply.set()
    await second
    # Without a partition the topic is read again, instead of being awaited in vain.
    assert await first == [Target(1, "1-0")]
    assert await targets.targets("a") == [Target(1, f"1-{index}") for index in range(after)]


async def test_every_read_of_a_topic_arms_the_same_callback() -> None:
    client = FakeClient()
    client.may_reply.set()
    targets = TopicTargets(client, Layout.JAFKA, lambda: [1])  # type: ignore[arg-type]
    for _ in range(3):
        assert await targets.targets("a") == [Target(1, "1-0")]
        targets.forget()
    await targets.targets("b")
    assert len(client.watches["a"]) == 3
    assert len({*client.watches["a"]}) == 1
    assert {*client.watches["a"]}.isdisjoint(client.watches["b"])

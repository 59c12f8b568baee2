"""Reads the targets of topics, and watches all that they follow from (edge)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes import paths
from clusterstate.znodes.jafka_nodes import decode_count
from clusterstate.znodes.partition_node import decode_partition_state
from clusterstate.znodes.topic import decode_topic
from coordination.client import Client, WatchEvent
from coordination.errors import NoNodeError
from kafkawire.ids import TopicPartition, validate_topic_name
from ottla.client.errors import ConfigurationError
from ottla.zookeeper.nodes import gathered
from ottla.zookeeper.registration import Layout
from ottla.zookeeper.targets import Target, jafka_targets, kafka_targets

PATIENCE_S: Final = 5.0
"""Time for which a topic without targets is awaited: it may be new, or its leader may change."""


class TopicTargets:
    """The targets of each topic that was asked for. A change forgets the topic, or all of them."""

    def __init__(self, client: Client, layout: Layout, live: Callable[[], list[int]]) -> None:
        """`live` returns the ids of the live brokers."""
        self._client = client
        self._layout = layout
        self._live = live
        self._known: dict[str, list[Target]] = {}
        # One callback per topic: each further one would stay at every node that does not change.
        self._watches: dict[str, Callable[[WatchEvent], None]] = {}
        # Several topics may be read at once: each compares this number, which nobody resets.
        self._change_count = 0
        self._changed = asyncio.Event()

    def forget(self) -> None:
        """Read every topic again at its next use: brokers or the session have changed."""
        self._known.clear()
        self._on_change()

    def _on_change(self) -> None:
        self._change_count += 1
        self._changed.set()

    async def targets(self, topic: str) -> list[Target]:
        """Return the targets of a topic; none if it has no live leader for `PATIENCE_S`.

        Raises:
            ConfigurationError: no topic can have this name.
            OperationError: the coordinator refuses, or the connection is lost.
        """
        if found := self._known.get(topic):
            return found
        if (reason := validate_topic_name(topic)) is not None:
            raise ConfigurationError(f"{topic!r} is not the name of a topic: {reason}")
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    before = self._change_count
                    found = await self._read(topic)
                    if found:
                        if self._change_count == before:
                            self._known[topic] = found
                        return found
                    while self._change_count == before:
                        self._changed.clear()
                        await self._changed.wait()
        except TimeoutError:
            return []

    def _watch(self, topic: str) -> Callable[[WatchEvent], None]:
        def on_event(_event: WatchEvent) -> None:
            self._known.pop(topic, None)
            self._on_change()

        return self._watches.setdefault(topic, on_event)

    async def _read(self, topic: str) -> list[Target]:
        on_event = self._watch(topic)
        path = paths.topic(topic)
        try:
            if self._layout is Layout.JAFKA:
                names = await self._client.get_children(path, on_event)
                brokers = [int(name) for name in names if name.isdecimal()]
                texts = await gathered(
                    self._client.get_data(f"{path}/{each}", on_event) for each in brokers
                )
                counts = {
                    broker: _count(held[0])
                    for broker, held in zip(brokers, texts, strict=True)
                    if not isinstance(held, BaseException)
                }
                return jafka_targets(counts, self._live())
            data, _ = await self._client.get_data(path, on_event)
            numbers = sorted(decode_topic(data).partitions)
        except NoNodeError:
            await self._await_creation([path], on_event)
            return []
        except MalformedZnodeError:
            return []
        places = [paths.partition_state(TopicPartition(topic, each)) for each in numbers]
        states = await gathered(self._client.get_data(place, on_event) for place in places)
        await self._await_creation(
            [
                place
                for place, held in zip(places, states, strict=True)
                if isinstance(held, BaseException)
            ],
            on_event,
        )
        leaders: dict[int, int] = {}
        for number, held in zip(numbers, states, strict=True):
            if isinstance(held, BaseException):
                continue
            try:
                leaders[number] = decode_partition_state(held[0], held[1].version).leader
            except MalformedZnodeError:
                continue
        return kafka_targets(leaders, self._live())

    async def _await_creation(
        self, places: Sequence[str], on_event: Callable[[WatchEvent], None]
    ) -> None:
        """Watch for the creation of nodes that a read has missed, or note it."""
        found = await gathered(self._client.exists(place, on_event) for place in places)
        if any(stat is not None for stat in found):
            # It was created between the two reads, so that the watch is too late.
            self._on_change()


def _count(data: bytes | None) -> int:
    try:
        return decode_count(data)
    except MalformedZnodeError:
        return 0

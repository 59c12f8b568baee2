"""Reads a group's nodes, which arms the watches, and registers members (edge).

Watches fire once and carry no state: each read that the formula uses arms its own, and the reader
treats every event as "something changed". A node that disappears between listing and reading is
left out; the watch on its parent has fired.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from clusterstate.errors import MalformedZnodeError
from clusterstate.znodes import consumer_nodes, jafka_nodes, paths
from clusterstate.znodes.topic import decode_topic
from coordination.client import Client, WatchEvent, ops
from coordination.errors import MultiError, NodeExistsError, NoNodeError
from coordination.protocol.messages import Stat
from ottla.client.errors import ConfigurationError
from ottla.zookeeper.assignment import Slot, Strategy
from ottla.zookeeper.registration import Layout, Pattern, Registration
from ottla.zookeeper.view import GroupView, members_of, topics_of

log = logging.getLogger(__name__)

T = TypeVar("T")
REGISTER_TRIES: Final = 10
"""Number of attempts to register while nodes of an older session disappear."""


class GroupNodes:
    """The nodes of one group, in one layout."""

    def __init__(
        self, client: Client, group: str, layout: Layout, on_change: Callable[[], None]
    ) -> None:
        self.client = client
        self.group = group
        self.layout = layout
        self._on_change = on_change
        self._malformed: frozenset[str] = frozenset()

    def watch(self, _event: WatchEvent) -> None:
        """Report the change of a watched node."""
        self._on_change()

    # Reading

    async def read_view(
        self, mine: Registration, strategy: Strategy, *, exclude_internal: bool
    ) -> GroupView:
        """Read members, brokers and topics, and watch them.

        Raises:
            ConfigurationError: the filter of a member cannot be read.
            OperationError: the coordinator refuses, or the connection is lost.
        """
        reads_all = mine.pattern is not Pattern.STATIC or strategy is Strategy.ROUNDROBIN
        ids, brokers, topics = await asyncio.gather(
            self._children(consumer_nodes.members(self.group), watched=True),
            self._children(paths.BROKER_IDS),
            self._children(paths.TOPICS, watched=True) if reads_all else _nothing(),
        )
        if not brokers:
            brokers = await self._children(paths.BROKER_IDS, watched=True)
        texts = await self._texts({each: consumer_nodes.member(self.group, each) for each in ids})
        members, malformed = members_of(texts, self.layout)
        self._warn_of(malformed)
        candidates = topics if reads_all else list(mine.subscription)
        readers = members.values() if strategy is Strategy.ROUNDROBIN else [mine]
        read = {
            topic: None
            for each in readers
            for topic in topics_of(each, candidates, exclude_internal=exclude_internal)
        }
        names, created = await self.partitions(list(read))
        return GroupView(
            members=members,
            topics=sorted({*candidates, *read}),
            names=names,
            has_brokers=bool(brokers),
            malformed=malformed,
            created=created,
        )

    async def is_member(self, consumer: str) -> bool:
        """Whether the group has this member now; a text that is no name is none."""
        if "/" in consumer or not consumer.isprintable():
            return False
        return await self.client.exists(consumer_nodes.member(self.group, consumer)) is not None

    async def partitions(
        self, topics: Sequence[str]
    ) -> tuple[dict[str, list[str]], dict[str, int]]:
        """Watch topics; return the partitions' names and the czxid of each that exists."""
        names: dict[str, list[str]] = {}
        created: dict[str, int] = {}
        read = self._kafka_names if self.layout is Layout.KAFKA else self._jafka_names
        found = await asyncio.gather(*(read(topic) for topic in topics))
        for topic, held in zip(topics, found, strict=True):
            if held is not None:
                names[topic], created[topic] = held
        return names, created

    async def _kafka_names(self, topic: str) -> tuple[list[str], int] | None:
        path = paths.topic(topic)
        try:
            data, stat = await self.client.get_data(path, self.watch)
        except NoNodeError:
            await self._await_creation(path)
            return None
        try:
            return [str(each) for each in decode_topic(data).partitions], stat.czxid
        except MalformedZnodeError:
            # A topic whose creation is not complete; the watch reports the rest.
            return None

    async def _jafka_names(self, topic: str) -> tuple[list[str], int] | None:
        path = paths.topic(topic)
        try:
            brokers = await self.client.get_children(path, self.watch)
        except NoNodeError:
            await self._await_creation(path)
            return None
        counts = await self._texts({each: f"{path}/{each}" for each in brokers if each.isdecimal()})
        names = []
        for broker, data in counts.items():
            try:
                count = jafka_nodes.decode_count(data)
            except MalformedZnodeError:
                log.warning(
                    "group.bad_count group=%s topic=%s broker=%s", self.group, topic, broker
                )
                continue
            names += [jafka_nodes.partition_name(int(broker), index) for index in range(count)]
        # The counts come and go with their brokers, so they say nothing about the topic's age.
        return names, 0

    async def _texts(self, places: dict[str, str]) -> dict[str, bytes | None]:
        found = await gathered(self.client.get_data(path) for path in places.values())
        return {
            name: held[0]
            for name, held in zip(places, found, strict=True)
            if not isinstance(held, BaseException)
        }

    async def _children(self, path: str, *, watched: bool = False) -> list[str]:
        try:
            return await self.client.get_children(path, self.watch if watched else None)
        except NoNodeError:
            if watched:
                await self._await_creation(path)
            return []

    async def _await_creation(self, path: str) -> None:
        """Watch for the creation of a node that a read has missed, or report it."""
        if await self.client.exists(path, self.watch) is not None:
            # It was created between the two reads, so that the watch is too late.
            self._on_change()

    def _warn_of(self, malformed: Iterable[str]) -> None:
        now = frozenset(malformed)
        for consumer in now - self._malformed:
            log.warning(
                "group.malformed_registration group=%s consumer=%r: it gets no partitions, and "
                "Java members fail their rebalance",
                self.group,
                consumer,
            )
        self._malformed = now

    # Registering

    async def register(
        self,
        consumer: str,
        data: bytes,
        sessions: frozenset[int],
        former: frozenset[Slot],
        patience_s: float,
    ) -> None:
        """Create the registration of a member in the client's session.

        Nodes that an older one of our `sessions` still has are replaced in one transaction: the
        registration proves that the older session lives, so the claims `former` are its own. A
        registration of another session is awaited for `patience_s`.

        Raises:
            ConfigurationError: another member has this id.
            OperationError: the coordinator refuses, or the connection is lost.
        """
        path = consumer_nodes.member(self.group, consumer)
        await self.create_parents(path, leaf_data=b"")
        for _ in range(REGISTER_TRIES):
            try:
                await self.client.create(path, data, ephemeral=True)
            except NodeExistsError:
                pass
            else:
                return
            stat = await self.client.exists(path)
            if stat is None:
                continue
            if stat.ephemeral_owner == self.client.session_id:
                return
            if stat.ephemeral_owner in sessions:
                if await self._replace(path, data, stat, former):
                    return
            elif not await self.gone(path, patience_s):
                raise ConfigurationError(
                    f"group {self.group} has another member {consumer!r}: choose another id"
                )
        raise ConfigurationError(f"{path} changes too often to register")

    async def unregister(self, consumer: str) -> None:
        """Delete the registration, if the client's session has one: another member may have the id.

        Raises:
            OperationError: the outcome is unknown.
        """
        path = consumer_nodes.member(self.group, consumer)
        stat = await self.client.exists(path)
        if stat is not None and stat.ephemeral_owner == self.client.session_id:
            await gathered([self.client.delete(path)])

    async def create_parents(self, path: str, leaf_data: bytes | None = None) -> None:
        """Create the missing nodes above `path`; nodes in the group get `leaf_data`."""
        for parent in paths.parents(path):
            with contextlib.suppress(NodeExistsError):
                await self.client.create(parent, None if parent == paths.CONSUMERS else leaf_data)

    async def gone(self, path: str, timeout_s: float) -> bool:
        """Wait until there is no node at `path`; return False after `timeout_s`."""
        gone = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                while await self.client.exists(path, lambda _event: gone.set()) is not None:
                    await gone.wait()
                    gone.clear()
        except TimeoutError:
            return False
        return True

    async def _replace(self, path: str, data: bytes, stat: Stat, former: frozenset[Slot]) -> bool:
        places = [consumer_nodes.owner(self.group, *slot) for slot in sorted(former)]
        found = await gathered(self.client.get_data(place) for place in places)
        owned = [
            place
            for place, held in zip(places, found, strict=True)
            if not isinstance(held, BaseException)
            and held[1].ephemeral_owner == stat.ephemeral_owner
        ]
        try:
            await self.client.multi(
                [
                    ops.delete(path),
                    *(ops.delete(place) for place in owned),
                    ops.create(path, data, ephemeral=True),
                ]
            )
        except MultiError:
            # The older session has ended, or a claim has; then there is less to replace.
            return False
        log.info("group.replaced group=%s path=%s claims=%d", self.group, path, len(owned))
        return True


async def gathered(requests: Iterable[Awaitable[T]]) -> list[T | NoNodeError]:
    """Await requests that were sent together; a node that does not exist is its error.

    Raises:
        OperationError: another one of the requests failed.
    """
    found = await asyncio.gather(*requests, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, NoNodeError):
            raise each
    return found  # type: ignore[return-value]


async def _nothing() -> list[str]:
    return []

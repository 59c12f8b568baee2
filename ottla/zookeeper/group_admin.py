"""Lists, describes, changes and deletes groups that meet in the coordinator (edge).

Files of offsets have the form of Kafka's ExportZkOffsets: `/consumers/g/offsets/t/0:123` per line.
"""

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from clusterstate.znodes import consumer_nodes, paths
from coordination.client import Client
from coordination.errors import NodeExistsError, NoNodeError
from ottla.client.errors import ConfigurationError, OttlaError
from ottla.zookeeper.assignment import Slot
from ottla.zookeeper.nodes import GroupNodes, gathered
from ottla.zookeeper.registration import Layout, Registration, thread_ids
from ottla.zookeeper.view import members_of, topics_of

K = TypeVar("K")
MAX_LINE_CHARACTERS: Final = 2_000
_LINE: Final = re.compile(r"/consumers/([^/]+)/offsets/([^/:]+)/([^/:]+):(\d{1,19})")
_NAME: Final = {Layout.KAFKA: re.compile(r"\d{1,9}"), Layout.JAFKA: re.compile(r"\d{1,9}-\d{1,9}")}
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class LiveGroupError(OttlaError):
    """The group has members, which would continue from their own positions."""

    def __init__(self, group: str, count: int) -> None:
        super().__init__(f"group {group} has {count} members in the coordinator: stop them first.")


class UnknownGroupError(OttlaError):
    """There is no such group in the coordinator."""

    def __init__(self, group: str) -> None:
        super().__init__(f"group {group} does not exist in the coordinator.")


@dataclass(frozen=True, slots=True)
class OldGroup:
    """A group as its nodes show it."""

    members: Mapping[str, Registration]
    malformed: Sequence[str]
    offsets: Mapping[Slot, int | None]
    owners: Mapping[Slot, str]
    """Thread id of the owner, by partition."""


class GroupAdmin:
    """Administers the groups of one coordinator, in one layout."""

    def __init__(self, client: Client, layout: Layout = Layout.KAFKA) -> None:
        self._client = client
        self._layout = layout

    async def list_groups(self) -> dict[str, int]:
        """Return the number of members of each group."""
        names = sorted(await self._children(paths.CONSUMERS))
        counts = await asyncio.gather(
            *(self._children(consumer_nodes.members(name)) for name in names)
        )
        return {name: len(found) for name, found in zip(names, counts, strict=True)}

    async def describe(self, group: str) -> OldGroup:
        """Return members, offsets and owners.

        Raises:
            UnknownGroupError: there is no such group.
        """
        await self._require(group)
        ids = await self._children(consumer_nodes.members(group))
        texts = await self._texts({each: consumer_nodes.member(group, each) for each in ids})
        members, malformed = members_of(texts, self._layout)
        offsets = await self._leaves(consumer_nodes.offsets(group))
        owners = await self._leaves(consumer_nodes.owners(group))
        return OldGroup(
            members=members,
            malformed=malformed,
            offsets={slot: consumer_nodes.decode_offset(data) for slot, data in offsets.items()},
            owners={slot: (data or b"").decode(errors="replace") for slot, data in owners.items()},
        )

    async def delete(self, group: str, topic: str | None = None) -> None:
        """Delete a group, or the offsets and owners of one topic.

        Raises:
            LiveGroupError: the group has members.
            UnknownGroupError: there is no such group.
        """
        await self._require(group)
        await self._require_empty(group)
        if topic is None:
            await self._delete_below(consumer_nodes.group(group))
            return
        if _TOPIC.fullmatch(topic) is None:
            raise ConfigurationError(f"{topic!r} is not the name of a topic")
        for parent in (consumer_nodes.offsets(group), consumer_nodes.owners(group)):
            await self._delete_below(f"{parent}/{topic}")

    async def set_offsets(self, group: str, offsets: Mapping[Slot, int]) -> None:
        """Write the offsets of a group, which need not exist yet; see `missing_topics`.

        Raises:
            LiveGroupError: the group has members.
            ConfigurationError: a name is not one of this layout.
        """
        _require_group(group)
        for slot in offsets:
            if (
                _TOPIC.fullmatch(slot.topic) is None
                or _NAME[self._layout].fullmatch(slot.name) is None
            ):
                raise ConfigurationError(
                    f"{slot.topic!r}, {slot.name!r} name no partition in the layout {self._layout}"
                )
        await self._require_empty(group)
        for slot, value in offsets.items():
            await self._write(
                consumer_nodes.offset(group, *slot), consumer_nodes.encode_offset(value)
            )

    async def export_offsets(self, groups: Collection[str]) -> list[str]:
        """Return a line per offset of `groups`, of all groups if there are none."""
        lines = []
        for group in groups or sorted(await self._children(paths.CONSUMERS)):
            await self._require(group)
            found = await self._leaves(consumer_nodes.offsets(group))
            lines += [
                f"{consumer_nodes.offset(group, *slot)}:{value}"
                for slot, data in sorted(found.items())
                if (value := consumer_nodes.decode_offset(data)) is not None
            ]
        return lines

    async def import_offsets(self, lines: Iterable[str]) -> dict[str, int]:
        """Write the offsets of a file up to its first empty line; return the number per group.

        Every line is checked before the first write. See `missing_topics`.

        Raises:
            ConfigurationError: a line is not of the form that `export_offsets` returns.
            LiveGroupError: one of the groups has members.
        """
        wanted = parse_offsets(lines, self._layout)
        for group in wanted:
            await self._require_empty(group)
        for group, offsets in wanted.items():
            await self.set_offsets(group, offsets)
        return {group: len(offsets) for group, offsets in wanted.items()}

    async def missing_topics(self, topics: Collection[str]) -> list[str]:
        """Return the topics that do not exist, so that the first claim drops offsets of theirs.

        An offset that is older than its topic counts as one of a former topic of that name, but not
        in the layout of Jafka, whose nodes say nothing about a topic's age.
        """
        if self._layout is Layout.JAFKA:
            return []
        return sorted(set(topics) - set(await self._children(paths.TOPICS)))

    async def verify(self, group: str, *, exclude_internal: bool = True) -> list[str]:
        """Return a sentence per fault of a group at rest; none if each partition has its owner.

        Raises:
            UnknownGroupError: there is no such group.
            ConfigurationError: the filter of a member cannot be read.
        """
        held = await self.describe(group)
        faults = [f"the registration of {each} cannot be read" for each in held.malformed]
        topics = await self._children(paths.TOPICS)
        threads: dict[str, set[str]] = {}
        for consumer, registration in held.members.items():
            found = topics_of(registration, topics, exclude_internal=exclude_internal)
            for topic, streams in found.items():
                threads.setdefault(topic, set()).update(thread_ids(consumer, streams))
        reader = GroupNodes(self._client, group, self._layout, _ignore)
        names = (await reader.partitions(sorted(threads)))[0]
        for topic in sorted(threads):
            for name in names.get(topic, ()):
                owner = held.owners.get(Slot(topic, name))
                if owner is None:
                    faults.append(f"{topic}-{name} has no owner")
                elif owner not in threads[topic]:
                    faults.append(f"the owner of {topic}-{name} is no member: {owner}")
        return faults

    async def require_empty(self, group: str) -> None:
        """Require that a group exists and has no members.

        Raises:
            LiveGroupError: it has.
            UnknownGroupError: there is no such group.
        """
        await self._require(group)
        await self._require_empty(group)

    # Inside

    async def _require(self, group: str) -> None:
        _require_group(group)
        if await self._client.exists(consumer_nodes.group(group)) is None:
            raise UnknownGroupError(group)

    async def _require_empty(self, group: str) -> None:
        if members := await self._children(consumer_nodes.members(group)):
            raise LiveGroupError(group, len(members))

    async def _leaves(self, parent: str) -> dict[Slot, bytes | None]:
        topics = sorted(await self._children(parent))
        names = await asyncio.gather(*(self._children(f"{parent}/{topic}") for topic in topics))
        slots = [
            Slot(topic, name)
            for topic, found in zip(topics, names, strict=True)
            for name in sorted(found)
        ]
        texts = await self._texts({slot: f"{parent}/{slot.topic}/{slot.name}" for slot in slots})
        return {slot: texts[slot] for slot in slots if slot in texts}

    async def _texts(self, places: Mapping[K, str]) -> dict[K, bytes | None]:
        found = await gathered(self._client.get_data(path) for path in places.values())
        return {
            key: held[0]
            for key, held in zip(places, found, strict=True)
            if not isinstance(held, BaseException)
        }

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._client.get_children(path)
        except NoNodeError:
            return []

    async def _write(self, path: str, data: bytes) -> None:
        try:
            await self._client.set_data(path, data)
        except NoNodeError:
            for parent in paths.parents(path):
                await self._create(parent, None)
            await self._create(path, data)

    async def _create(self, path: str, data: bytes | None) -> None:
        try:
            await self._client.create(path, data)
        except NodeExistsError:
            if data is not None:
                await self._client.set_data(path, data)

    async def _delete_below(self, path: str) -> None:
        for name in await self._children(path):
            await self._delete_below(f"{path}/{name}")
        await gathered([self._client.delete(path)])


def parse_offsets(lines: Iterable[str], layout: Layout) -> dict[str, dict[Slot, int]]:
    """Return the offsets per group in the lines of a file, up to its first empty line.

    Raises:
        ConfigurationError: a line has another form; the message has its number.
    """
    wanted: dict[str, dict[Slot, int]] = {}
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if not text:
            break
        found = _LINE.fullmatch(text) if len(text) <= MAX_LINE_CHARACTERS else None
        value = None if found is None else consumer_nodes.decode_offset(found[4].encode())
        if (
            found is None
            or value is None
            or not consumer_nodes.is_group_name(found[1])
            or _TOPIC.fullmatch(found[2]) is None
            or _NAME[layout].fullmatch(found[3]) is None
        ):
            raise ConfigurationError(
                f"line {number} is not of the form /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET"
            )
        wanted.setdefault(found[1], {})[Slot(found[2], found[3])] = value
    return wanted


def _require_group(group: str) -> None:
    if not consumer_nodes.is_group_name(group):
        raise ConfigurationError(f"{group!r} is not the name of a group in the coordinator")


def _ignore() -> None:
    pass

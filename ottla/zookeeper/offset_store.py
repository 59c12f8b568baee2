"""Places where a member keeps the offsets of its group (edge)."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kafkawire.ids import Offset, TopicPartition
from ottla.client.errors import CommitFailedError, ConfigurationError
from ottla.client.network.offset_store import OffsetStore as KafkaStore
from ottla.client.offset import CommittedOffset, Identity
from ottla.zookeeper.assignment import Slot
from ottla.zookeeper.naming import Naming
from ottla.zookeeper.offset_nodes import OffsetNodes

Offsets = Mapping[TopicPartition, CommittedOffset]
Found = dict[TopicPartition, CommittedOffset | None]


class OffsetStore(Protocol):
    """Reads and writes the offsets of one group; an application may bring its own."""

    async def read(self, partitions: Sequence[TopicPartition]) -> Found:
        """Return the offset of each partition; None where there is none."""

    async def write(self, offsets: Offsets) -> None:
        """Store these offsets.

        Raises:
            CommitFailedError: a partition is no longer this member's.
        """


class NodeStore:
    """Offsets in the group's nodes, shared with members in Java."""

    def __init__(
        self,
        group: str,
        nodes: OffsetNodes,
        naming: Naming,
        on_lost: Callable[[set[Slot]], None],
    ) -> None:
        self._group = group
        self._nodes = nodes
        self._naming = naming
        self._on_lost = on_lost

    async def read(self, partitions: Sequence[TopicPartition]) -> Found:
        """Return the offset of each partition; None where there is none."""
        slots = {each: slot for each in partitions if (slot := self._naming.slot(each)) is not None}
        stored = await self._nodes.read(list(slots.values()))
        found: Found = dict.fromkeys(partitions)
        for each, slot in slots.items():
            held = stored[slot]
            if held is not None and held.value is not None:
                found[each] = CommittedOffset(Offset(held.value))
        return found

    async def write(self, offsets: Offsets) -> None:
        """Store these offsets; see `OffsetNodes.commit`.

        Raises:
            CommitFailedError: a partition is no longer this member's; the others are written.
        """
        wanted = {
            slot: at.offset
            for each, at in offsets.items()
            if (slot := self._naming.slot(each)) is not None
        }
        if lost := await self._nodes.commit(wanted):
            self._on_lost(lost)
            raise CommitFailedError(self._group)


class OwnedStore:
    """Offsets in a store that knows no claims; the coordinator confirms them before each write.

    This is no fence: a write that takes longer than the session may replace an offset of the next
    owner.
    """

    def __init__(
        self,
        group: str,
        store: OffsetStore,
        nodes: OffsetNodes,
        naming: Naming,
        on_lost: Callable[[set[Slot]], None],
    ) -> None:
        self._group = group
        self._store = store
        self._nodes = nodes
        self._naming = naming
        self._on_lost = on_lost

    async def read(self, partitions: Sequence[TopicPartition]) -> Found:
        """Return the offset of each partition; None where there is none."""
        return await self._store.read(partitions)

    async def write(self, offsets: Offsets) -> None:
        """Store these offsets.

        Raises:
            CommitFailedError: a partition is no longer this member's; nothing is written.
        """
        slots = [slot for each in offsets if (slot := self._naming.slot(each)) is not None]
        if lost := await self._nodes.unowned(slots):
            self._on_lost(lost)
            raise CommitFailedError(self._group)
        await self._store.write(offsets)


class GroupStore:
    """Offsets in the Kafka group of the same name, which must have no members."""

    def __init__(self, group: str, store: KafkaStore, session: Callable[[], int]) -> None:
        """`session` returns the session that holds the claims; 0 while it is in doubt."""
        self._group = group
        self._store = store
        self._session = session

    async def read(self, partitions: Sequence[TopicPartition]) -> Found:
        """Return the offset of each partition; None where there is none."""
        return await self._store.committed(partitions)

    async def write(self, offsets: Offsets) -> None:
        """Store these offsets without membership.

        Raises:
            CommitFailedError: the session has ended, or is in doubt, before the offsets were sent.
        """
        session = self._session()

        def author() -> Identity:
            # Called before each retry, too: the next owner may have committed since the first.
            if not session or self._session() != session:
                raise CommitFailedError(self._group)
            return Identity()

        await self._store.commit(offsets, author)


class DualStore:
    """Offsets in two places, on the way from one to the other.

    Reading takes the larger offset, so a reset has to be made in both.
    """

    def __init__(self, first: OffsetStore, second: OffsetStore) -> None:
        """Write to `first` before `second`."""
        self._first = first
        self._second = second

    async def read(self, partitions: Sequence[TopicPartition]) -> Found:
        """Return the larger offset of each partition; None where there is none."""
        found = await self._second.read(partitions)
        for each, at in (await self._first.read(partitions)).items():
            other = found.get(each)
            if at is not None and (other is None or at.offset > other.offset):
                found[each] = at
        return found

    async def write(self, offsets: Offsets) -> None:
        """Store these offsets in both places."""
        await self._first.write(offsets)
        await self._second.write(offsets)


class FileStore:
    """Offsets in a JSON file, for members that share a file system; replaced as a whole.

    Several processes must not write one file: each member needs its own, and then partitions that
    move begin where `auto_offset_reset` says.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self, partitions: Sequence[TopicPartition]) -> Found:
        """Return the offset of each partition; None where there is none.

        Raises:
            ConfigurationError: the file holds something else.
        """
        held = self._load()
        return {
            each: None
            if (value := held.get(_key(each))) is None
            else CommittedOffset(Offset(value))
            for each in partitions
        }

    async def write(self, offsets: Offsets) -> None:
        """Store these offsets."""
        self._save({_key(each): at.offset for each, at in offsets.items()})

    def _load(self) -> dict[str, int]:
        try:
            held = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ConfigurationError(f"{self._path} is not a file of offsets: {error}") from error
        if not isinstance(held, dict) or any(type(value) is not int for value in held.values()):
            raise ConfigurationError(f"{self._path} is not a file of offsets")
        return held

    def _save(self, offsets: Mapping[str, int]) -> None:
        fresh = self._path.with_name(f"{self._path.name}.new")
        fresh.write_text(json.dumps(self._load() | dict(offsets), indent=1, sort_keys=True))
        fresh.replace(self._path)


def _key(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"

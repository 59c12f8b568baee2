"""Stores of offsets beside the nodes: two places at once, and a file."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kafkawire.ids import Offset, TopicPartition
from ottla.client.errors import CommitFailedError, ConfigurationError
from ottla.client.offset import CommittedOffset, Identity
from ottla.zookeeper.assignment import Slot
from ottla.zookeeper.naming import KafkaNaming
from ottla.zookeeper.offset_store import (
    DualStore,
    FileStore,
    Found,
    GroupStore,
    Offsets,
    OwnedStore,
)

A, B, C = (TopicPartition("t", number) for number in range(3))


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(Offset(offset))


class MemoryStore:
    """Offsets in memory, and the order of the writes to all stores."""

    def __init__(self, name: str, writes: list[str], **offsets: int) -> None:
        self.name, self.writes = name, writes
        self.held = {TopicPartition("t", int(each[1:])): at(offsets[each]) for each in offsets}

    async def read(self, partitions: Sequence[TopicPartition]) -> Found:
        return {each: self.held.get(each) for each in partitions}

    async def write(self, offsets: Offsets) -> None:
        self.writes.append(self.name)
        self.held.update(offsets)


async def test_two_places_are_written_in_order_and_the_larger_offset_counts() -> None:
    writes: list[str] = []
    first = MemoryStore("kafka", writes, p0=5, p1=9)
    second = MemoryStore("znodes", writes, p0=7)
    store = DualStore(first, second)
    assert await store.read([A, B, C]) == {A: at(7), B: at(9), C: None}
    await store.write({C: at(1)})
    assert writes == ["kafka", "znodes"]
    assert first.held[C] == second.held[C] == at(1)
    # A reset in one place only is hidden by the other.
    second.held[A] = at(0)
    assert (await store.read([A]))[A] == at(5)


async def test_a_file_keeps_offsets(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    store = FileStore(path)
    assert await store.read([A]) == {A: None}
    await store.write({A: at(3), B: at(4)})
    await store.write({A: at(5)})
    assert await FileStore(path).read([A, B, C]) == {A: at(5), B: at(4), C: None}


class FakeNodes:
    """The claims of others."""

    def __init__(self, *unowned: Slot) -> None:
        self.others = set(unowned)

    async def unowned(self, slots: Sequence[Slot]) -> set[Slot]:
        return self.others & set(slots)


async def test_a_store_that_knows_no_claims_is_written_by_the_owner_only() -> None:
    writes: list[str] = []
    lost: list[set[Slot]] = []
    nodes = FakeNodes(Slot("t", "1"))
    plain = MemoryStore("plain", writes)
    store = OwnedStore("g", plain, nodes, KafkaNaming(), lost.append)  # type: ignore[arg-type]
    await store.write({A: at(3), C: at(4)})
    with pytest.raises(CommitFailedError):
        await store.write({A: at(5), B: at(6)})
    assert lost == [{Slot("t", "1")}]
    assert await store.read([A, B, C]) == {A: at(3), B: None, C: at(4)}


class SlowKafka:
    """A Kafka group whose coordinator is found late: the author of a commit is asked then."""

    def __init__(self) -> None:
        self.authors: list[Identity] = []
        self.is_found = asyncio.Event()

    async def commit(self, _offsets: Offsets, author: Callable[[], Identity]) -> None:
        await self.is_found.wait()
        self.authors.append(author())


@pytest.mark.parametrize(
    ("before", "after", "is_sent"), [(7, 7, True), (7, 0, False), (7, 8, False)]
)
async def test_no_offset_is_sent_to_kafka_once_the_session_is_in_doubt(
    before: int, after: int, is_sent: bool
) -> None:
    kafka, session = SlowKafka(), [before]
    store = GroupStore("g", kafka, lambda: session[0])  # type: ignore[arg-type]
    writing = asyncio.ensure_future(store.write({A: at(3)}))
    # The write reaches the group.
    await asyncio.sleep(0)
    session[0] = after
    kafka.is_found.set()
    [outcome] = await asyncio.gather(writing, return_exceptions=True)
    assert isinstance(outcome, CommitFailedError) is not is_sent
    assert kafka.authors == [Identity()] * is_sent


@pytest.mark.parametrize("text", ["[]", '{"t-0": "x"}', "{", '{"t-0": true}'])
async def test_a_file_with_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="not a file of offsets"):
        await FileStore(path).read([A])

"""Stores of offsets beside the nodes: two places at once, and a file."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkawire.ids import Offset, TopicPartition
from ottla.client.errors import ConfigurationError
from ottla.client.offset import CommittedOffset
from ottla.zookeeper.offset_store import DualStore, FileStore, Found, Offsets

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


@pytest.mark.parametrize("text", ["[]", '{"t-0": "x"}', "{", '{"t-0": true}'])
async def test_a_file_with_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match="not a file of offsets"):
        await FileStore(path).read([A])

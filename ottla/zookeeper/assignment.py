"""The formulas by which each member computes the whole assignment (decision).

Every member must compute the same, bit for bit, as Kafka's old consumers and Jafka's do. Texts sort
by UTF-16 code units, as in Java.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Final, NamedTuple

from ottla.zookeeper.registration import Layout

_HASH_FACTOR: Final = 31
_INT_BITS: Final = 32


class Slot(NamedTuple):
    """A partition by its name in the layout of the group."""

    topic: str
    name: str


class Strategy(StrEnum):
    """Formula of a group; nobody can see that its members use different ones."""

    RANGE = "range"
    ROUNDROBIN = "roundrobin"


Threads = Mapping[str, Sequence[str]]
"""Thread ids of all members, by topic."""
Names = Mapping[str, Sequence[str]]
"""Names of the partitions, by topic."""


def java_order(text: str) -> bytes:
    """Return the key by which Java sorts texts."""
    return text.encode("utf-16-be", "surrogatepass")


def java_hash(text: str) -> int:
    """Return Java's `hashCode` of a text, signed."""
    total = 0
    units = java_order(text)
    for high, low in zip(units[::2], units[1::2], strict=True):
        total = (total * _HASH_FACTOR + (high << 8 | low)) % (1 << _INT_BITS)
    return total - (1 << _INT_BITS) if total >> (_INT_BITS - 1) else total


def sort_names(names: Iterable[str], layout: Layout) -> list[str]:
    """Return the names in the order of the formula: numbers in Kafka's layout, texts in Jafka's."""
    return sorted(names, key=int) if layout is Layout.KAFKA else sorted(names)


def assign(
    strategy: Strategy, names: Names, threads: Threads, layout: Layout = Layout.KAFKA
) -> dict[Slot, str]:
    """Return the thread id that owns each partition; a topic without readers has no owners."""
    formula = _FORMULAS[strategy]
    return formula({topic: sort_names(names[topic], layout) for topic in names}, threads)


def _range(names: Names, threads: Threads) -> dict[Slot, str]:
    owned: dict[Slot, str] = {}
    for topic in names:
        readers = sorted(set(threads.get(topic, ())), key=java_order)
        if not readers:
            continue
        share, extra = divmod(len(names[topic]), len(readers))
        for index, reader in enumerate(readers):
            start = index * share + min(index, extra)
            stop = start + share + (index < extra)
            owned |= {Slot(topic, name): reader for name in names[topic][start:stop]}
    return owned


def _roundrobin(names: Names, threads: Threads) -> dict[Slot, str]:
    everybody = sorted({each for topic in names for each in threads.get(topic, ())}, key=java_order)
    if not everybody:
        return {}
    slots = [Slot(topic, name) for topic in names for name in names[topic] if threads.get(topic)]
    slots.sort(key=lambda slot: java_hash(f"{slot.topic}-{slot.name}"))
    owned: dict[Slot, str] = {}
    position = 0
    readers = {topic: frozenset(threads[topic]) for topic in names if threads.get(topic)}
    for slot in slots:
        while everybody[position % len(everybody)] not in readers[slot.topic]:
            position += 1
        owned[slot] = everybody[position % len(everybody)]
        position += 1
    return owned


_FORMULAS: Final[Mapping[Strategy, Callable[[Names, Threads], dict[Slot, str]]]] = {
    Strategy.RANGE: _range,
    Strategy.ROUNDROBIN: _roundrobin,
}


def by_topic(slots: Iterable[Slot]) -> dict[str, list[str]]:
    """Return the names of the partitions of each topic, in order."""
    return {
        topic: [slot.name for slot in found]
        for topic, found in groupby(sorted(slots), key=lambda slot: slot.topic)
    }

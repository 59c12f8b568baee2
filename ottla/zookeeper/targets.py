"""The partitions that a producer may choose, by the broker that leads them (decision)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.producer.partitioner import murmur2

POSITIVE: Final = 0x7FFFFFFF
"""Kafka drops the sign of a hash in this way."""


class Target(NamedTuple):
    """A partition by its broker and its name in the layout."""

    broker: int
    name: str


def kafka_targets(leaders: Mapping[int, int], live: Sequence[int]) -> list[Target]:
    """Return the partitions with a live leader, sorted by broker and number."""
    alive = set(live)
    found = sorted((leader, number) for number, leader in leaders.items() if leader in alive)
    return [Target(leader, str(number)) for leader, number in found]


def jafka_targets(counts: Mapping[int, int], live: Sequence[int]) -> list[Target]:
    """Return the partitions of live brokers, sorted by broker and index."""
    return [
        Target(broker, f"{broker}-{index}")
        for broker in sorted(set(live) & counts.keys())
        for index in range(counts[broker])
    ]


def choose(
    targets: Sequence[Target], key: bytes | None, random_below: Callable[[int], int]
) -> Target:
    """Return the target of a record: by the hash of its key, or by chance without one."""
    if key is None:
        return targets[random_below(len(targets))]
    return targets[(murmur2(key) & POSITIVE) % len(targets)]

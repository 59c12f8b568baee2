"""Kafka's default partitioner: murmur2 for keys, a sticky adaptive choice for other records."""

import random
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from ottla.client.producer.partitioner import TopicPartitioner, murmur2


def first(_: int) -> int:
    """Return the first choice."""
    return 0


def choosing(*choices: int) -> Callable[[int], int]:
    """Return these choices, one after the other."""
    left = list(choices)
    return lambda _: left.pop(0)


def partitioner(count: int, sticky_bytes: int = 100, seed: int = 0) -> TopicPartitioner:
    made = TopicPartitioner(sticky_bytes, random.Random(seed).randrange)
    made.on_partitions(count, range(count))
    return made


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        # Kafka's own expectations, as signed numbers: UtilsTest.testMurmur2.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_matches_kafkas_test_values(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % 2**32


@pytest.mark.parametrize("as_type", [bytes, bytearray, memoryview])
def test_a_key_of_any_bytes_like_type_has_its_partition(as_type: type) -> None:
    assert partitioner(7).for_key(as_type(b"abc")) == (479470107 & 0x7FFFFFFF) % 7


def test_a_long_key_is_not_kept() -> None:
    some, key = partitioner(7), bytes(range(256)) * 8
    count_before = sys.getrefcount(key)
    assert some.for_key(key) == (murmur2(key) & 0x7FFFFFFF) % 7
    assert sys.getrefcount(key) == count_before


def test_a_key_keeps_its_partition_even_without_a_leader() -> None:
    some = partitioner(7)
    before = some.for_key(b"key")
    some.on_partitions(7, [1])
    some.on_sticky_bytes(10_000)
    assert some.for_key(b"key") == before


def test_the_sticky_partition_stays_until_it_got_its_share() -> None:
    chosen = TopicPartitioner(100, choosing(3, 5))
    chosen.on_partitions(8, range(8))
    assert chosen.sticky == 3
    chosen.on_sticky_bytes(99)
    assert chosen.sticky == 3
    chosen.on_sticky_bytes(1)
    assert chosen.sticky == 5


def test_a_record_that_does_not_fit_completes_the_share() -> None:
    chosen = TopicPartitioner(100, choosing(3, 5))
    chosen.on_partitions(8, range(8))
    chosen.on_sticky_bytes(95, refused_bytes=10)
    assert chosen.sticky == 5


@pytest.mark.parametrize(
    ("count", "available", "expected"),
    [
        pytest.param(10, [2, 7], {2, 7}, id="only available ones"),
        pytest.param(3, [], {0, 1, 2}, id="every one without any leader"),
    ],
)
def test_available_partitions_are_drawn(
    count: int, available: list[int], expected: set[int]
) -> None:
    some = TopicPartitioner(1, random.Random(1).randrange)
    some.on_partitions(count, available)
    drawn = set()
    for _ in range(100):
        some.on_sticky_bytes(1)
        drawn.add(some.sticky)
    assert drawn == expected


def test_unkeyed_records_spread_evenly() -> None:
    some = partitioner(4, sticky_bytes=10)
    counts: Counter[int] = Counter()
    for _ in range(8_000):
        counts[some.sticky] += 1
        some.on_sticky_bytes(10)
    assert all(1_800 < counts[partition] < 2_200 for partition in range(4)), counts


def test_shorter_queues_are_drawn_more_often() -> None:
    """Kafka's example: queues 0, 3, 1 have the weights 4, 1, 3."""
    drawn: Counter[int] = Counter()
    for point in range(8):
        some = TopicPartitioner(1, choosing(0, point))
        some.on_partitions(3, range(3))
        some.on_load({0: 0, 1: 3, 2: 1})
        some.on_sticky_bytes(1)
        drawn[some.sticky] += 1
    assert drawn == {0: 4, 1: 1, 2: 3}


@pytest.mark.parametrize("lengths", [{}, {0: 5}, {0: 2, 1: 2, 2: 2}])
def test_queues_of_equal_length_leave_the_choice_even(lengths: dict[int, int]) -> None:
    bounds = []

    def random_below(below: int) -> int:
        bounds.append(below)
        return 0

    some = TopicPartitioner(1, random_below)
    some.on_partitions(3, range(3))
    some.on_load({0: 0, 1: 3, 2: 1})
    some.on_load(lengths)
    some.on_sticky_bytes(1)
    assert bounds == [3, 3]


def test_a_topic_that_grows_forgets_weights_and_one_that_shrinks_its_choice() -> None:
    some = TopicPartitioner(1, first)
    some.on_partitions(3, [2])
    assert some.sticky == 2
    some.on_load({0: 0, 2: 9})
    some.on_partitions(2, [1])
    assert some.sticky == 1

"""The targets of a producer, and its choice among them."""

from ottla.client.producer.partitioner import murmur2
from ottla.zookeeper.targets import Target, choose, jafka_targets, kafka_targets


def test_partitions_of_live_leaders_are_targets() -> None:
    leaders = {0: 1, 1: 2, 2: 1, 10: 1, 3: -1}
    assert kafka_targets(leaders, [1]) == [Target(1, "0"), Target(1, "2"), Target(1, "10")]
    assert kafka_targets(leaders, []) == []


def test_each_live_broker_of_jafka_has_its_count_of_targets() -> None:
    assert jafka_targets({1: 2, 0: 1, 9: 5}, [0, 1, 3]) == [
        Target(0, "0-0"),
        Target(1, "1-0"),
        Target(1, "1-1"),
    ]


def test_a_key_decides_and_without_one_chance_does() -> None:
    targets = [Target(1, str(number)) for number in range(6)]
    assert choose(targets, None, lambda count: count - 1) == targets[5]
    for key in (b"", b"a", b"customer-17"):
        expected = targets[(murmur2(key) & 0x7FFFFFFF) % 6]
        assert choose(targets, key, lambda _count: 0) == expected

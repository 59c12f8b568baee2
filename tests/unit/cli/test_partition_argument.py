"""Command-line syntax of partitions and replicas: `ottla.cli.partition_argument`."""

from collections import Counter
from collections.abc import Callable

import pytest

from kafkawire.ids import TopicPartition
from ottla.cli.partition_argument import (
    expand,
    parse_brokers,
    parse_move,
    parse_moves,
    parse_partition,
    parse_plan,
    spread,
)

MOVE = '{"topic": "a", "partition": 0, "replicas": [1]}'
ORDERS = [TopicPartition("orders", number) for number in range(12)]


def test_partitions_and_broker_lists_are_parsed() -> None:
    assert parse_partition("orders") == ("orders", None)
    assert parse_partition("orders:3") == ("orders", 3)
    assert parse_move("orders:3=2,1") == (ORDERS[3], (2, 1))
    assert parse_brokers("1, 2,3") == (1, 2, 3)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_partition, ":1"),
        (parse_partition, "orders:x"),
        (parse_partition, "orders:²"),
        (parse_partition, "orders:2147483648"),
        (parse_partition, "orders:" + "9" * 5_000),
        (parse_move, "orders=1"),
        (parse_move, "orders:1"),
        (parse_move, "orders:1="),
        (parse_brokers, "1,x"),
        (parse_brokers, "1,1"),
        (parse_brokers, "1,²"),
        (parse_brokers, "2147483648"),
        (parse_plan, "{}"),
        (parse_plan, '{"partitions": [{"topic": "orders"}]}'),
        (parse_plan, "not json"),
        (parse_plan, '{"partitions": ' + "[" * 100_000),
        (parse_plan, '{"partitions": [{"topic": "a", "partition": Infinity, "replicas": []}]}'),
        # No number is rounded to that of another partition or broker.
        (parse_plan, '{"partitions": [{"topic": "a", "partition": 0.7, "replicas": [1]}]}'),
        (parse_plan, '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1.9]}]}'),
        (parse_plan, '{"partitions": [{"topic": "a", "partition": 2147483648, "replicas": [1]}]}'),
        (parse_plan, '{"partitions": [{"topic": "a", "partition": true, "replicas": [1]}]}'),
        (parse_plan, f'{{"partitions": [{MOVE}, {MOVE}]}}'),
        (parse_plan, '{"partitions": []}'),
    ],
)
def test_malformed_argument_is_rejected(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match=r"is not |twice|names no"):
        parse(text)


def test_each_partition_moves_once() -> None:
    assert parse_moves(["orders:1=1", "orders:2=2"]) == {ORDERS[1]: (1,), ORDERS[2]: (2,)}
    with pytest.raises(ValueError, match="orders-1 is named twice"):
        parse_moves(["orders:1=1", "orders:1=2"])


def test_plan_in_kafkas_format_is_parsed() -> None:
    plan = '{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[3,1]}]}'
    assert parse_plan(plan) == {ORDERS[1]: (3, 1)}


def test_topic_expands_to_its_partitions() -> None:
    assert expand([("orders", None), ("other", 4)], {"orders": 2}) == [
        *ORDERS[:2],
        TopicPartition("other", 4),
    ]


def test_spread_gives_every_broker_the_same_share() -> None:
    moves = spread(dict.fromkeys(ORDERS, 2), [1, 2, 3])
    assert Counter(replicas[0] for replicas in moves.values()) == {1: 4, 2: 4, 3: 4}
    assert Counter(each for replicas in moves.values() for each in replicas) == {1: 8, 2: 8, 3: 8}
    # Partitions with the same leader have their second replicas on different brokers.
    assert {moves[ORDERS[0]][1], moves[ORDERS[3]][1]} == {2, 3}


def test_spread_needs_as_many_brokers_as_replicas() -> None:
    assert spread({ORDERS[0]: 1}, [7]) == {ORDERS[0]: (7,)}
    with pytest.raises(ValueError, match="name at least 3 brokers"):
        spread({ORDERS[0]: 3}, [1, 2])

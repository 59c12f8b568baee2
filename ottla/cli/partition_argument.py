"""Command-line syntax of partitions and their replicas (decision).

`orders:0` names a partition, `orders` all partitions of the topic, and `orders:0=1,2,3` a partition
with the brokers that hold its replicas, the preferred leader first.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkawire.ids import TopicPartition

MAX_NUMBER: Final = 2**31 - 1
"""Largest broker id and largest partition, numbers of four bytes in the protocol."""


def parse_brokers(text: str) -> tuple[int, ...]:
    """Return the broker ids in a text like `1,2,3`.

    Raises:
        ValueError: the text is not a list of distinct numbers.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(map(_is_number, words)):
        raise ValueError(f"{text!r} is not a list of broker ids such as 1,2,3")
    brokers = tuple(map(int, words))
    if len(set(brokers)) < len(brokers):
        raise ValueError(f"{text!r} names a broker twice")
    return brokers


def _is_number(text: str) -> bool:
    """Whether the text is a number that the protocol can hold as a broker or partition."""
    is_short = text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_NUMBER))
    return is_short and int(text) <= MAX_NUMBER


def parse_partition(text: str) -> tuple[str, int | None]:
    """Return the topic and partition in `TOPIC[:PARTITION]`; the partition may be None.

    Raises:
        ValueError: the topic is missing, or the partition is not a number.
    """
    topic, separator, number = text.partition(":")
    if not topic or (separator and not _is_number(number)):
        raise ValueError(f"{text!r} is not of the form TOPIC or TOPIC:PARTITION")
    return topic, int(number) if separator else None


def parse_move(text: str) -> tuple[TopicPartition, tuple[int, ...]]:
    """Return the partition and brokers in `TOPIC:PARTITION=BROKER,...`.

    Raises:
        ValueError: the text is not of that form.
    """
    place, _, brokers = text.partition("=")
    topic, partition = parse_partition(place)
    if partition is None or not brokers:
        raise ValueError(f"{text!r} is not of the form TOPIC:PARTITION=BROKER,...")
    return TopicPartition(topic, partition), parse_brokers(brokers)


def parse_moves(texts: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the partitions and brokers in texts of the form `TOPIC:PARTITION=BROKER,...`.

    Raises:
        ValueError: a text is not of that form, or names the partition of another one.
    """
    return _one_each(map(parse_move, texts))


def parse_plan(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the moves in a plan of the format of kafka-reassign-partitions.sh.

    Raises:
        ValueError: the text is not such a plan, names a partition twice, or has no moves.
    """
    moves = _one_each(_moves_of_plan(text))
    if not moves:
        raise ValueError("the plan names no partition: there is nothing to move")
    return moves


def _moves_of_plan(text: str) -> list[tuple[TopicPartition, tuple[int, ...]]]:
    try:
        return [
            (
                TopicPartition(str(entry["topic"]), _whole(entry["partition"])),
                tuple(map(_whole, entry["replicas"])),
            )
            for entry in json.loads(text)["partitions"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(
            'the file is not a reassignment plan such as {"version":1,"partitions":'
            '[{"topic":"orders","partition":0,"replicas":[1,2,3]}]}'
        ) from error


def _whole(value: object) -> int:
    # No number is rounded: it would be the number of another partition or broker.
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
        raise ValueError(f"{value!r} is not the number of a partition or broker")
    return value


def _one_each(
    moves: Iterable[tuple[TopicPartition, tuple[int, ...]]],
) -> dict[TopicPartition, tuple[int, ...]]:
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for where, brokers in moves:
        if where in found:
            raise ValueError(f"{where} is named twice: give its brokers once")
        found[where] = brokers
    return found


def spread(
    counts: Mapping[TopicPartition, int], brokers: Sequence[int]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return a round-robin assignment of partitions to `brokers`; `counts` are replica counts.

    The distance between a leader and its followers grows with each round, so that all other brokers
    share the load of a broker that fails.

    Raises:
        ValueError: a partition has more replicas than there are brokers.
    """
    moves = {}
    for index, (where, count) in enumerate(sorted(counts.items())):
        if count > len(brokers):
            raise ValueError(f"{where} has {count} replicas: name at least {count} brokers")
        turn, first = divmod(index, len(brokers))
        others = [brokers[(first + step) % len(brokers)] for step in range(1, len(brokers))]
        shift = turn % max(1, len(others))
        moves[where] = (brokers[first], *(others[shift:] + others[:shift])[: count - 1])
    return moves


def expand(
    places: Iterable[tuple[str, int | None]], counts: Mapping[str, int]
) -> list[TopicPartition]:
    """Return all partitions that `places` name; `counts` holds each topic's partition count."""
    return [
        TopicPartition(topic, number)
        for topic, partition in places
        for number in (range(counts[topic]) if partition is None else (partition,))
    ]

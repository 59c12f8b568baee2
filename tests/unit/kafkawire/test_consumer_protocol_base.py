"""Subscriptions and assignments as aiokafka writes them, in every version that there is."""

import struct

import pytest

from kafkawire.consumer_protocol_base import assigned_partitions, subscribed_topics
from kafkawire.errors import DecodeError
from kafkawire.ids import TopicPartition

TOPICS = struct.pack(">i", 2) + b"\0\1a" + b"\0\2bc"
ASSIGNED = struct.pack(">i", 1) + b"\0\1a" + struct.pack(">iii", 2, 0, 7)


@pytest.mark.parametrize("version", [0, 1, 3, 99])
@pytest.mark.parametrize("rest", [b"", b"\xff\xff\xff\xff", b"whatever a newer version adds"])
def test_every_version_begins_with_the_first(version: int, rest: bytes) -> None:
    head = struct.pack(">h", version)
    assert subscribed_topics(head + TOPICS + rest) == {"a", "bc"}
    expected = [TopicPartition("a", 0), TopicPartition("a", 7)]
    assert assigned_partitions(head + ASSIGNED + rest) == expected


def test_an_empty_assignment_assigns_nothing() -> None:
    assert assigned_partitions(b"") == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\xff\xff" + TOPICS,
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\x7f\xff\xff\xff",
        b"\0\0" + TOPICS[:-1],
        b"\0\0\0\0\0\1\0\1\xff",
        b"\0\0\0\0\0\1\xff\xff",
    ],
)
def test_damaged_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        subscribed_topics(data)

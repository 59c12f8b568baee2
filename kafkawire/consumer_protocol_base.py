"""Decision: the first part of what consumers say to each other through their group.

A broker hands on the bytes of subscriptions and assignments without looking. Whoever looks needs
only what version 0 has, with which every later version begins: topics, or partitions by topic.

Source: ConsumerProtocolSubscription and ConsumerProtocolAssignment of Kafka 3.9.
"""

from struct import Struct
from struct import error as struct_error
from typing import Final

from kafkawire.errors import DecodeError
from kafkawire.ids import TopicPartition

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_VERSION: Final = Struct(">h")
_COUNT: Final = Struct(">i")
_LENGTH: Final = Struct(">h")


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics that a member subscribes to.

    Raises:
        DecodeError: this is no subscription.
    """
    reader = _Reader(metadata)
    return frozenset(reader.string() for _ in range(reader.count()))


def assigned_partitions(assignment: bytes) -> list[TopicPartition]:
    """Return the partitions that a member was given; none for an empty assignment.

    Raises:
        DecodeError: this is no assignment.
    """
    if not assignment:
        return []
    reader = _Reader(assignment)
    partitions = []
    for _ in range(reader.count()):
        topic = reader.string()
        partitions += [TopicPartition(topic, reader.number()) for _ in range(reader.count())]
    return partitions


class _Reader:
    """Reads what version 0 consists of, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0
        if self._unpack(_VERSION) < 0:
            raise DecodeError("a consumer's protocol has no negative version")

    def count(self) -> int:
        """Return the length of an array; each element takes two bytes at least."""
        count = self._unpack(_COUNT)
        if not 0 <= count <= len(self._data) - self._position:
            raise DecodeError(f"{len(self._data)} bytes cannot hold {count} elements")
        return count

    def number(self) -> int:
        return self._unpack(_COUNT)

    def string(self) -> str:
        size = self._unpack(_LENGTH)
        start, self._position = self._position, self._position + size
        if size < 0 or self._position > len(self._data):
            raise DecodeError(f"a string of {size} bytes at {start} of {len(self._data)}")
        try:
            return self._data[start : self._position].decode()
        except UnicodeDecodeError as error:
            raise DecodeError(str(error)) from None

    def _unpack(self, layout: Struct) -> int:
        try:
            value: int = layout.unpack_from(self._data, self._position)[0]
        except struct_error:
            raise DecodeError(f"cut short at {len(self._data)} bytes") from None
        self._position += layout.size
        return value

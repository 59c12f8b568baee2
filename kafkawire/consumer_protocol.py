"""The bytes that consumers of a group exchange, prefixed with their version (decision).

A broker forwards them unread. A reader treats an unknown newer version as the newest known one, and
ignores the bytes behind its fields: later versions only append fields (KIP-429).

Source: KIP-429, KIP-792; ConsumerProtocol of Kafka 3.9.
"""

from struct import Struct
from typing import Final, TypeVar

from kafkawire.errors import DecodeError, TrailingBytesError
from kafkawire.ids import TopicPartition
from kafkawire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafkawire.schema import decode, encode, versions_of

P = TypeVar("P", ConsumerProtocolSubscription, ConsumerProtocolAssignment)

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
MAX_SURPLUS_BYTES: Final = 256
"""Maximum number of bytes that a newer version may append."""

_VERSION: Final = Struct(">h")


def encode_subscription(subscription: ConsumerProtocolSubscription) -> bytes:
    """Return the bytes of a subscription, in the newest version."""
    return _encode(subscription)


def encode_assignment(assignment: ConsumerProtocolAssignment) -> bytes:
    """Return the bytes of an assignment, in the newest version."""
    return _encode(assignment)


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Return the subscription of a member.

    Raises:
        DecodeError: `data` is not a subscription.
    """
    return _decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Return the assignment of a member; empty for no bytes, as before the first assignment.

    Raises:
        DecodeError: `data` is not an assignment.
    """
    if not data:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    return _decode(ConsumerProtocolAssignment, data)


def subscribed_topics(data: bytes) -> frozenset[str]:
    """Return the topics that a member subscribes to.

    Raises:
        DecodeError: `data` is not a subscription.
    """
    return frozenset(decode_subscription(data).topics)


def assigned_partitions(data: bytes) -> list[TopicPartition]:
    """Return the partitions assigned to a member; none for an empty assignment.

    Raises:
        DecodeError: `data` is not an assignment.
    """
    return [
        TopicPartition(each.topic, index)
        for each in decode_assignment(data).assigned_partitions
        for index in each.partitions
    ]


def _encode(value: ConsumerProtocolSubscription | ConsumerProtocolAssignment) -> bytes:
    _, newest = versions_of(type(value))
    return _VERSION.pack(newest) + encode(value, newest)


def _decode(kind: type[P], data: bytes) -> P:
    if len(data) < _VERSION.size:
        raise DecodeError(f"{kind.__name__}: {len(data)} bytes hold no version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"{kind.__name__}: version {version} is negative")
    _, newest = versions_of(kind)
    version, body = min(version, newest), memoryview(data)[_VERSION.size :]
    try:
        return decode(kind, body, version)
    except TrailingBytesError as error:
        if error.left_bytes > MAX_SURPLUS_BYTES:
            raise
        return decode(kind, body[: -error.left_bytes], version)

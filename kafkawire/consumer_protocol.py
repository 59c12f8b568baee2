"""Decision: the bytes that consumers of a group exchange, with their version in front.

A version newer than is known here is read as the newest known one: later versions only append
fields (KIP-429).

Source: KIP-429, KIP-792; ConsumerProtocol of Kafka 3.9.
"""

from struct import Struct
from typing import Final, TypeVar

from kafkawire.errors import DecodeError
from kafkawire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kafkawire.schema import decode, encode, versions_of

P = TypeVar("P", ConsumerProtocolSubscription, ConsumerProtocolAssignment)

MAX_SURPLUS_BYTES: Final = 256
"""How much a newer version may append."""

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
        DecodeError: these are not its bytes.
    """
    return _decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Return what a member was given; nothing for empty bytes, as brokers hold them meanwhile.

    Raises:
        DecodeError: these are not its bytes.
    """
    if not data:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    return _decode(ConsumerProtocolAssignment, data)


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
    body = memoryview(data)[_VERSION.size :]
    if version <= newest:
        return decode(kind, body, version)
    return _decode_prefix(kind, body, newest)


def _decode_prefix(kind: type[P], body: memoryview, version: int) -> P:
    """Decode what a newer version begins with; exactly one length of it is a whole message."""
    shortest = max(len(body) - MAX_SURPLUS_BYTES, 0)
    for size in range(len(body), shortest - 1, -1):
        try:
            return decode(kind, body[:size], version)
        except DecodeError:
            continue
    raise DecodeError(f"{kind.__name__}: no version {version} in the first of {len(body)} bytes")

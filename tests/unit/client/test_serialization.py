"""Ready-made serializers round-trip; others are functions, or objects that know the topic."""

import asyncio
from typing import Any

import pytest

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import TimestampType
from ottla.client.consumer import record_hooks as consumer_hooks
from ottla.client.errors import ConfigurationError, DeserializationError, SerializationError
from ottla.client.interceptor import ProducerRecord
from ottla.client.producer import record_hooks as producer_hooks
from ottla.client.record import ConsumerRecord
from ottla.client.serialization import (
    json_deserializer,
    json_serializer,
    msgpack_deserializer,
    msgpack_serializer,
    parse_deserializer,
    parse_serializer,
    string_deserializer,
    string_serializer,
)

VALUE = {"name": "Grüße", "numbers": [1, 2.5, None, True]}


@pytest.mark.parametrize(
    ("serialize", "deserialize", "value"),
    [
        (json_serializer, json_deserializer, VALUE),
        (msgpack_serializer, msgpack_deserializer, VALUE),
        (string_serializer, string_deserializer, "Grüße"),
    ],
)
def test_a_value_survives_a_round_trip_and_a_tombstone_stays_one(
    serialize: Any, deserialize: Any, value: object
) -> None:
    data = serialize(value)
    assert isinstance(data, bytes)
    assert deserialize(data) == value
    assert serialize(None) is None
    assert deserialize(None) is None


class Upper:
    """Depends on the topic."""

    def serialize(self, topic: str, value: str) -> bytes:
        return f"{topic}:{value}".encode()

    def deserialize(self, topic: str, data: bytes | None) -> str:
        return f"{topic}:{data!r}"


def test_an_object_gets_the_topic_and_a_function_does_not() -> None:
    encode, decode = parse_serializer("v", Upper()), parse_deserializer("v", Upper())
    assert encode is not None
    assert decode is not None
    assert encode("t", "x") == b"t:x"
    assert decode("t", b"x") == "t:b'x'"
    encode = parse_serializer("v", string_serializer)
    decode = parse_deserializer("v", string_deserializer)
    assert encode is not None
    assert decode is not None
    assert (encode("t", "x"), decode("t", b"x")) == (b"x", "x")


def test_no_serializer_is_none() -> None:
    assert parse_serializer("v", None) is None
    assert parse_deserializer("v", None) is None


@pytest.mark.parametrize("parse", [parse_serializer, parse_deserializer])
def test_other_objects_are_refused_by_name(parse: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"value_x must be a function .* got 'json'"):
        parse("value_x", "json")


SENT = ProducerRecord("t", "v", None, None, 1, ())
FETCHED = ConsumerRecord(
    "t", 0, Offset(0), 1, None, b"v", (), TimestampType.CREATE_TIME, LeaderEpoch(0)
)


def cancelled_lookup(_: object) -> "asyncio.Future[bytes]":
    """Return a lookup that was cancelled, though not by a task that awaits it."""
    lookup: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    lookup.cancel()
    return lookup


def cancelled_result(_: object) -> bytes:
    """Ask for the result of a lookup that was cancelled."""
    return cancelled_lookup(_).result()


@pytest.mark.parametrize("function", [cancelled_lookup, cancelled_result])
async def test_a_cancelled_lookup_of_a_serializer_is_its_error(function: Any) -> None:
    hooks = producer_hooks.make_hooks(None, function, None, [])
    assert hooks is not None
    with pytest.raises(SerializationError, match="value_serializer raised CancelledError"):
        await hooks.encoded(SENT)
    reading = consumer_hooks.make_hooks(None, function, [])
    assert reading is not None
    assert isinstance((await reading.decoded([FETCHED])).error, DeserializationError)


async def test_a_cancelled_call_of_a_serializer_is_no_error_of_it() -> None:
    def pending(_: object) -> "asyncio.Future[bytes]":
        return asyncio.get_running_loop().create_future()

    sending = producer_hooks.make_hooks(None, pending, None, [])
    reading = consumer_hooks.make_hooks(None, pending, [])
    assert sending is not None
    assert reading is not None
    for call in (sending.encoded(SENT), reading.decoded([FETCHED])):
        task: asyncio.Task[object] = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

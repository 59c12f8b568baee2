"""Ready-made serializers round-trip; others are functions, or objects that know the topic."""

from typing import Any

import pytest

from ottla.client.errors import ConfigurationError
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

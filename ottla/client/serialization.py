"""Turns keys and values into bytes and back (decision).

A serializer is a function of one value, or an object with `serialize(topic, value)`; a
deserializer is a function of bytes, or an object with `deserialize(topic, data)`. Either may be
async. The ready-made ones pass None through, since it is the value of a tombstone.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from ottla.client.errors import ConfigurationError

TEXT_ENCODING: Final = "utf-8"


@runtime_checkable
class TopicSerializer(Protocol):
    """A serializer that depends on the topic, such as one with a schema registry."""

    def serialize(self, topic: str, value: Any) -> bytes | Awaitable[bytes | None] | None:
        """Return the bytes of `value` in a record of `topic`."""


@runtime_checkable
class TopicDeserializer(Protocol):
    """A deserializer that depends on the topic."""

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """Return the value of `data` in a record of `topic`, or an awaitable of it."""


Serializer: TypeAlias = Callable[[Any], bytes | Awaitable[bytes | None] | None] | TopicSerializer
Deserializer: TypeAlias = Callable[[bytes | None], Any] | TopicDeserializer
Encode: TypeAlias = Callable[[str, Any], Any]
Decode: TypeAlias = Callable[[str, bytes | None], Any]


def json_serializer(value: Any) -> bytes | None:
    """Return `value` as compact JSON in UTF-8."""
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(TEXT_ENCODING)


def json_deserializer(data: bytes | None) -> Any:
    """Return the value of JSON in UTF-8."""
    return None if data is None else json.loads(data)


def string_serializer(value: str | None) -> bytes | None:
    """Return text in UTF-8."""
    return None if value is None else value.encode(TEXT_ENCODING)


def string_deserializer(data: bytes | None) -> str | None:
    """Return the text of bytes in UTF-8."""
    return None if data is None else data.decode(TEXT_ENCODING)


def msgpack_serializer(value: Any) -> bytes | None:
    """Return `value` as MessagePack."""
    return None if value is None else bytes(_msgpack().packb(value))


def msgpack_deserializer(data: bytes | None) -> Any:
    """Return the value of MessagePack."""
    return None if data is None else _msgpack().unpackb(data)


def parse_serializer(name: str, serializer: Serializer | None) -> Encode | None:
    """Return `serializer` as a function of topic and value; errors call it `name`.

    Raises:
        ConfigurationError: it is neither a function nor an object with `serialize`.
    """
    if serializer is None:
        return None
    if isinstance(serializer, TopicSerializer):
        return serializer.serialize
    if callable(serializer):
        return lambda _, value: serializer(value)
    raise ConfigurationError(
        f"{name} must be a function of one value, or have serialize(topic, value), "
        f"got {serializer!r}"
    )


def parse_deserializer(name: str, deserializer: Deserializer | None) -> Decode | None:
    """Return `deserializer` as a function of topic and bytes; errors call it `name`.

    Raises:
        ConfigurationError: it is neither a function nor an object with `deserialize`.
    """
    if deserializer is None:
        return None
    if isinstance(deserializer, TopicDeserializer):
        return deserializer.deserialize
    if callable(deserializer):
        return lambda _, data: deserializer(data)
    raise ConfigurationError(
        f"{name} must be a function of bytes, or have deserialize(topic, data), "
        f"got {deserializer!r}"
    )


def _msgpack() -> Any:
    # The client itself needs no library.
    import msgpack  # type: ignore[import-untyped,unused-ignore]

    return msgpack

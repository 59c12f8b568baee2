"""JSON of znodes: compact encoding, and decoding with checked types (decision)."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, Self

from clusterstate.errors import MalformedZnodeError

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_DECODER: Final = json.JSONDecoder()


def encode_json(value: Mapping[str, object]) -> bytes:
    """Return `value` as Kafka encodes JSON: no spaces, UTF-8, keys in the given order."""
    return _ENCODER.encode(value).encode()


class JsonObject:
    """Fields of one JSON object; reading a field of another type raises MalformedZnodeError."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields

    @classmethod
    def decode(cls, data: bytes | None) -> Self:
        """Decode the object in a znode's data.

        Raises:
            MalformedZnodeError: not a JSON object.
        """
        try:
            value = _DECODER.decode((data or b"").decode())
        except (ValueError, RecursionError) as error:
            # Without the data, which may hold passwords and their keys.
            raise MalformedZnodeError(f"not JSON, {len(data or b'')} bytes: {error}") from error
        return cls(_object(value))

    def has(self, name: str) -> bool:
        """Whether the field exists and is not null."""
        return self._fields.get(name) is not None

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer; accept decimal text too, as Kafka writes for timestamps."""
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, str):
            try:
                return int(value)
            except ValueError:
                raise MalformedZnodeError(f"{name} is not an integer, but text") from None
        return _integer(name, value)

    def text(self, name: str) -> str:
        """Return a string."""
        value = self._fields.get(name)
        if not isinstance(value, str):
            raise MalformedZnodeError(f"{name} is not a string: {type(value).__name__}")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """Return a list of integers."""
        return _integers(name, self._fields.get(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        items = _list(name, self._fields.get(name))
        if any(not isinstance(item, str) for item in items):
            raise MalformedZnodeError(f"{name} is not a list of strings: {type(items).__name__}")
        return tuple(str(item) for item in items)

    def objects(self, name: str) -> "list[JsonObject]":
        """Return a list of objects."""
        return [JsonObject(_object(item)) for item in _list(name, self._fields.get(name))]

    def text_map(self, name: str) -> dict[str, str]:
        """Return a map of strings; empty if the field is missing."""
        fields = _object(self._fields.get(name) or {})
        if any(not isinstance(value, str) for value in fields.values()):
            raise MalformedZnodeError(f"{name} is not a map of strings: {type(fields).__name__}")
        return {key: str(value) for key, value in fields.items()}

    def level_map(self, name: str) -> dict[str, int]:
        """Return the level of each feature; empty if the field is missing."""
        fields = _object(self._fields.get(name) or {})
        return {
            key: JsonObject(_object(value)).integer("max_version_level")
            for key, value in fields.items()
        }

    def replica_map(self, name: str) -> dict[int, tuple[int, ...]]:
        """Return broker ids per partition, whose keys are text; empty if the field is missing."""
        fields = _object(self._fields.get(name) or {})
        try:
            return {int(key): _integers(name, value) for key, value in fields.items()}
        except ValueError as error:
            raise MalformedZnodeError(f"{name} has a key that is not a number") from error


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise MalformedZnodeError(f"not an object: {type(value).__name__}")
    return value


def _list(name: str, value: object) -> Sequence[object]:
    if not isinstance(value, list):
        raise MalformedZnodeError(f"{name} is not a list: {type(value).__name__}")
    return value


def _integers(name: str, value: object) -> tuple[int, ...]:
    return tuple([_integer(name, item) for item in _list(name, value)])


def _integer(name: str, value: object) -> int:
    # A bool is an int to Python, but not to JSON.
    if type(value) is not int:
        raise MalformedZnodeError(f"{name} is not an integer: {type(value).__name__}")
    return value

"""Writes keys and values as Avro, with the id of their schema (edge)."""

from collections.abc import Awaitable
from typing import Any, Final, Protocol

from ottla.client.avro.codec import Codec, JsonSchema, schema_text
from ottla.client.avro.lookup import Lookup
from ottla.client.avro.subject import SubjectName, subject_namer
from ottla.client.avro.wire_format import frame

MAX_SUBJECTS: Final = 1_000
"""Limit of the subjects whose schema id a serializer remembers."""


class Ids(Protocol):
    """The part of a registry that serializers need."""

    async def register(self, subject: str, schema: str) -> int:
        """Add a version to a subject; return the schema's id."""

    async def find_id(self, subject: str, schema: str) -> int:
        """Return the id of a version of a subject."""


class AvroSerializer:
    """Turns values into Avro in Confluent's wire format; None stays None, for tombstones.

        Producer(..., value_serializer=AvroSerializer(registry, schema))

    The first record of a topic waits for the registry. Later ones need no `await`.
    """

    def __init__(
        self,
        registry: Ids,
        schema: JsonSchema,
        *,
        is_key: bool = False,
        subject: SubjectName = "topic",
        auto_register: bool = True,
    ) -> None:
        """Parse the schema; the registry learns of it with the first record.

        Args:
            registry: The registry, which other serializers may share.
            schema: Text in JSON, JSON's objects, or the name of a primitive type.
            is_key: Whether it serializes keys, which have subjects of their own.
            subject: Name of the subject: "topic" (TOPIC-value or TOPIC-key), "record" or
                "topic-record", as the strategies of Confluent's serializers.
            auto_register: Whether the serializer registers the schema; otherwise the subject must
                have it already.

        Raises:
            SchemaError: the schema cannot be used.
            ConfigurationError: `subject` is unknown or does not fit, or a package is missing.
        """
        self._registry = registry
        self._text = schema_text(schema)
        self._codec = Codec(self._text)
        self._subject_of = subject_namer(subject, self._codec.record_name, is_key=is_key)
        self._find_id = registry.register if auto_register else registry.find_id
        self._ids: Lookup[str, int] = Lookup(MAX_SUBJECTS)

    def serialize(self, topic: str, value: Any) -> bytes | Awaitable[bytes | None] | None:
        """Return the bytes of `value`, or an awaitable of them if the registry has to be asked.

        Raises:
            SchemaError: the value does not fit the schema.
        """
        if value is None:
            return None
        payload = self._codec.encode(value)
        subject = self._subject_of(topic)
        schema_id = self._ids.get(subject)
        if schema_id is None:
            return self._framed(subject, payload)
        return frame(schema_id, payload)

    async def _framed(self, subject: str, payload: bytes) -> bytes:
        schema_id = await self._ids.find(subject, lambda: self._find_id(subject, self._text))
        return frame(schema_id, payload)

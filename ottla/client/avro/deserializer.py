"""Reads Avro keys and values with the schema that their id names (edge)."""

from typing import Any, Final, Protocol

from ottla.client.avro.answer import MAX_REFERENCES, RegisteredSchema
from ottla.client.avro.codec import Codec, JsonSchema, schema_text
from ottla.client.avro.lookup import Lookup
from ottla.client.avro.wire_format import unframe
from ottla.client.errors import SchemaError

MAX_SCHEMAS: Final = 1_000
"""Limit of the schemas that a deserializer remembers."""


class Schemas(Protocol):
    """The part of a registry that deserializers need."""

    async def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with an id."""

    async def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject."""


class AvroDeserializer:
    """Turns Avro in Confluent's wire format into values; None stays None.

        Consumer(..., value_deserializer=AvroDeserializer(registry))

    The first record of a schema waits for the registry.
    """

    def __init__(self, registry: Schemas, schema: JsonSchema | None = None) -> None:
        """Parse the reader's schema.

        Args:
            registry: The registry, which other deserializers may share.
            schema: The schema of the values to return; None for the writers'.

        Raises:
            SchemaError: the schema cannot be used.
            ConfigurationError: a package is missing.
        """
        self._registry = registry
        self._reader = None if schema is None else Codec(schema_text(schema))
        self._codecs: Lookup[int, Codec] = Lookup(MAX_SCHEMAS)

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """Return the value of `data`, or an awaitable of it if the registry has to be asked.

        Raises:
            SchemaError: the bytes are not in the wire format, or do not fit their schema.
        """
        del topic
        if data is None:
            return None
        schema_id, payload = unframe(data)
        codec = self._codecs.get(schema_id)
        if codec is None:
            return self._decoded(schema_id, payload)
        return codec.decode(payload, self._reader)

    async def _decoded(self, schema_id: int, payload: bytes) -> Any:
        codec = await self._codecs.find(schema_id, lambda: self._codec(schema_id))
        return codec.decode(payload, self._reader)

    async def _codec(self, schema_id: int) -> Codec:
        registered = await self._registry.schema(schema_id)
        others: dict[tuple[str, int], str] = {}
        await self._collect(registered, others, set())
        return Codec(registered.text, list(others.values()))

    async def _collect(
        self,
        registered: RegisteredSchema,
        others: dict[tuple[str, int], str],
        begun: set[tuple[str, int]],
    ) -> None:
        """Add the schemas that one needs to `others`, each before its users."""
        for reference in registered.references:
            place = (reference.subject, reference.version)
            if place in begun:
                continue
            begun.add(place)
            if len(begun) > MAX_REFERENCES:
                raise SchemaError(f"the schema needs more than {MAX_REFERENCES} others")
            other = await self._registry.version(*place)
            await self._collect(other, others, begun)
            others[place] = other.text

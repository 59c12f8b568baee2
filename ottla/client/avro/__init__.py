"""Avro for keys and values, with a schema registry; needs `ottla[avro]` (composition)."""

from ottla.client.avro.deserializer import AvroDeserializer
from ottla.client.avro.registry import SchemaRegistry
from ottla.client.avro.serializer import AvroSerializer

__all__ = ["AvroDeserializer", "AvroSerializer", "SchemaRegistry"]

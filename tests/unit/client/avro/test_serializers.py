"""Serializers and deserializers ask the registry once for each schema."""

import asyncio
from typing import Any

import pytest

from ottla.client.avro import AvroDeserializer, AvroSerializer
from ottla.client.avro.answer import Reference, RegisteredSchema
from ottla.client.errors import SchemaError, SchemaRegistryError

ITEM = '{"type":"record","name":"Item","fields":[{"name":"n","type":"int"}]}'
CART = '{"type":"record","name":"Cart","fields":[{"name":"item","type":"Item"}]}'


class Registry:
    """Schemas in memory; counts its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.schemas: dict[int, RegisteredSchema] = {}
        self.versions: dict[tuple[str, int], RegisteredSchema] = {}
        self.ids: dict[tuple[str, str], int] = {}

    async def register(self, subject: str, schema: str) -> int:
        self.calls.append(f"register {subject}")
        # Others can run meanwhile.
        await asyncio.sleep(0)
        schema_id = self.ids.setdefault((subject, schema), len(self.ids) + 1)
        self.schemas[schema_id] = RegisteredSchema(schema)
        return schema_id

    async def find_id(self, subject: str, schema: str) -> int:
        self.calls.append(f"find_id {subject}")
        if (subject, schema) not in self.ids:
            raise SchemaRegistryError("not there", status=404)
        return self.ids[subject, schema]

    async def schema(self, schema_id: int) -> RegisteredSchema:
        self.calls.append(f"schema {schema_id}")
        await asyncio.sleep(0)
        return self.schemas[schema_id]

    async def version(self, subject: str, version: int) -> RegisteredSchema:
        self.calls.append(f"version {subject} {version}")
        return self.versions[subject, version]


async def test_the_registry_is_asked_once_by_many_tasks() -> None:
    registry = Registry()
    serializer = AvroSerializer(registry, "int")
    first: list[Any] = [serializer.serialize("t", number) for number in range(3)]
    assert await asyncio.gather(*first) == [
        b"\x00\x00\x00\x00\x01" + number for number in (b"\x00", b"\x02", b"\x04")
    ]
    assert serializer.serialize("t", 3) == b"\x00\x00\x00\x00\x01\x06"
    assert registry.calls == ["register t-value"]
    deserializer = AvroDeserializer(registry)
    read: list[Any] = [deserializer.deserialize("t", b"\0\0\0\0\x01\x04") for _ in range(3)]
    assert await asyncio.gather(*read) == [2, 2, 2]
    assert deserializer.deserialize("t", b"\x00\x00\x00\x00\x01\x06") == 3
    assert registry.calls == ["register t-value", "schema 1"]


def test_one_object_serves_several_event_loops() -> None:
    registry = Registry()
    serializer = AvroSerializer(registry, "int")

    async def serialize(topic: str) -> None:
        waiting: list[Any] = [serializer.serialize(topic, 1) for _ in range(3)]
        await asyncio.gather(*waiting)

    for topic in ("first", "second"):
        asyncio.run(serialize(topic))
    assert registry.calls == ["register first-value", "register second-value"]


async def test_a_tombstone_stays_one() -> None:
    registry = Registry()
    assert AvroSerializer(registry, "int").serialize("t", None) is None
    assert AvroDeserializer(registry).deserialize("t", None) is None
    assert registry.calls == []


async def test_a_schema_that_must_exist_is_not_registered() -> None:
    registry = Registry()
    serializer = AvroSerializer(registry, "int", is_key=True, auto_register=False)
    first: Any = serializer.serialize("t", 1)
    with pytest.raises(SchemaRegistryError, match="not there"):
        await first
    await registry.register("t-key", '"int"')
    again: Any = serializer.serialize("t", 1)
    assert await again == b"\x00\x00\x00\x00\x01\x02"
    assert registry.calls == ["find_id t-key", "register t-key", "find_id t-key"]


async def test_a_value_that_does_not_fit_needs_no_registry() -> None:
    registry = Registry()
    with pytest.raises(SchemaError, match="the value does not fit"):
        AvroSerializer(registry, "int").serialize("t", "x")
    with pytest.raises(SchemaError, match="not in Confluent's wire format"):
        AvroDeserializer(registry).deserialize("t", b"{}")
    assert registry.calls == []


async def test_schemas_that_a_schema_names_are_read_once() -> None:
    registry = Registry()
    item = Reference("Item", "item", 1)
    registry.versions["item", 1] = RegisteredSchema(ITEM)
    registry.versions["cart", 4] = RegisteredSchema(CART, (item,))
    union = RegisteredSchema('["Item","Cart"]', (Reference("Cart", "cart", 4), item))
    registry.schemas[9] = union
    read: Any = AvroDeserializer(registry).deserialize("t", b"\x00\x00\x00\x00\x09\x02\x0e")
    assert await read == {"item": {"n": 7}}
    assert registry.calls == ["schema 9", "version cart 4", "version item 1"]


async def test_schemas_that_name_each_other_without_end_are_refused() -> None:
    registry = Registry()
    for number in range(200):
        following = Reference("x", "s", number + 1)
        registry.versions["s", number] = RegisteredSchema('"int"', (following,))
    registry.schemas[1] = RegisteredSchema('"int"', (Reference("x", "s", 0),))
    read: Any = AvroDeserializer(registry).deserialize("t", b"\x00\x00\x00\x00\x01\x02")
    with pytest.raises(SchemaError, match="more than 100 others"):
        await read
    assert len(registry.calls) == 101


async def test_a_reader_has_its_own_schema() -> None:
    registry = Registry()
    registry.schemas[1] = RegisteredSchema('"int"')
    read: Any = AvroDeserializer(registry, "double").deserialize("t", b"\x00\x00\x00\x00\x01\x04")
    value = await read
    assert (value, type(value)) == (2.0, float)

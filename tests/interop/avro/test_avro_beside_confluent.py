"""Our Avro serializers and Confluent's read each other's records, with Apicurio's registry."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla import Consumer, Producer
from ottla.client.avro import AvroDeserializer, AvroSerializer, SchemaRegistry
from ottla.client.errors import DeserializationError, SchemaRegistryError, SerializationError
from ottla.testing import Broker
from tests.certificates import Authority
from tests.interop.avro.strangers import Registry, needs_strangers, registry, run_confluent

pytestmark = needs_strangers
PAGE = Path(__file__).parents[3] / "docs" / "avro.md"
EXAMPLE = re.compile(r"```python\n(?P<program>.*?)```\n```text\n(?P<output>.*?)```", re.DOTALL)
TIMEOUT_S = 60
ORDER = """{
  "type": "record", "name": "shop.Order",
  "fields": [
    {"name": "customer", "type": "string"},
    {"name": "amount", "type": "long"},
    {"name": "weight", "type": "double"},
    {"name": "paid", "type": "boolean", "default": false},
    {"name": "note", "type": ["null", "string"], "default": null},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "prices", "type": {"type": "map", "values": "float"}},
    {"name": "parent", "type": ["null", "shop.Order"], "default": null}
  ]
}"""
LATER_ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "customer", "type": "string"},
        {"name": "currency", "type": "string", "default": "EUR"},
    ],
}
ITEM = '{"type":"record","name":"shop.Item","fields":[{"name":"n","type":"int"}]}'
CART = '{"type":"record","name":"shop.Cart","fields":[{"name":"item","type":"shop.Item"}]}'


def order(number: int) -> dict[str, Any]:
    parent: Any = None if number % 3 else order(number + 1)
    return {
        "customer": f"Grüße {number}",
        "amount": number * 10**12 - 5,
        "weight": number / 7,
        "paid": number % 2 == 0,
        "note": None if number % 2 else "fragile",
        "state": "SENT" if number % 2 else "NEW",
        "tags": [str(each) for each in range(number % 4)],
        "prices": {"net": 0.5, "gross": number + 0.25},
        "parent": parent,
    }


RECORDS: list[Any] = [[f"key-{number}", order(number)] for number in range(200)]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def apicurio(authority: Authority) -> Iterator[Registry]:
    with registry(authority) as running:
        yield running


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


async def read_all(bootstrap: str, topic: str, count: int, values: AvroDeserializer) -> list[Any]:
    keys = AvroDeserializer(values._registry)
    async with Consumer(
        bootstrap,
        key_deserializer=keys,
        value_deserializer=values,
        auto_offset_reset="earliest",
    ) as consumer:
        await consumer.assign_topics(topic)
        found: list[Any] = []
        async with asyncio.timeout(TIMEOUT_S):
            while len(found) < count:
                found += [[each.key, each.value] for each in await consumer.fetch_batch()]
        return found


async def test_confluents_consumer_reads_our_records(bootstrap: str, apicurio: Registry) -> None:
    client = SchemaRegistry(apicurio.url)
    async with Producer(
        bootstrap,
        key_serializer=AvroSerializer(client, "string", is_key=True),
        value_serializer=AvroSerializer(client, ORDER),
    ) as producer:
        for key, value in RECORDS:
            await producer.send("ours", value, key=key)
    found = await asyncio.to_thread(
        run_confluent, "read", bootstrap, apicurio.url, "ours", str(len(RECORDS))
    )
    assert found == RECORDS
    assert apicurio.versions("ours-value") == [1]
    assert {"ours-key", "ours-value"} <= set(await client.subjects())


async def test_we_read_the_records_of_confluents_producer(
    bootstrap: str, apicurio: Registry
) -> None:
    arguments = ("write", bootstrap, apicurio.url, "theirs", ORDER)
    await asyncio.to_thread(run_confluent, *arguments, records=RECORDS)
    client = SchemaRegistry(apicurio.url)
    assert await read_all(bootstrap, "theirs", 200, AvroDeserializer(client)) == RECORDS
    later = await read_all(bootstrap, "theirs", 200, AvroDeserializer(client, LATER_ORDER))
    assert later == [
        [key, {"customer": value["customer"], "currency": "EUR"}] for key, value in RECORDS
    ]


async def test_both_share_one_version_of_a_schema(bootstrap: str, apicurio: Registry) -> None:
    client = SchemaRegistry(apicurio.url)
    async with Producer(bootstrap, value_serializer=AvroSerializer(client, ORDER)) as producer:
        await producer.send_and_wait("shared", order(1))
    arguments = ("write", bootstrap, apicurio.url, "shared", ORDER)
    await asyncio.to_thread(run_confluent, *arguments, records=RECORDS[:2])
    assert apicurio.versions("shared-value") == [1]
    # They name a primitive type in their own way.
    theirs = AvroSerializer(client, {"type": "string"}, is_key=True, auto_register=False)
    encoded: Any = theirs.serialize("shared", "x")
    assert (await encoded)[5:] == b"\x02x"


async def test_schemas_with_references_are_read(bootstrap: str, apicurio: Registry) -> None:
    client = SchemaRegistry(apicurio.url)
    await client.register("shop.Item", ITEM)
    references = '[["shop.Item", "shop.Item", 1]]'
    records = [["a", {"item": {"n": 7}}], ["b", {"item": {"n": -8}}]]
    arguments = ("write", bootstrap, apicurio.url, "carts", CART, references)
    await asyncio.to_thread(run_confluent, *arguments, records=records)
    assert await read_all(bootstrap, "carts", 2, AvroDeserializer(client)) == records


async def test_a_refusal_of_the_registry_reaches_the_program(
    bootstrap: str, apicurio: Registry
) -> None:
    client = SchemaRegistry(apicurio.url)
    unknown = AvroSerializer(client, ORDER, auto_register=False)
    async with Producer(bootstrap, value_serializer=unknown) as producer:
        with pytest.raises(SerializationError, match="the registry answered 404") as raised:
            await producer.send("unknown", order(1))
        assert isinstance(raised.value.__cause__, SchemaRegistryError)
    async with Producer(bootstrap) as producer:
        await producer.send_and_wait("unknown", b"\x00\x00\x01\x86\x9f\x00")
        await producer.send_and_wait("unknown", b'{"json": 1}')
    async with Consumer(
        bootstrap, value_deserializer=AvroDeserializer(client), auto_offset_reset="earliest"
    ) as consumer:
        [partition] = await consumer.assign_topics("unknown")
        with pytest.raises(DeserializationError, match=r"404 \(40403\)"):
            await consumer.fetch_batch()
        consumer.seek(partition, 1)
        with pytest.raises(DeserializationError, match="not in Confluent's wire format"):
            await consumer.fetch_batch()


async def test_a_registry_with_tls_is_reached(authority: Authority, apicurio: Registry) -> None:
    trusted = str(authority.own.certificate)
    client = SchemaRegistry(apicurio.tls_url, ssl_cafile=trusted, basic_auth=("ada", "s3cret"))
    first = await client.register("tls-value", ORDER)
    assert await client.find_id("tls-value", ORDER) == first
    with pytest.raises(SchemaRegistryError, match="CERTIFICATE_VERIFY_FAILED"):
        await SchemaRegistry(apicurio.tls_url).subjects()


def test_the_program_on_the_page_prints_its_output(authority: Authority) -> None:
    page = PAGE.read_text()
    [example] = EXAMPLE.finditer(page)
    assert page.count("```python") == 1
    with Broker() as broker, registry(authority) as running:
        program = example["program"].replace("localhost:9092", broker.bootstrap)
        program = program.replace("http://localhost:8081", running.url)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.stdout == example["output"], done.stderr

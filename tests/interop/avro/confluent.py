"""Confluent's Avro serializers, in an environment of their own: records as lines of JSON.

confluent.py write BOOTSTRAP REGISTRY TOPIC SCHEMA [REFERENCES]   from standard input
confluent.py read BOOTSTRAP REGISTRY TOPIC COUNT                  to standard output
"""

import json
import sys
import time

from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

TIMEOUT_S = 60


def write(bootstrap: str, url: str, topic: str, schema: str, references: str = "[]") -> None:
    """Write the records of standard input, each a pair of key and value."""
    named = [SchemaReference(*each) for each in json.loads(references)]
    client = SchemaRegistryClient({"url": url})
    producer = Producer({"bootstrap.servers": bootstrap})
    keys = AvroSerializer(client, '"string"')
    values = AvroSerializer(client, Schema(schema, "AVRO", named))
    for line in sys.stdin:
        key, value = json.loads(line)
        if isinstance(value, list):
            value = tuple(value)
        producer.produce(
            topic,
            key=keys(key, SerializationContext(topic, MessageField.KEY)),
            value=values(value, SerializationContext(topic, MessageField.VALUE)),
        )
    assert producer.flush(TIMEOUT_S) == 0


def read(bootstrap: str, url: str, topic: str, count: str) -> None:
    """Print `count` records, each a pair of key and value."""
    client = SchemaRegistryClient({"url": url})
    keys, values = AvroDeserializer(client), AvroDeserializer(client)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "judge", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    deadline_s, left = time.monotonic() + TIMEOUT_S, int(count)
    while left:
        assert time.monotonic() < deadline_s, f"{left} records are missing"
        message = consumer.poll(1.0)
        if message is None:
            continue
        assert message.error() is None, message.error()
        key = keys(message.key(), SerializationContext(topic, MessageField.KEY))
        value = values(message.value(), SerializationContext(topic, MessageField.VALUE))
        sys.stdout.write(json.dumps([key, value]) + "\n")
        left -= 1
    consumer.close()


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(*sys.argv[2:])
    else:
        read(*sys.argv[2:])

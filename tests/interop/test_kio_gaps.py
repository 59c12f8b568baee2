"""Old versions that kio lacks agree with kafka-python's handwritten schemas.

Its structs are positional: a message is a sequence of its fields' values, on all levels.
"""

import importlib
import pkgutil
from typing import Any

import pytest

from kafkawire.apis import APIS, Api, ApiKey
from kafkawire.declaration import Layout, WireType, layout_of
from kafkawire.schema import decode, encode
from tests.unit.kafkawire.message_values import message_of

SEEDS = range(12)

OLD_VERSIONS = {
    ApiKey.PRODUCE: range(3),
    ApiKey.LIST_OFFSETS: range(1),
    ApiKey.OFFSET_COMMIT: range(2),
    ApiKey.OFFSET_FETCH: range(1),
    ApiKey.CREATE_TOPICS: range(2),
    ApiKey.DELETE_TOPICS: range(1),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: range(2),
    ApiKey.DESCRIBE_ACLS: range(1),
    ApiKey.CREATE_ACLS: range(1),
    ApiKey.DELETE_ACLS: range(1),
    ApiKey.DESCRIBE_CONFIGS: range(1),
    ApiKey.DESCRIBE_LOG_DIRS: range(1),
}

CASES = [
    pytest.param(APIS[key], version, id=f"{APIS[key].name}-v{version}")
    for key, versions in OLD_VERSIONS.items()
    for version in versions
]


# kafka-python loads its resources with a deprecated function of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")


def find_struct(name: str) -> Any:
    """Return kafka-python's class with this name."""
    package = importlib.import_module("kafka.protocol.old")
    for module in pkgutil.iter_modules(package.__path__, "kafka.protocol.old."):
        found = getattr(importlib.import_module(module.name), name, None)
        if found is not None:
            return found
    raise LookupError(name)


# Its DescribeLogDirsRequest has one partition per topic, where Kafka's schema has an array.
REQUEST_CASES = [case for case in CASES if case.id != "DescribeLogDirs-v0"]


@pytest.mark.parametrize(("api", "version"), REQUEST_CASES)
def test_requests_agree_with_kafka_python(api: Api, version: int) -> None:
    check(api.request, version, find_struct(f"{api.name}Request_v{version}"))


@pytest.mark.parametrize(("api", "version"), CASES)
def test_responses_agree_with_kafka_python(api: Api, version: int) -> None:
    check(api.response, version, find_struct(f"{api.name}Response_v{version}"))


def check(message_type: type[object], version: int, struct: Any) -> None:
    layout = layout_of(message_type)
    for seed in SEEDS:
        message = message_of(message_type, version, seed)
        values = positional(layout, message, version)
        data = struct.SCHEMA.encode(values)
        assert encode(message, version) == data
        assert decode(message_type, data, version) == message
        assert positional(layout, decode(message_type, data, version), version) == values


def positional(layout: Layout, message: object, version: int) -> list[object]:
    present = [each for each in layout.fields if each.is_in(version)]
    return [value_of(each.wire, getattr(message, each.name), version) for each in present]


def value_of(wire: WireType[object], value: Any, version: int) -> Any:
    if wire.element is not None and value is not None:
        return [value_of(wire.element, each, version) for each in value]
    if wire.layout is not None:
        return positional(wire.layout, value, version)
    return value

"""The messages between controller and brokers, byte for byte.

Clients never send them and kio lacks them. They are therefore compared with golden bytes, produced
once by an independent encoder from the message schemas of Kafka 3.9. Each message is filled by one
rule: numbers count 1, 2, 3, ...; strings are "s" and the count; bools are true; an array has one
struct or two numbers.
"""

import itertools
import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.apis import APIS
from kafkawire.declaration import Kind, Layout, WireType, layout_of
from kafkawire.schema import decode, encode

GOLDEN: dict[str, str] = json.loads(
    Path(__file__).with_name("golden_controller_messages.json").read_text(encoding="ascii")
)
MESSAGES = {
    message_type.__name__: message_type
    for api in APIS.values()
    for message_type in (api.request, api.response)
}


@pytest.mark.parametrize("case", GOLDEN)
def test_controller_messages_have_kafkas_bytes(case: str) -> None:
    name, version = case.split()
    message_type, data = MESSAGES[name], bytes.fromhex(GOLDEN[case])
    message = counted(layout_of(message_type), int(version), itertools.count(1))
    assert encode(message, int(version)) == data
    assert decode(message_type, data, int(version)) == message


def counted(layout: Layout, version: int, count: Iterator[int]) -> object:
    present = [each for each in layout.fields if each.is_in(version)]
    return layout.type(**{each.name: value(each.wire, version, count) for each in present})


def value(wire: WireType[object], version: int, count: Iterator[int]) -> object:
    if wire.layout is not None:
        return counted(wire.layout, version, count)
    if wire.element is not None:
        elements = 2 if wire.element.kind is Kind.FIXED else 1
        return [value(wire.element, version, count) for _ in range(elements)]
    number = next(count)
    if wire.kind is Kind.STRING:
        return f"s{number}"
    if wire.kind is Kind.UUID:
        return uuid.UUID(int=number)
    return wire.name == "bool" or number

"""Values become Avro and back; every mistake in schema, value or bytes is one error."""

import json
import sys
from typing import Any

import pytest

from ottla.client.avro.codec import Codec, schema_text
from ottla.client.errors import ConfigurationError, SchemaError

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "int"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
NODE = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}


def test_a_value_becomes_the_bytes_of_avros_specification_and_back() -> None:
    codec = Codec(schema_text(ORDER))
    data = codec.encode({"customer": "ada", "amount": -1})
    assert data == b"\x06ada\x01\x00"
    assert codec.decode(data) == {"customer": "ada", "amount": -1, "note": None}
    assert codec.record_name == "shop.Order"


def test_a_reader_sees_the_fields_of_its_own_schema() -> None:
    reader = Codec(
        schema_text(
            {
                "type": "record",
                "name": "shop.Order",
                "fields": [
                    {"name": "amount", "type": "long"},
                    {"name": "currency", "type": "string", "default": "EUR"},
                ],
            }
        )
    )
    writer = Codec(schema_text(ORDER))
    data = writer.encode({"customer": "ada", "amount": 3})
    assert writer.decode(data, reader) == {"amount": 3, "currency": "EUR"}
    with pytest.raises(SchemaError, match="does not fit its schema: SchemaResolutionError"):
        writer.decode(data, Codec('"bytes"'))


@pytest.mark.parametrize("text", ['"string"', "string"])
def test_a_primitive_type_is_a_schema(text: str) -> None:
    codec = Codec(schema_text(text))
    assert codec.decode(codec.encode("Grüße")) == "Grüße"
    assert codec.record_name is None


def test_types_of_other_schemas_are_found() -> None:
    item = '{"type":"record","name":"shop.Item","fields":[{"name":"n","type":"int"}]}'
    order = '{"type":"record","name":"shop.Cart","fields":[{"name":"item","type":"shop.Item"}]}'
    cart = {"item": {"n": 7}}
    whole = Codec(order, [item])
    assert whole.decode(whole.encode(cart)) == cart
    either = Codec('["null","shop.Item","shop.Cart"]', [item, order])
    assert either.decode(either.encode(cart)) == cart
    assert Codec('"shop.Cart"', [item, order]).decode(whole.encode(cart)) == cart


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the schema cannot be used: JSONDecodeError"),
        ("null", "the schema cannot be used: TypeError"),
        ('"shop.Missing"', "the schema cannot be used: UnknownType: shop.Missing"),
        ('{"type":"record"}', "the schema cannot be used: SchemaParseException"),
        ('{"type":"fixed","name":"F"}', "the schema cannot be used: "),
        ('{"type":"array"}', "the schema cannot be used: KeyError: 'items'"),
        ('"\\u001b[31m"', r"UnknownType: \\x1b\[31m"),
        ("[" * 100_000, "the schema cannot be used: RecursionError"),
        ('{"type":"array","items":"null"}', "an array of items that take no bytes"),
    ],
)
def test_a_text_that_is_no_schema_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason) as raised:
        Codec(text)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    "value", [None, 5, "x", {}, {"customer": 1, "amount": 1}, {"customer": "a", "amount": "b"}]
)
def test_a_value_that_does_not_fit_is_refused(value: Any) -> None:
    with pytest.raises(SchemaError, match="the value does not fit the schema: "):
        Codec(schema_text(ORDER)).encode(value)


@pytest.mark.parametrize(
    "data", [b"", b"\x06ad", b"\x06ada", b"\x04\xff\xff\x00\x00", b"\x06ada\x00\x08", b"\x80" * 20]
)
def test_bytes_that_do_not_fit_are_refused(data: bytes) -> None:
    with pytest.raises(SchemaError, match="the data does not fit its schema: "):
        Codec(schema_text(ORDER)).decode(data)


def test_bytes_behind_the_value_are_refused() -> None:
    with pytest.raises(SchemaError, match="the data does not fit its schema: 2 bytes are left"):
        Codec('"int"').decode(b"\x02xx")


def test_a_value_within_itself_is_read_to_a_limit_without_harm_to_the_process() -> None:
    codec = Codec(json.dumps(NODE))
    assert codec.decode(b"\x02\x02\x00") == {"next": {"next": {"next": None}}}
    with pytest.raises(SchemaError, match="RecursionError"):
        codec.decode(b"\x02" * 1_000_000 + b"\x00")


def test_the_missing_package_is_an_error_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ConfigurationError, match="pip install"):
        Codec('"int"')

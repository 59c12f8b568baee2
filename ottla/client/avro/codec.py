"""Avro values as bytes, by fastavro (decision).

fastavro raises errors of any class for schemas, values and bytes that it does not expect. Here
each becomes one SchemaError.
"""

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, Final

from ottla.client.avro.answer import shown
from ottla.client.avro.shape import Shape, check_json, measure
from ottla.client.errors import ConfigurationError, OttlaError, SchemaError

JsonSchema = str | list[Any] | dict[str, Any]


class Codec:
    """A schema that is ready to write and read values."""

    def __init__(self, text: str, others: Sequence[str] = ()) -> None:
        """Parse a schema in JSON; `others` are schemas whose types it names, each before its users.

        Raises:
            SchemaError: one of them is no Avro schema, or its values would have no limits.
        """
        try:
            schema, shape = _prepare(text, others)
        except OttlaError:
            raise
        except Exception as error:
            raise SchemaError(f"the schema cannot be used: {_reason(error)}") from error
        self.schema: Final[Any] = schema
        self._is_recursive = shape.is_recursive

    @property
    def record_name(self) -> str | None:
        """The full name of the record, enum or fixed type; None for other schemas."""
        return self.schema.get("name") if isinstance(self.schema, dict) else None

    def encode(self, value: Any) -> bytes:
        """Return the bytes of `value`.

        Raises:
            SchemaError: the value does not fit the schema.
        """
        file = BytesIO()
        try:
            _fastavro().schemaless_writer(file, self.schema, value)
        except Exception as error:
            raise SchemaError(f"the value does not fit the schema: {_reason(error)}") from error
        return file.getvalue()

    def decode(self, data: bytes, reader: "Codec | None" = None) -> Any:
        """Return the value of `data`, with the fields of the schema of `reader`, if given.

        Raises:
            SchemaError: the bytes do not fit the schema.
        """
        file = BytesIO(data)
        try:
            value = self._read()(file, self.schema, None if reader is None else reader.schema)
        except Exception as error:
            raise SchemaError(f"the data does not fit its schema: {_reason(error)}") from error
        if (left := len(data) - file.tell()) != 0:
            raise SchemaError(f"the data does not fit its schema: {left} bytes are left over")
        return value

    def _read(self) -> Any:
        if not self._is_recursive:
            return _fastavro().schemaless_reader
        # The compiled reader ends the process if values are nested too deeply; this one raises.
        from fastavro import _read_py

        return _read_py.schemaless_reader


def schema_text(schema: JsonSchema) -> str:
    """Return the JSON of a schema that a program gave as text or as JSON's objects."""
    if isinstance(schema, str) and not schema.isidentifier():
        return schema
    return json.dumps(schema, separators=(",", ":"))


def _prepare(text: str, others: Sequence[str]) -> tuple[Any, Shape]:
    named: dict[str, Any] = {}
    parsed = [_parse(other, named) for other in others]
    tops = {each["name"]: each for each in parsed if isinstance(each, dict) and "name" in each}
    schema = _with_types(_parse(text, named), tops)
    return schema, measure(schema, named)


def _parse(text: str, named: dict[str, Any]) -> Any:
    """Return a schema, parsed; add its types to `named`, and find others there."""
    schema = json.loads(text)
    check_json(schema)
    return _fastavro().parse_schema(schema, named_schemas=named)


def _with_types(schema: Any, tops: Mapping[str, Any]) -> Any:
    """Return `schema` with the types of other schemas where a union or the whole only names them.

    fastavro keeps the types of other schemas with records alone.
    """
    if isinstance(schema, list):
        return [tops.get(each, each) if isinstance(each, str) else each for each in schema]
    return tops.get(schema, schema) if isinstance(schema, str) else schema


def _reason(error: Exception) -> str:
    text = str(error)
    return shown(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def _fastavro() -> Any:
    # The client itself needs no library.
    try:
        import fastavro
    except ImportError as error:
        raise ConfigurationError("Avro needs fastavro: pip install 'ottla[avro]'") from error
    return fastavro

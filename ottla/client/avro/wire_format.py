"""Confluent's wire format: a zero byte, the id of the schema, then the value (decision)."""

import struct
from typing import Final

from ottla.client.errors import SchemaError

MAGIC: Final = 0
MAX_SCHEMA_ID: Final = 2**31 - 1
_HEAD: Final = struct.Struct(">bi")


def frame(schema_id: int, payload: bytes) -> bytes:
    """Return the bytes of a record whose value `payload` has the schema `schema_id`."""
    return _HEAD.pack(MAGIC, schema_id) + payload


def unframe(data: bytes) -> tuple[int, bytes]:
    """Return the schema id and the value of a record.

    Raises:
        SchemaError: the bytes do not have the format.
    """
    if len(data) < _HEAD.size:
        raise SchemaError(
            f"{len(data)} bytes cannot hold a schema id: the data is not in Confluent's wire format"
        )
    magic, schema_id = _HEAD.unpack_from(data)
    if magic != MAGIC or schema_id < 0:
        raise SchemaError(
            f"the data begins with {data[: _HEAD.size].hex()}, not with 00 and a schema id: it is "
            "not in Confluent's wire format"
        )
    return schema_id, data[_HEAD.size :]

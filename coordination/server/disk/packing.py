"""Typed wrapper of msgpack (decision), which has no type hints."""

from collections.abc import Iterator
from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]


def pack(value: Any) -> bytes:
    """Return the msgpack bytes of `value`."""
    packed: bytes = msgpack.packb(value)
    return packed


def unpack(data: bytes) -> Any:
    """Return the value in `data`; arrays become tuples.

    Raises:
        ValueError: `data` is not exactly one msgpack value.
    """
    return msgpack.unpackb(data, use_list=False, strict_map_key=False)


def unpack_stream(data: memoryview) -> Iterator[Any]:
    """Yield the consecutive values in `data`."""
    unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False, max_buffer_size=len(data))
    unpacker.feed(data)
    yield from unpacker

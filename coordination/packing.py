"""The one place that knows msgpack (decision): typed entry points to an untyped package."""

from collections.abc import Iterator
from typing import Any

import msgpack  # type: ignore[import-untyped,unused-ignore]


def pack(value: Any) -> bytes:
    """Return the msgpack bytes of `value`."""
    packed: bytes = msgpack.packb(value)
    return packed


def unpack(data: bytes) -> Any:
    """Return the value in `data`; arrays come back as tuples.

    Raises:
        ValueError: not exactly one msgpack value.
    """
    return msgpack.unpackb(data, use_list=False, strict_map_key=False)


def unpack_stream(data: memoryview) -> Iterator[Any]:
    """Yield the values that stand one behind the other in `data`."""
    unpacker = msgpack.Unpacker(use_list=False, strict_map_key=False, max_buffer_size=len(data))
    unpacker.feed(data)
    yield from unpacker

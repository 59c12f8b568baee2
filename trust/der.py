"""Reads values in DER, the encoding of certificates and keys (decision).

Source: X.690.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

INTEGER: Final = 0x02
OCTET_STRING: Final = 0x04
OBJECT_ID: Final = 0x06
SEQUENCE: Final = 0x30
SET: Final = 0x31
CONSTRUCTED: Final = 0x20
"""Bit of the tags whose content consists of other values."""
_LONG_LENGTH: Final = 0x80
_MAX_LENGTH_BYTES: Final = 4

Item = tuple[int, bytes, bytes]
"""Tag, content, and the whole encoding."""


def items(data: bytes) -> Iterator[Item]:
    """Yield the encodings that follow each other in `data`.

    Raises:
        ValueError: one of them is not DER, or is cut off.
    """
    position = 0
    while position < len(data):
        start, tag, position = position, data[position], position + 2
        length = int.from_bytes(data[position - 1 : position], "big")
        if length >= _LONG_LENGTH:
            count = length - _LONG_LENGTH
            if not 0 < count <= _MAX_LENGTH_BYTES:
                raise ValueError("a length that DER does not allow")
            length = int.from_bytes(data[position : position + count], "big")
            position += count
        end = position + length
        if end > len(data) or position < start + 2:
            raise ValueError("an encoding is cut off")
        yield tag, data[position:end], data[start:end]
        position = end


def only(data: bytes) -> Item:
    """Return the one encoding in `data`.

    Raises:
        ValueError: there is none, or more than one.
    """
    [item] = items(data)
    return item


def content(item: Item, tag: int) -> bytes:
    """Return the content of a value of one type.

    Raises:
        ValueError: it has another type.
    """
    if item[0] != tag:
        raise ValueError(f"tag {item[0]:#x} in place of {tag:#x}")
    return item[1]

"""The elements of Kafka's encoding other than single fixed-size numbers (decision).

These are unsigned varints, unknown tagged fields, topic ids, arrays of numbers, and the errors that
all readers raise. The compiled readers and writers call them only off their fast path: a length
below 128 is one byte, and the generated code itself handles it.

Source: the protocol guide's "Protocol Primitive Types" and KIP-482 (flexible versions).
"""

import uuid
from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct, pack, unpack_from
from typing import Final, Protocol, TypeAlias

from kafkawire.errors import DecodeError, EncodeError, TrailingBytesError

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_STRING_BYTES: Final = 0x7FFF
"""Kafka rejects longer strings, even if a varint could encode the length."""

MAX_TAGGED_FIELDS: Final = 16
"""Limit per struct or header. No declared struct has more than five."""

MAX_UVARINT: Final = 0xFFFF_FFFF
_MAX_UVARINT_BYTES: Final = 5

_SMALL_ARRAY_ITEMS: Final = 16
"""Arrays of numbers up to this length have a precompiled `Struct`: replica lists are short."""


class RecordsRegion(Protocol):
    """Record batches outside of memory, such as in a file, which are sent without being read."""

    @property
    def size_bytes(self) -> int:
        """Number of bytes that will be sent."""


Records: TypeAlias = Buffer | RecordsRegion


# Errors of readers. They return the exception, so that generated code can `raise short(...)`.


def short(field: str, size_bytes: int, left_bytes: int) -> DecodeError:
    """The input ends before the field does."""
    return DecodeError(f"{field} has {size_bytes} bytes, {left_bytes} are left")


def too_many(field: str, count: int, left_bytes: int) -> DecodeError:
    """An array announces more elements than the rest of the input can hold."""
    return DecodeError(f"{field} has {count} elements, which {left_bytes} bytes cannot hold")


def too_many_items(field: str) -> DecodeError:
    """With this array, the message exceeds the reader's limit on elements."""
    return DecodeError(f"{field} makes it more elements than one request may have")


def too_many_tags(count: int) -> DecodeError:
    """A struct or header has more tagged fields than any of its versions."""
    return DecodeError(f"{count} tagged fields; at most {MAX_TAGGED_FIELDS}")


def bad_length(field: str, length: int) -> DecodeError:
    """A length is negative and has no meaning, or the field is null and must not be."""
    return DecodeError(f"{field} is null" if length == -1 else f"{field} has length {length}")


def long_string(field: str, size_bytes: int) -> DecodeError:
    """A string is longer than the protocol allows."""
    return DecodeError(f"{field} has {size_bytes} bytes, a string has at most {MAX_STRING_BYTES}")


def malformed_text(field: str, data: Buffer) -> str:
    """Return text that is not UTF-8, with U+FFFD for its malformed bytes as in Kafka.

    Raises:
        DecodeError: with U+FFFD it is too long to be sent or stored again.
    """
    text = str(data, "utf-8", "replace")
    size_bytes = len(text.encode())
    if size_bytes > MAX_STRING_BYTES:
        raise long_string(field, size_bytes)
    return text


def bad_tag_size(tag: int, position: int, stop: int) -> DecodeError:
    """A tagged field does not fill its announced size."""
    return DecodeError(f"tagged field {tag} ends at byte {position}, announced was {stop}")


def trailing(left_bytes: int) -> TrailingBytesError:
    """The message ends before the input does."""
    return TrailingBytesError(left_bytes)


# Unsigned varints: seven bits per byte, the lowest first, the top bit set on all but the last.


def uvarint(value: int) -> bytes:
    """Return `value` as an unsigned varint.

    Raises:
        EncodeError: `value` does not fit in 32 bits.
    """
    if not 0 <= value <= MAX_UVARINT:
        raise EncodeError(f"an unsigned varint is within 0..{MAX_UVARINT}, got {value}")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string_length(length: int) -> bytes:
    """Return the varint `length` (bytes of a string, plus one) unless the string is too long."""
    if length > MAX_STRING_BYTES + 1:
        raise EncodeError(f"a string has at most {MAX_STRING_BYTES} bytes, got {length - 1}")
    return uvarint(length)


def read_uvarint(buf: Buffer, position: int) -> tuple[int, int]:
    """Return the varint at `position` and the position after it; IndexError if it is truncated."""
    first = buf[position]
    if first < 0x80:
        return first, position + 1
    return continue_uvarint(first, buf, position + 1)


def continue_uvarint(first: int, buf: Buffer, position: int) -> tuple[int, int]:
    """Continue `read_uvarint` after `first`, a byte that announces more bytes."""
    value = first & 0x7F
    for shift in range(7, 7 * _MAX_UVARINT_BYTES, 7):
        byte = buf[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        raise DecodeError(f"a varint has more than {_MAX_UVARINT_BYTES} bytes")
    if value > MAX_UVARINT:
        raise DecodeError(f"a varint has more than 32 bits: {value}")
    return value, position


def skip_tags(buf: Buffer, position: int, count: int, end: int) -> int:
    """Return the position after `count` unknown tagged fields."""
    if count > MAX_TAGGED_FIELDS:
        raise too_many_tags(count)
    for _ in range(count):
        tag, position = read_uvarint(buf, position)
        size_bytes, position = read_uvarint(buf, position)
        if size_bytes > end - position:
            raise short(f"tagged field {tag}", size_bytes, end - position)
        position += size_bytes
    return position


def records_size_bytes(records: Records) -> int:
    """Return the number of bytes that `records` takes on the wire."""
    if isinstance(records, memoryview):
        return records.nbytes
    if isinstance(records, (bytes, bytearray)):
        return len(records)
    return records.size_bytes


# The constructor uuid.UUID takes over a microsecond to check and convert its arguments. An id needs
# only the two slots that it sets, and a fetch request has one id per topic.
_new_uuid = object.__new__
_set_int = uuid.UUID.__dict__["int"].__set__
_set_is_safe = uuid.UUID.__dict__["is_safe"].__set__
_UNKNOWN_SAFETY: Final = uuid.SafeUUID.unknown


def uuid_from_bytes(data: bytes) -> uuid.UUID:
    """Return the id of these 16 bytes."""
    value = _new_uuid(uuid.UUID)
    _set_int(value, int.from_bytes(data, "big"))
    _set_is_safe(value, _UNKNOWN_SAFETY)
    return value


# Arrays of numbers, read and written in one call each.

NUMBER_CODES: Final = frozenset("bhHiIq")
"""The `struct` characters of the element types of such arrays."""


@cache
def number_array_reader(code: str) -> Callable[[Buffer, int, int], list[int]]:
    """Return a function (buf, position, count) -> numbers, for a `struct` format character."""
    small = [Struct(f">{count}{code}").unpack_from for count in range(_SMALL_ARRAY_ITEMS + 1)]

    def read_numbers(buf: Buffer, position: int, count: int) -> list[int]:
        if count <= _SMALL_ARRAY_ITEMS:
            return list(small[count](buf, position))
        return list(unpack_from(f">{count}{code}", buf, position))

    return read_numbers


@cache
def number_array_writer(code: str, *, compact: bool) -> Callable[[Sequence[int]], bytes]:
    """Return a function numbers -> encoded array, for a `struct` format character."""
    count_code = "B" if compact else "i"
    small = [Struct(f">{count_code}{n}{code}").pack for n in range(_SMALL_ARRAY_ITEMS + 1)]
    extra = 1 if compact else 0

    def write_numbers(numbers: Sequence[int]) -> bytes:
        count = len(numbers)
        if count <= _SMALL_ARRAY_ITEMS:
            return small[count](count + extra, *numbers)
        head = uvarint(count + 1) if compact else pack(">i", count)
        return head + pack(f">{count}{code}", *numbers)

    return write_numbers

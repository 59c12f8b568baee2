"""Jute, ZooKeeper's serialization format (decision): big endian, no tags, fields in order.

A record is a `NamedTuple` whose fields are annotated with the types below. `@record` derives its
reader and writer from them once. Reading copies no more than the value itself, and rejects a length
or count that the remaining bytes cannot hold.
"""

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar, get_type_hints

from coordination.errors import JuteError

T = TypeVar("T")
R = TypeVar("R", bound=tuple[Any, ...])

Read = Callable[[bytes, int], tuple[T, int]]
Write = Callable[[bytearray, T], None]

MAX_INT: Final = 0x7FFFFFFF
_INT = struct.Struct(">i")
_INT_UNPACK = _INT.unpack_from
_NULL = _INT.pack(-1)


class Codec(NamedTuple, Generic[T]):
    """Reader and writer of one type; `fixed` is its `struct` code if its size is fixed."""

    read: Read[T]
    write: Write[T]
    fixed: str | None = None


def _fixed(code: str) -> Codec[Any]:
    packer = struct.Struct(">" + code)
    unpack, pack, size = packer.unpack_from, packer.pack, packer.size

    def read(data: bytes, position: int) -> tuple[Any, int]:
        return unpack(data, position)[0], position + size

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return Codec(read, write, code)


def _slice(data: bytes, position: int) -> tuple[bytes | None, int]:
    size = _INT_UNPACK(data, position)[0]
    start = position + 4
    if size < 0:
        return None, start
    end = start + size
    if end > len(data):
        raise JuteError(f"length {size} at byte {position} exceeds the data of {len(data)} bytes")
    return data[start:end], end


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    value, end = _slice(data, position)
    if value is None:
        raise JuteError(f"null string at byte {position}")
    return value.decode(), end


def _read_nullable_string(data: bytes, position: int) -> tuple[str | None, int]:
    value, end = _slice(data, position)
    return (None if value is None else value.decode()), end


def _write_string(out: bytearray, value: str | None) -> None:
    _write_buffer(out, None if value is None else value.encode())


def _write_buffer(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += _NULL
    else:
        out += _INT.pack(len(value))
        out += value


INT = _fixed("i")
LONG = _fixed("q")
BOOL = _fixed("?")
STRING: Codec[str] = Codec(_read_string, _write_string)
NULLABLE_STRING: Codec[str | None] = Codec(_read_nullable_string, _write_string)
BUFFER: Codec[bytes | None] = Codec(_slice, _write_buffer)

Int = Annotated[int, INT]
Long = Annotated[int, LONG]
Bool = Annotated[bool, BOOL]
UString = Annotated[str, STRING]
NullableUString = Annotated[str | None, NULLABLE_STRING]
Buffer = Annotated[bytes | None, BUFFER]


def vector(
    item: Codec[T], *, smallest_item_bytes: int = 4, max_count: int = MAX_INT
) -> Codec[Sequence[T]]:
    """Return the codec of a vector; a null vector reads as an empty one.

    Reading rejects more than `max_count` items.
    """
    read_item, write_item = item.read, item.write

    def read(data: bytes, position: int) -> tuple[Sequence[T], int]:
        count = _INT_UNPACK(data, position)[0]
        position += 4
        if count * smallest_item_bytes > len(data) - position:
            raise JuteError(f"{count} items at byte {position} exceed the data")
        if count > max_count:
            raise JuteError(f"{count} items at byte {position} exceed the limit of {max_count}")
        values = []
        for _ in range(count):
            value, position = read_item(data, position)
            values.append(value)
        return tuple(values), position

    def write(out: bytearray, values: Sequence[T]) -> None:
        out += _INT.pack(len(values))
        for value in values:
            write_item(out, value)

    return Codec(read, write)


_RECORDS: dict[type, Codec[Any]] = {}


def record(kind: type[R]) -> type[R]:
    """Derive the codec of a `NamedTuple` from its annotations and register it."""
    _RECORDS[kind] = _compile(kind, [_codec_of_field(hint) for hint in _hints(kind)])
    return kind


def codec_of(kind: type[R]) -> Codec[R]:
    """Return the codec that `@record` derived for `kind`."""
    return _RECORDS[kind]


def decode(kind: type[R], data: bytes, position: int = 0) -> tuple[R, int]:
    """Decode one record; return it and the position after it.

    Raises:
        JuteError: the bytes are truncated or malformed.
    """
    try:
        return _RECORDS[kind].read(data, position)
    except (struct.error, UnicodeDecodeError) as error:
        raise JuteError(f"malformed {kind.__name__}: {error}") from error


def encode_into(out: bytearray, value: tuple[Any, ...]) -> None:
    """Append the bytes of one record."""
    _RECORDS[type(value)].write(out, value)


def encode(value: tuple[Any, ...]) -> bytes:
    """Return the bytes of one record."""
    out = bytearray()
    _RECORDS[type(value)].write(out, value)
    return bytes(out)


def _hints(kind: type) -> list[Any]:
    return list(get_type_hints(kind, include_extras=True).values())


def _codec_of_field(hint: Any) -> Codec[Any]:
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, Codec):
            return extra
    return _RECORDS[hint]


def _compile(kind: type[R], fields: list[Codec[Any]]) -> Codec[R]:
    if fields and all(field.fixed is not None for field in fields):
        return _compile_fixed(kind, "".join(field.fixed or "" for field in fields))
    # Generated code for each field: a loop over a list of readers is 50 % slower.
    values = [f"v{n}" for n in range(len(fields))]
    tuple_of_values = f"({', '.join(values)},)"
    lines = ["def read(data, position):"]
    lines += [f"    {value}, position = read_{value}(data, position)" for value in values]
    lines += [f"    return new(kind, {tuple_of_values}), position"]
    lines += ["def write(out, record):", f"    {tuple_of_values} = record"]
    lines += [f"    write_{value}(out, {value})" for value in values]
    names: dict[str, Any] = {"kind": kind, "new": tuple.__new__}
    for value, field in zip(values, fields, strict=True):
        names[f"read_{value}"], names[f"write_{value}"] = field.read, field.write
    exec("\n".join(lines), names)
    return Codec(names["read"], names["write"])


def _compile_fixed(kind: type[R], code: str) -> Codec[R]:
    # One struct call for the whole record: a Stat has eleven fields.
    packer = struct.Struct(">" + code)
    unpack, pack, size = packer.unpack_from, packer.pack, packer.size
    make: Callable[[tuple[Any, ...]], R] = partial(tuple.__new__, kind)

    def read(data: bytes, position: int) -> tuple[R, int]:
        return make(unpack(data, position)), position + size

    def write(out: bytearray, value: R) -> None:
        out += pack(*value)

    return Codec(read, write)

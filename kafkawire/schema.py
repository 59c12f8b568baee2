"""Read and write messages; message files import the tools of a declaration from here (decision).

`decode` and `encode` are inverse for every declared message and version. The reader and writer of a
(message, version) are compiled on first use, in a few milliseconds, and cached.
"""

import struct as _struct
import sys
from itertools import takewhile
from typing import Any, Final, TypeVar

from kafkawire.declaration import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UINT32,
    UUID,
    Kind,
    Layout,
    array,
    field,
    layout_of,
    message,
    struct,
)
from kafkawire.errors import (
    DecodeError,
    EncodeError,
    MisfitError,
    TrailingBytesError,
    WireError,
)
from kafkawire.misfit import find_misfit
from kafkawire.primitives import Buffer, Records, RecordsRegion
from kafkawire.reader import Reader, compile_reader, reader_source
from kafkawire.writer import Parts, Writer, compile_writer, writer_source

__all__ = [
    "BOOL",
    "BYTES",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "RECORDS",
    "STRING",
    "UINT16",
    "UINT32",
    "UNLIMITED_ITEMS",
    "UUID",
    "Buffer",
    "Parts",
    "Records",
    "RecordsRegion",
    "array",
    "decode",
    "encode",
    "encode_into",
    "encode_parts",
    "field",
    "flexible_from",
    "leading_numbers",
    "message",
    "since",
    "source_of",
    "struct",
    "versions_of",
]  # fmt: skip

M = TypeVar("M")

UNLIMITED_ITEMS: Final = sys.maxsize

# Caches of pure functions, by class, then version: a tuple as key would cost more.
_readers: Final[dict[type, dict[int, Reader]]] = {}
_writers: Final[dict[type, dict[int, Writer]]] = {}

_MALFORMED: Final = (_struct.error, IndexError, ValueError)
_MISFIT: Final = (_struct.error, AttributeError, OverflowError, TypeError, ValueError)


def decode(
    message_type: type[M], data: Buffer, version: int, max_items: int = UNLIMITED_ITEMS
) -> M:
    """Return the message in `data`, which must contain nothing else.

    Arrays become lists, `bytes` are copied, `records` are memoryviews of `data`. Unknown tagged
    fields are skipped. Memory is proportional to the size of `data`, regardless of the lengths in
    it: up to 200 times the size for arrays of small elements, unless `max_items` limits the number
    of elements of all arrays together.

    Raises:
        TrailingBytesError: bytes follow the message.
        DecodeError: `data` is not such a message in this version; close the connection.
    """
    try:
        read = _readers[message_type][version]
    except KeyError:
        read = _new_reader(message_type, version)
    try:
        # Without cast(), which is a call: this runs for each request.
        return read(data, max_items)  # type: ignore[return-value]
    except TrailingBytesError as error:
        title = f"{message_type.__name__} v{version}"
        raise TrailingBytesError(error.left_bytes, title) from error
    except DecodeError as error:
        raise DecodeError(f"{message_type.__name__} v{version}: {error}") from error
    except _MALFORMED as error:
        raise DecodeError(f"{message_type.__name__} v{version} is malformed: {error}") from error


def leading_numbers(message_type: type, data: Buffer, version: int) -> dict[str, Any]:
    """Return the fields of the message in `data` that precede the first one of variable size.

    A receiver can judge the sender by them, at a cost that does not depend on the size of `data`.

    Raises:
        DecodeError: `data` is too short for them.
    """
    layout = _declared(message_type, version, DecodeError)
    present = (each for each in layout.fields if each.is_in(version) and each.tag is None)
    numbers = list(takewhile(lambda each: each.wire.kind is Kind.FIXED, present))
    codes = ">" + "".join(each.wire.code for each in numbers)
    try:
        values = _struct.unpack_from(codes, data)
    except _struct.error as error:
        raise DecodeError(f"{message_type.__name__} v{version} is too short") from error
    return dict(zip((each.name for each in numbers), values, strict=True))


def encode(message: object, version: int) -> bytes:
    """Return the bytes of `message` in this version.

    Raises:
        EncodeError: a value does not fit its field; or it belongs to a field that this version
            lacks, and must not be lost; or the version is not declared.
    """
    out = bytearray()
    _write(out, message, version, None)
    return bytes(out)


def encode_into(out: bytearray, message: object, version: int) -> None:
    """Append the result of `encode` to `out`; on an error, `out` is unchanged."""
    _write(out, message, version, None)


def encode_parts(message: object, version: int, head: bytearray | None = None) -> Parts:
    """Like `encode`, but in pieces: `records` values are passed through uncopied.

    The first piece is `head`, if given, with the start of the message appended to it.
    """
    parts: Parts = []
    tail = _write(bytearray() if head is None else head, message, version, parts)
    if tail or not parts:
        parts.append(tail)
    return parts


def versions_of(message_type: type) -> tuple[int, int]:
    """Return the first and the last declared version of a message."""
    versions = layout_of(message_type).versions
    assert versions is not None, f"{message_type.__name__} is part of messages, not one"
    return versions


def flexible_from(message_type: type) -> int | None:
    """Return the first flexible version of a message, or None without one."""
    return layout_of(message_type).flexible


def since(message_type: type, field_name: str) -> int:
    """Return the first version in which a message or struct has the field."""
    return next(each.since for each in layout_of(message_type).fields if each.name == field_name)


def source_of(message_type: type, version: int) -> str:
    """Return the generated source of reader and writer, for inspection."""
    layout = layout_of(message_type)
    return reader_source(layout, version) + "\n\n" + writer_source(layout, version)


def _write(out: bytearray, message: object, version: int, parts: Parts | None) -> bytearray:
    message_type = type(message)
    try:
        write = _writers[message_type][version]
    except KeyError:
        write = _new_writer(message_type, version)
    size_before = len(out)
    try:
        return write(out, message, parts)
    except (EncodeError, *_MISFIT) as error:
        del out[size_before:]
        raise _encode_error(message, version, error) from error


def _encode_error(message: object, version: int, error: Exception) -> EncodeError:
    message_type = type(message)
    layout = layout_of(message_type)
    misfit = find_misfit(layout, message, version)
    # In a newer version the field may be nullable.
    newest = version if layout.versions is None else layout.versions[1]
    is_misfit = misfit is not None and find_misfit(layout, message, newest) is not None
    kind = MisfitError if is_misfit else EncodeError
    return kind(f"{message_type.__name__} v{version}: {misfit or error}")


def _new_reader(message_type: type, version: int) -> Reader:
    layout = _declared(message_type, version, DecodeError)
    return _readers.setdefault(message_type, {}).setdefault(
        version, compile_reader(layout, version)
    )


def _new_writer(message_type: type, version: int) -> Writer:
    layout = _declared(message_type, version, EncodeError)
    return _writers.setdefault(message_type, {}).setdefault(
        version, compile_writer(layout, version)
    )


def _declared(message_type: type, version: int, error: type[WireError]) -> Layout:
    layout = layout_of(message_type)
    first, last = versions_of(message_type)
    if not first <= version <= last:
        raise error(f"{message_type.__name__} has versions {first}-{last}, not {version}")
    return layout
